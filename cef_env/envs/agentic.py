"""The agentic setting: a terminal in a sandbox, and a file that is handed in.

Does not run commands itself (see `cef_env.sandbox.terminal`) and does not read tool calls (`tool_calls.py`).
Try it: `cef play cef/Agentic-v0`.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from cef_env.envs.prompts import question
from cef_env.envs.text import CutText
from cef_env.envs.tool_calls import ToolCall
from cef_env.envs.tools import Tool, tools_text
from cef_env.envs.turns import ToolEnv, positive
from cef_env.errors import UserError
from cef_env.judge import FormatErrorCause, Judge, JudgeResult, Language
from cef_env.problems import Problem, ProblemSet
from cef_env.sandbox import BoxError, resolve
from cef_env.sandbox.bwrap import toolchain_paths

if TYPE_CHECKING:
    from cef_env.sandbox.terminal import CommandResult, Terminal

LANGUAGES = {
    ".py": Language.PYTHON,
    ".cpp": Language.CPP17,
    ".cc": Language.CPP17,
    ".cxx": Language.CPP17,
}
"""By the suffix of the file that is handed in."""
MOST_BYTES = 1 << 20
"""Of a file that is handed in."""


class AgenticEnv(ToolEnv):
    """
    ## Description
    Competitive programming in a terminal (paper: agentic coding). The agent reads a problem statement, works
    in a sandboxed shell over many turns, and hands in a file, which the judge runs on hidden tests.

    ## Action Space
    `Unicode()`: one message with tool calls
    `<tool_call>{"name": "bash", "arguments": {"command": "..."}}</tool_call>`, or `submit` with a `path`. The
    calls are run in order and cost one turn however many they are (eight at most). A message that ran out of
    tokens is passed as `cef_env.envs.CutText`.

    ## Observation Space
    `Unicode()`: the statement, the tools in the form of Qwen2.5's chat template, and what is in the working
    folder. After a message a `<tool_response>` for each call: output and exit status of the command, and how
    many messages are left. A message without a call, a call that cannot be read and a file that cannot be
    handed in are answered with an explanation. At the end one line that names the outcome. No times: the same
    seed and actions give the same observations, as far as the commands do.

    ## Rewards
    R_k at the end: 1 if every test with input shorter than 10^k characters passes, else 0, where k is
    `coverage`; `coverage=None` asks for all tests. 0 before.

    ## Starting State
    A problem drawn uniformly by the seed; `options={"problem_id": ...}` picks one. The working folder holds
    `statement.md` and the tests that the statement shows, as `samples/1.in`, `samples/1.out` and so on;
    hidden tests are never inside. The terminal starts with the first call.

    ## Episode End
    Terminates when a file is handed in, or, a format error (`out_of_tokens`), with a message that was cut and
    holds no call. Truncates when the last turn hands in nothing, a format error too (`out_of_turns`);
    commands of that turn are run only if it also calls `submit`.

    ## Information
    Always: `problem_id`, `levels` (the k with a distinct R_k), `turns` (messages so far), `tool_calls` (those
    that were run). At the end also `outcome` (over the tests that were judged), `coverage_reached`, `tier`,
    `compile_error` (a bool), `format_error` (the cause, or ""), `language` and `program` (what was handed in,
    or ""). The full `JudgeResult` is `env.unwrapped.result`.

    ## Arguments
    - `coverage`: k, or None (also "inf") for all tests. Only the tests under 10^k are run. Problems
      without any such test have no R_k and are dropped; `env.unwrapped.dropped` says how many.
    - `problems`: a source string ("builtin", "builtin:hard", "jsonl:PATH", ...), or a list of `Problem`.
    - `judge`: a `Judge` of your own; by default all environments of the process share one.
    - `render_mode`: None or "ansi".
    - `exhaustive`: run every test instead of stopping at the first that fails; any wrong answer then
      dominates the outcome. `ContinuousReward` can need it.
    - `max_turns`: messages of the agent, the one that hands in included.
    - `command_time_s`: seconds that a command may take.
    - `command_output`: characters of a command's output that are shown; more is cut in the middle, with a
      count.
    - `terminal_cpu_s`: CPU seconds of all commands of an episode together.
    - `terminal_memory_mb`: MiB of all processes in the terminal together.
    - `sandbox`: "auto", or the name of an isolation tier, for the terminal; the judge has its own.

    ## Errors
    `UserError` for arguments that cannot be honoured; `InstrumentError` when judge or sandbox fails: such a
    step has no reward, and the episode should be left out of every statistic. It is over then; reset.

    ## Version History
    - v0: initial version
    """

    tools: ClassVar[tuple[Tool, ...]] = (
        Tool(
            "bash",
            "Runs a command in a terminal; folder, variables and files stay for the next command.",
            "command",
            "The command, for bash.",
        ),
        Tool(
            "submit",
            "Hands in a program as the final answer and ends the work.",
            "path",
            "The file: .py for Python, .cpp for C++17.",
        ),
    )

    def __init__(
        self,
        coverage: int | str | float | None = None,
        problems: str | ProblemSet | Sequence[Problem] = "builtin",
        judge: Judge | None = None,
        render_mode: str | None = None,
        exhaustive: bool = False,
        max_turns: int = 20,
        command_time_s: float = 10.0,
        command_output: int = 10_000,
        terminal_cpu_s: float = 120.0,
        terminal_memory_mb: int = 512,
        sandbox: str = "auto",
    ) -> None:
        super().__init__(
            max_turns,
            coverage=coverage,
            problems=problems,
            judge=judge,
            render_mode=render_mode,
            exhaustive=exhaustive,
        )
        self.command_time_s = float(positive("command_time_s", command_time_s, whole=False))
        self.command_output = positive("command_output", command_output)
        self.terminal_cpu_s = float(positive("terminal_cpu_s", terminal_cpu_s, whole=False))
        self.terminal_memory_mb = positive("terminal_memory_mb", terminal_memory_mb)
        self.language = ""
        """Of the program that was handed in."""
        self._plan = resolve(sandbox)
        self._terminal: Terminal | None = None
        self._files: dict[str, bytes] = {}

    def _first_message(self, problem: Problem) -> str:
        self.language = ""
        self._files = working_folder(problem)
        samples = " and the sample tests (samples/1.in, samples/1.out, ...)" if len(self._files) > 1 else ""
        return (
            f"{question(problem)}\n\n{tools_text(self.tools)}\n"
            f"The terminal starts in a folder with statement.md{samples}. A command has "
            f"{self.command_time_s:g} s. Write the program into a file and hand it in with submit. You have "
            f"{self.max_turns} messages, the one with submit included.\n"
        )

    def _can_answer(self, call: ToolCall) -> bool:
        return call.name == "submit"

    def _call(self, call: ToolCall) -> str | JudgeResult:
        terminal = self._terminal = self._terminal or self._open()
        if call.name == "submit":
            return self._submit(terminal, call.argument)
        try:
            return self._shown(terminal.run(call.argument))
        except Exception as error:
            if terminal.alive:
                raise
            raise BoxError(f"the terminal died ({error})") from error

    def _without_calls(self, action: str) -> str | JudgeResult:
        if isinstance(action, CutText):
            return self._no_program(FormatErrorCause.OUT_OF_TOKENS)
        examples = "\n".join(tool.example() for tool in self.tools)
        return f"This message calls no tool, so nothing was run. Write calls in this form:\n{examples}"

    def _submit(self, terminal: "Terminal", path: str) -> str | JudgeResult:
        """Judge a file, or say why it is none that can be judged."""
        language = LANGUAGES.get(PurePosixPath(path).suffix)
        if language is None:
            return f"Not handed in: the suffix must be one of {', '.join(LANGUAGES)}."
        if language is not Language.PYTHON and (reason := self._without_cpp()):
            return f"Not handed in: {reason}; use Python."
        data = terminal.read(path, MOST_BYTES + 1)
        if data is None:
            return "Not handed in: there is no such file that can be read."
        if len(data) > MOST_BYTES:
            return f"Not handed in: the file is larger than {MOST_BYTES} bytes."
        try:
            program = data.decode()
        except UnicodeDecodeError as error:
            return f"Not handed in: the file is not UTF-8 at byte {error.start}."
        self.language = str(language)
        return self._judged(program, language)

    def _without_cpp(self) -> str:
        """Why a C++ program cannot be judged here; "" if it can."""
        assert self.problem is not None
        if self.problem.function is not None:
            return "the problem asks for a function in Python"
        try:
            toolchain_paths()
        except UserError:
            return "there is no C++ compiler here"
        return ""

    def _info(self) -> dict[str, Any]:
        info = super()._info()
        return (
            info if self.result is None else info | {"language": self.language, "program": self.program or ""}
        )

    def _open(self) -> "Terminal":
        from cef_env.sandbox.terminal import Terminal, TerminalLimits

        limits = TerminalLimits(
            timeout_s=self.command_time_s,
            cpu_s=self.terminal_cpu_s,
            memory_bytes=self.terminal_memory_mb << 20,
            output_characters=self.command_output,
        )
        return Terminal(self._plan, self._files, limits)

    def _shown(self, result: "CommandResult") -> str:
        """What the model reads of a command. Never a time: the same commands give the same text."""
        status = "" if result.exit_status is None else f"[exit status {result.exit_status}]"
        stopped = "[stopped: its time was over, or its output without end]" if result.stopped else ""
        restarted = "[the shell ended; a new one has started]" if result.restarted else ""
        parts = (result.output.rstrip(), stopped or status, restarted)
        return "\n".join(part for part in parts if part)

    def _release(self) -> None:
        terminal, self._terminal = self._terminal, None
        if terminal is not None:
            terminal.close()


def working_folder(problem: Problem) -> dict[str, bytes]:
    """The files that a solver may see: the statement and the tests that it shows. Nothing of other tests."""
    files = {"statement.md": f"{question(problem)}\n".encode("utf-8", "replace")}
    for number, test in enumerate((test for test in problem.tests if test.sample), 1):
        files[f"samples/{number}.in"] = test.input.encode("utf-8", "surrogateescape")
        files[f"samples/{number}.out"] = test.output.encode("utf-8", "surrogateescape")
    return files
