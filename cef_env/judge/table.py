"""How one judged program looks in a terminal, and as JSON.

What programs and checkers printed is shown without anything that a terminal would obey. Does not judge.
"""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cef_env.errors import UserError
from cef_env.judge.difference import Difference, Side, first_difference, first_line_difference, readable
from cef_env.judge.types import JudgeResult, Outcome, TestResult, Verdict
from cef_env.problems.types import Coverage, Problem, TestCase, coverage_level
from cef_env.sandbox.types import Execution

VERDICT_STYLES = {
    Verdict.ACCEPTED: "green",
    Verdict.WRONG_ANSWER: "red",
    Verdict.RUNTIME_ERROR: "magenta",
    Verdict.TIME_LIMIT: "yellow",
    Verdict.MEMORY_LIMIT: "yellow",
    Verdict.OUTPUT_LIMIT: "yellow",
}
OUTCOME_STYLES = {Outcome.CORRECT: "bold green", Outcome.OPTIMIZATION_FAILURE: "bold yellow"}
EXACT_CHECKERS = ("tokens", "lines")
MAX_DETAIL = 200


@dataclass
class Witness:
    """Remembers where the first wrong output of a run parts: `judge.run(..., watch=witness.watch)`."""

    problem: Problem
    difference: Difference | None = None
    """None also where the checker forgives differences: then only the checker can say which one it minds."""

    def watch(self, test: TestCase, execution: Execution, result: TestResult) -> None:
        wrong = result.verdict is Verdict.WRONG_ANSWER
        if not wrong or self.difference is not None or self.problem.checker not in EXACT_CHECKERS:
            return
        expected = test.output.encode("utf-8", "surrogateescape")
        self.difference = first_difference(execution.stdout, expected)
        if self.difference is None:
            self.difference = first_line_difference(execution.stdout, expected)


def show(problem: Problem, result: JudgeResult, difference: Difference | None = None) -> RenderableType:
    """Everything about one judged program, for `rich`."""
    parts: list[RenderableType] = []
    if result.tests:
        parts.append(_tests(problem, result))
    if result.compile_error is not None:
        parts.append(Text(f"does not compile: {readable(result.compile_error, 4 * MAX_DETAIL)}"))
    shown = False
    for number, test in enumerate(result.tests, 1):
        if test.verdict is Verdict.ACCEPTED:
            continue
        detail = readable(test.detail, MAX_DETAIL)
        if test.verdict is Verdict.WRONG_ANSWER and difference is not None and not shown:
            shown = True
            parts += [Text(f"test {number}: {_place(difference)}"), _difference(difference)]
        else:
            parts.append(Text(f"test {number}: {detail}"))
    parts.append(_summary(problem, result))
    return Group(*parts)


def to_json(problem: Problem, result: JudgeResult, difference: Difference | None = None) -> dict[str, Any]:
    """The same as plain JSON types."""
    return {
        **result.to_json(),
        "coverage_reached": result.coverage_reached,
        "rewards": {_name(k): reward_or_none(result, k) for k in (*result.levels, None)},
        "time_limit_s": problem.time_limit_s * result.speed_factor,
        "memory_limit_mb": problem.memory_limit_mb,
        "first_difference": None if difference is None else asdict(difference),
    }


def reward_or_none(result: JudgeResult, k: Coverage) -> int | None:
    """R_k, or None when the result stopped at a smaller coverage and cannot know it."""
    try:
        return result.reward(k)
    except UserError:
        return None


def _name(k: Coverage) -> str:
    return "inf" if k is None else str(k)


def _tests(problem: Problem, result: JudgeResult) -> Table:
    limit_s = problem.time_limit_s * result.speed_factor
    table = Table()
    for header in ("test", "characters", "k"):
        table.add_column(header, justify="right")
    table.add_column("verdict", no_wrap=True)
    for header in ("CPU s", "% of limit", "wall s", "MiB"):
        table.add_column(header, justify="right")
    for number, test in enumerate(result.tests, 1):
        table.add_row(
            str(number),
            str(test.length),
            str(coverage_level(test.length)),
            Text(test.verdict, style=VERDICT_STYLES[test.verdict]),
            f"{test.cpu_s:.3f}",
            f"{100 * test.cpu_s / limit_s:.0f}",
            f"{test.wall_s:.3f}",
            f"{test.memory_mb:.1f}",
        )
    return table


def _place(difference: Difference) -> str:
    if difference.token is None:
        return f"the tokens are right, line {difference.printed.line} is not"
    return f"token {difference.token} differs"


def _difference(difference: Difference) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, side, style in (
        ("printed", difference.printed, "red"),
        ("expected", difference.expected, "green"),
    ):
        table.add_row(f"  {name}", f"line {side.line}", _side(side, style))
    return table


def _side(side: Side, style: str) -> Text:
    here = "(end of output)" if side.here is None else f"[{side.here}]"
    words = [(side.before, ""), (here, style), (side.after, "")]
    return Text(" ").join(Text(word, style=style_) for word, style_ in words if word)


def _summary(problem: Problem, result: JudgeResult) -> Text:
    rewards = []
    for k in (*result.levels, None):
        reward = reward_or_none(result, k)
        rewards.append(f"R_{_name(k)}={'?' if reward is None else reward}")
    limit_s = problem.time_limit_s * result.speed_factor
    left_out = len(problem.coverage(result.coverage)) - len(result.tests)
    text = Text("outcome ")
    text.append(result.outcome, style=OUTCOME_STYLES.get(result.outcome, "bold red"))
    text.append(f", coverage reached {result.coverage_reached}   {'  '.join(rewards)}\n")
    if left_out and result.tests:
        text.append(f"not run after the first failure: {left_out} of the larger tests (see --exhaustive)\n")
    text.append(f"limits {limit_s:g} s of CPU and {problem.memory_limit_mb} MiB, ")
    text.append(f"speed factor {result.speed_factor:g}, sandbox {result.tier}")
    return text
