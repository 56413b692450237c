"""From judged answers to the frontier: samples, pass@k, ensembles, intervals, claims, report.

Importing this package is light: matplotlib, scipy and jinja2 are imported when they are used.

    tables = read_tables("runs/sweep")               # or tabulate(samples): counts by split
    analyse(tables)["hard"].claims                   # statistics by split
    write_report("out", tables, meta={...})          # report.html, summary.json, figures/
"""

from cef_env.eval.analysis import SplitAnalysis, analyse
from cef_env.eval.counts import CAUSES, OUTCOMES, Counts, tabulate
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import ensemble_pass_at_k, pass_at_k
from cef_env.eval.plan import Plan, Work
from cef_env.eval.records import Member, Sample
from cef_env.eval.report import write_report
from cef_env.eval.store import Chunk, SampleStore, plan_chunks, read_samples
from cef_env.eval.summary import summarise
from cef_env.eval.sweep import Frontier, frontier
from cef_env.eval.table import claims_table, outcome_table
from cef_env.eval.tables import read_tables
from cef_env.eval.verdicts import Claim

__all__ = [
    "CAUSES",
    "OUTCOMES",
    "Bootstrap",
    "Chunk",
    "Claim",
    "Counts",
    "Frontier",
    "Interval",
    "Member",
    "Plan",
    "Sample",
    "SampleStore",
    "SplitAnalysis",
    "Work",
    "analyse",
    "claims_table",
    "ensemble_pass_at_k",
    "frontier",
    "outcome_table",
    "pass_at_k",
    "plan_chunks",
    "read_samples",
    "read_tables",
    "summarise",
    "tabulate",
    "write_report",
]
