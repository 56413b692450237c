"""The policy whose episodes the warm start of tool use and agentic coding learns from.

Its first program is drawn by the config's mixture. It runs it on the samples with the tool of the setting;
where a sample fails it draws again by `sft.mixture_fix`, and it hands in what passed, or, with the last
message, whatever there is. Every call is the same text around a program, so that a tiny model can write it.
Does not play: see `trajectories.py`.
"""

import random
from collections.abc import Sequence

from cef_env.agents.base import Message
from cef_env.agents.debugger import passes, write_file
from cef_env.envs.text import fenced
from cef_env.envs.tools import call_text
from cef_env.problems.builtin import composition
from cef_env.training.config import Config
from cef_env.training.data import draw_answer, mixture_for
from cef_env.training.settings import SAMPLES

FILE = "solution.py"
TOOLS = "\n\n# Tools\n"
"""Where the first message of a setting with tools goes on from the statement to them."""
_PYTHON = """\
p='''
{program}
'''
s='{samples}'
import contextlib, io, sys
good = 0
for sample in s.split('; '):
    given, _, expected = sample.partition(' = ')
    sys.stdin, printed = io.StringIO(given.replace(' / ', chr(10))), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(p, {{}})
    except Exception as error:
        print(type(error).__name__)
    good += printed.getvalue().split() == expected.split()
print(good, 'of', len(s.split('; ')), 'samples passed')
"""
_BASH = """
good=0
for i in samples/*.in; do (ulimit -t 2; python3 solution.py < $i 2> /dev/null) | \
diff -bq - ${i%.in}.out > /dev/null && good=$((good + 1)); done
echo "$good of $(ls samples/*.in | wc -l) samples passed\""""
_MARK = "@@"


def trial(setting: str, program: str, samples: str) -> str:
    """The call that runs a program on the samples; in a terminal it writes the file first."""
    if setting == "agentic":
        return call_text("bash", "command", write_file(FILE, program) + _BASH)
    return call_text("python", "code", _PYTHON.format(program=program.rstrip(), samples=samples))


def hand_in(setting: str, program: str) -> str:
    """The message that ends the episode with this program; in a terminal it is the file's."""
    return call_text("submit", "path", FILE) if setting == "agentic" else fenced(program)


def fixed_parts(setting: str) -> list[str]:
    """What every message of the policy holds besides programs and samples; each is to be one token."""
    head, *rest = trial(setting, _MARK, _MARK).split(_MARK)
    submit = [hand_in(setting, "")] if setting == "agentic" else []
    return [head, *(part.removeprefix("\\n") for part in rest), *submit]


class ScriptedPolicy:
    """Plays built-in problems; what it does depends on the seed and the conversation alone.

    Args:
        ids: of the problems that it may be asked.
    """

    def __init__(self, config: Config, ids: Sequence[str], seed: int) -> None:
        self._config = config
        self._seed = seed
        self._asked = {composition(id_).statement.rstrip(): id_ for id_ in ids}

    def act(self, messages: list[Message]) -> str:
        statement, _, samples = messages[0]["content"].partition(TOOLS)[0].partition(f"\n{SAMPLES}")
        problem_id = self._asked[statement]
        turn = len(messages) // 2
        setting, last = self._config.setting, turn == self._config.max_turns - 1
        if turn and (last or passes(messages[-1]["content"])):
            return hand_in(setting, self._program(problem_id, turn - 1))
        return trial(setting, self._program(problem_id, turn), samples)

    def _program(self, problem_id: str, turn: int) -> str:
        """What it tries in this turn."""
        made = composition(problem_id)
        sft = self._config.sft
        mixture = sft.mixture_fix if turn else mixture_for(made, sft)
        return draw_answer(made, mixture, random.Random(f"{self._seed} {problem_id} {turn}"))
