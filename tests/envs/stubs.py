"""Tools that run nothing, and a judge that knows the verdict: what is tested is the environment alone."""

from dataclasses import dataclass, field

from cef_env.judge import JudgeResult, Outcome, TestResult, Verdict
from cef_env.problems import Problem, TestCase
from cef_env.sandbox import BoxError
from cef_env.sandbox.terminal import CommandResult


def shown(id_: str = "shown") -> Problem:
    """Print the double; the first test is a sample, the others are hidden."""
    tests = (
        TestCase("1", "2\n", sample=True),
        TestCase("424242", "848484\n"),
        TestCase("7" * 30, f"{int('7' * 30) * 2}\n"),
    )
    return Problem(id_, "Double", "Read one integer and print its double.", tests)


class StubJudge:
    """Accepts programs that contain "good"; thinks about nothing."""

    tier, speed_factor = "none", 1.0

    def run(self, problem: Problem, program: str, coverage: int | None = None, **_: object) -> JudgeResult:
        verdict = Verdict.ACCEPTED if "good" in program else Verdict.WRONG_ANSWER
        tests = (TestResult(problem.tests[0].length, verdict, 0.0, 0.0, 1.0),)
        outcome = Outcome.CORRECT if "good" in program else Outcome.CORRECTNESS_FAILURE
        return JudgeResult(problem.id, outcome, tests, problem.levels, coverage)


@dataclass
class StubTerminal:
    """Echoes commands, holds files, and dies when told to."""

    files: dict[str, bytes] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    closed: int = 0
    alive: bool = True

    def run(self, command: str) -> CommandResult:
        if command == "die":
            self.alive = False
            raise BoxError("the sandbox is gone")
        self.commands.append(command)
        return CommandResult(f"ran {command}\n", 0, "/work", False, 0, False)

    def read(self, path: str, most: int = 1 << 20) -> bytes | None:
        data = self.files.get(path)
        return None if data is None else data[:most]

    def close(self) -> None:
        self.closed += 1
