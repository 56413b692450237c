"""Programs x tests -> verdicts -> outcome and R_k for every k."""

from cef_env.judge.base import BaseJudge
from cef_env.judge.judge import Judge
from cef_env.judge.languages import Language
from cef_env.judge.shared import shared_judge
from cef_env.judge.types import FormatErrorCause, JudgeResult, Outcome, TestResult, Verdict, classify

__all__ = [
    "BaseJudge",
    "FormatErrorCause",
    "Judge",
    "JudgeResult",
    "Language",
    "Outcome",
    "TestResult",
    "Verdict",
    "classify",
    "shared_judge",
]
