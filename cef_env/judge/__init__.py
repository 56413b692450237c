"""Programs x tests -> verdicts -> outcome and R_k for every k."""

from cef_env.judge.types import FormatErrorCause, JudgeResult, Outcome, TestResult, Verdict

__all__ = ["FormatErrorCause", "JudgeResult", "Outcome", "TestResult", "Verdict"]
