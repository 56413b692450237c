"""What a model is asked: our own form, LiveCodeBench's, and templates of the user."""

import subprocess
import sys
from pathlib import Path

import pytest

from cef_env.envs.prompts import messages, prompt_text
from cef_env.envs.reasoning import ReasoningEnv
from cef_env.envs.text import statement_text
from cef_env.errors import UserError
from cef_env.problems import Problem, TestCase, load
from tests.problems import formats

PROGRAM = Problem("p", "P", "Print twice n.\n", (TestCase("1\n", "2\n", True), TestCase("9\n", "hidden\n")))
STARTER = "class Solution:\n    def f(self, n: int) -> int:\n        "
FUNCTION = Problem("f", "F", "Return twice n.", (TestCase("1", "2"),), starter_code=STARTER, function="f")


def test_the_plain_form_of_a_program_is_the_text_of_the_built_in_suite() -> None:
    assert messages(PROGRAM) == [{"role": "user", "content": statement_text(PROGRAM.statement)}]
    for problem in load("builtin?count=3"):
        assert prompt_text(problem) == statement_text(problem.statement)


def test_the_plain_form_of_a_function_shows_its_starter_code() -> None:
    (message,) = messages(FUNCTION)
    assert f"```python\n{STARTER.rstrip()}\n```" in message["content"]
    assert message["content"].endswith("in a fenced code block.\n")


def test_the_form_of_livecodebench() -> None:
    system, user = messages(PROGRAM, "livecodebench")
    assert (system["role"], user["role"]) == ("system", "user")
    parts = [
        "### Question:\nPrint twice n.\n\n### Format: ",
        "stdin",
        "```python\n# YOUR CODE HERE\n```",
        "### Answer:",
    ]
    assert [user["content"].find(part) >= 0 for part in parts] == [True] * 4
    assert sorted(parts, key=user["content"].find) == parts
    _, user = messages(FUNCTION, "livecodebench")
    assert f"```python\n{STARTER.rstrip()}\n```" in user["content"]
    assert "stdin" not in user["content"]


def test_no_form_shows_what_is_hidden() -> None:
    for prompt in ("plain", "livecodebench"):
        assert "hidden" not in prompt_text(PROGRAM, prompt)


def test_a_template_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.j2"
    path.write_text(
        '{% set system = "Be brief." %}{{ problem.title }}: {{ problem.statement }}'
        "{% for sample in samples %}{{ sample.input }}{% endfor %}{{ starter or instruction }}"
    )
    system, user = messages(PROGRAM, str(path))
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"] == "P: Print twice n.\n1\nAnswer with one Python program in a fenced code block."
    path.write_text("{{ problem.statement }}")
    assert [m["role"] for m in messages(FUNCTION, str(tmp_path / "mine.j2"))][-1] == "user"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% if %}", "line 1"),
        ("{{ problem.nothing.at.all }}", "no attribute 'nothing'"),
        ("{{ unknown }}", "'unknown' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_mistakes_in_a_template_are_one_line(tmp_path: Path, template: str, message: str) -> None:
    path = tmp_path / "bad.j2"
    path.write_text(template)
    with pytest.raises(UserError, match=message) as caught:
        messages(PROGRAM, str(path))
    assert "\n" not in str(caught.value)
    assert "bad.j2" in str(caught.value)


def test_an_unknown_prompt_names_the_choices() -> None:
    with pytest.raises(UserError, match="use plain, livecodebench or a template file"):
        ReasoningEnv(problems=[PROGRAM], prompt="chatty")


def test_an_environment_asks_in_the_chosen_form() -> None:
    observation, _ = ReasoningEnv(problems=[FUNCTION], prompt="livecodebench").reset(seed=0)
    assert observation == prompt_text(FUNCTION, "livecodebench")
    observation, _ = ReasoningEnv(problems=[PROGRAM]).reset(seed=0)
    assert observation == statement_text(PROGRAM.statement)


def test_jinja2_is_imported_only_for_templates() -> None:
    code = "import sys, cef_env.envs.prompts; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_environment_over_livecodebench_runs_programs_and_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gymnasium as gym

    import cef_env  # noqa: F401 - registers the environments

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = formats.write_lines(tmp_path / "test.jsonl", [formats.lcb("a"), formats.lcb_functional("b")])
    env = gym.make("cef/Reasoning-v0", problems=f"lcb:{path}", prompt="livecodebench", coverage=2)
    answers = {
        "a": f"<think>\n```python\nno\n```\n</think>\n```python\n{formats.DOUBLE_PY}```",
        "b": "```python\nclass Solution:\n    def total(self, s, nums):\n        return sum(nums)\n```",
    }
    for id_, answer in answers.items():
        env.reset(seed=0, options={"problem_id": id_})
        _, reward, terminated, _, info = env.step(answer)
        assert (reward, terminated, info["outcome"]) == (1.0, True, "correct")
    env.close()
