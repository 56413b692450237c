"""What is installed: one top-level package, light to import, whole in wheel and sdist."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_wheel_holds_one_package_with_all_parts_and_no_links(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"cef_env"}
    for part in (
        "cef_env/agents/rollout.py",
        "cef_env/training/configs/laptop.yaml",
        "cef_env/training/configs/openrlhf/cwm-32b-agentic.yaml",
        "cef_env/merge/stream.py",
        "cef_env/eval/templates/report.html.j2",
        "cef_env/problems/builtin/compose.py",
        "cef_env/judge/corpus/traps.py",
        "cef_env/sandbox/inside/zygote.py",
        "cef_env/judge/include/testlib.h",
        "cef_env/py.typed",
    ):
        assert part in names


def test_the_sdist_holds_the_same_modules(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    (wheel,) = dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    modules = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    assert modules
    assert modules <= held


def test_the_installed_wheel_plays_an_episode_where_nothing_heavy_can_be_imported(
    dist: Path, tmp_path: Path
) -> None:
    """Beside the packages of this environment; `make release` installs it into one of its own."""
    (wheel,) = dist.glob("*.whl")
    install = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path / "site"),
        str(wheel),
    ]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "site")!r})
for heavy in ("torch", "transformers", "matplotlib", "scipy", "pyarrow", "jinja2", "docker", "pexpect"):
    sys.modules[heavy] = None
import cef_env, gymnasium as gym
env = gym.make("cef/Reasoning-v0", problems="builtin:easy?count=3")
env.reset(seed=0)
program = next(s.program for s in env.unwrapped.problem.submissions if s.kind == "efficient")
_, reward, _, _, info = env.step(f"```python\\n{{program}}\\n```")
print(cef_env.__file__, reward, info["outcome"])
"""
    played = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert played.stdout.split() == [str(tmp_path / "site/cef_env/__init__.py"), "1.0", "correct"], (
        played.stderr
    )


def test_the_version_is_written_in_one_place_and_everything_else_agrees(dist: Path) -> None:
    import re

    import cef_env

    version = cef_env.__version__
    assert (ROOT / "pyproject.toml").read_text().count(f'"{version}"') == 0
    assert (dist / f"cef_env-{version}-py3-none-any.whl").is_file()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    releases = re.findall(r"^## \[(\d[^]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0][0] == version
    assert f"\ndate-released: {releases[0][1]}\n" in (ROOT / "CITATION.cff").read_text()


def test_importing_the_package_is_light() -> None:
    heavy = ["torch", "transformers", "docker", "matplotlib", "scipy", "vllm", "openrlhf", "pexpect"]
    heavy += ["pyarrow", "jinja2", "ray"]
    code = f"import sys, cef_env\nprint([m for m in {heavy} if m in sys.modules])"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert output.stdout.strip() == "[]"


def test_a_command_loads_only_its_own_subsystem() -> None:
    code = "import sys, cef_env.cli\nprint(*(m for m in sys.modules if m.startswith('cef_env.')))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {name.split(".")[1] for name in output.stdout.split()}
    assert loaded == {"cli", "commands", "errors"}


def test_the_plain_install_asks_for_no_heavy_package() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain = " ".join(project["dependencies"])
    heavy = ("torch", "transformers", "matplotlib", "vllm", "docker", "pyarrow", "jinja2")
    assert not any(name in plain for name in heavy)


def test_lower_layers_import_nothing_above_them() -> None:
    """Who may import whom, downwards only (the layers of the design)."""
    layers = [
        {"errors", "files"},
        {"problems", "sandbox"},
        {"judge"},
        {"envs", "rewards"},
        {"agents", "merge"},
        {"eval", "training"},
        {"ui"},
        {"machine"},
        {"experiment", "doctor"},
        {"commands", "cli"},
    ]
    rank = {name: level for level, names in enumerate(layers) for name in names}
    for path in sorted((ROOT / "cef_env").rglob("*.py")) + [
        file for name in ("agents", "merge", "eval", "training") for file in (ROOT / name).rglob("*.py")
    ]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        here = parts[1] if parts[0] == "cef_env" else parts[0]
        if here == "__init__":
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] in ("from", "import") and words[1].startswith("cef_env."):
                there = words[1].split(".")[1]
                assert rank[there] <= rank[here], f"{path}: {line.strip()}"
