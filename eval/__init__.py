"""From judged answers to the frontier: samples, pass@k, ensembles, intervals, claims, report.

Importing this package is light: matplotlib, scipy and jinja2 are imported when they are used.
"""

from cef_env.eval.counts import CAUSES, OUTCOMES, Counts, tabulate
from cef_env.eval.intervals import Bootstrap, Interval
from cef_env.eval.passk import ensemble_pass_at_k, pass_at_k
from cef_env.eval.records import Sample
from cef_env.eval.store import Chunk, SampleStore, plan_chunks, read_samples
from cef_env.eval.sweep import Frontier, frontier

__all__ = [
    "CAUSES",
    "OUTCOMES",
    "Bootstrap",
    "Chunk",
    "Counts",
    "Frontier",
    "Interval",
    "Sample",
    "SampleStore",
    "ensemble_pass_at_k",
    "frontier",
    "pass_at_k",
    "plan_chunks",
    "read_samples",
    "tabulate",
]
