"""What the plain install can do: an episode, judged in the sandbox, without torch. For `check_install.sh`."""

import sys
from importlib.metadata import version
from importlib.util import find_spec

import gymnasium as gym

import cef_env
from cef_env.problems import Problem, TestCase

HEAVY = ("torch", "transformers", "matplotlib", "scipy", "pyarrow", "vllm")


def main() -> None:
    assert version("cef-env") == cef_env.__version__
    tests = TestCase("21\n", "42\n"), TestCase("1000\n", "2000\n")
    double = Problem("double", "Double", "Read one integer and print its double.", tests)
    env = gym.make("cef/Reasoning-v0", problems=[double])
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("```python\nprint(2 * int(input()))\n```")
    assert (reward, terminated, info["outcome"]) == (1.0, True, "correct"), info
    env = gym.make("cef/Reasoning-v0", coverage=3)  # the built-in suite is in the package
    env.reset(seed=0)
    assert env.step("no program")[4]["outcome"] == "format_error"
    assert not [name for name in HEAVY if name in sys.modules]
    assert not [name for name in HEAVY if find_spec(name) is not None], (
        "the plain install brought a heavy package"
    )


if __name__ == "__main__":
    main()
