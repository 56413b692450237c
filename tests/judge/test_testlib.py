"""Our testlib.h: checkers in the usual idioms, compiled by the machine's own compiler and run directly."""

import shutil
import subprocess
from pathlib import Path

import pytest

import cef_env.judge

PROGRAMS = Path(__file__).parent / "checker_programs"
INCLUDE = Path(cef_env.judge.__file__).parent / "include"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

OK, WA, PE, FAIL, DIRT, POINTS, EOF = 0, 1, 2, 3, 4, 7, 8


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every checker, each compiled with warnings as errors."""
    out = tmp_path_factory.mktemp("checkers")
    for standard, source in [("c++17", p) for p in sorted(PROGRAMS.glob("*.cpp"))] + [
        ("c++20", PROGRAMS / "path.cpp")
    ]:
        flags = [
            f"-std={standard}",
            "-Wall",
            "-Wextra",
            "-Wshadow",
            "-Werror",
            "-Wno-format-security",
            "-Wno-unused-variable",
        ]
        command = ["g++", *flags, f"-I{INCLUDE}", str(source), "-o", str(out / source.stem)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return out


def run(program: Path, *texts: str) -> tuple[int, str]:
    """Status and message of a checker on input, output and answer."""
    for name, text in zip(("input", "output", "answer"), texts):
        (program.parent / name).write_text(text)
    command = [str(program), "input", "output", "answer"]
    done = subprocess.run(
        command, cwd=program.parent, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    ("checker", "texts", "status", "message"),
    [
        ("numbers", ("", "1.0000001 2", "1 2\n"), OK, "ok 2 numbers"),
        ("numbers", ("", "1e6\n", "1000000.9\n"), OK, "ok found '1000000.00000', expected '1000000.90000', error '0.00000'"),
        ("numbers", ("", "1 2.1", "1 2"), WA, "wrong answer 2nd numbers differ - expected: '2.00000', found: '2.10000', error = '0.05000'"),
        ("numbers", ("", "1", "1 2"), EOF, "unexpected eof Unexpected end of file - token expected"),
        ("numbers", ("", "1 2 3", "1 2"), DIRT, "wrong output format Extra information in the output file"),
        ("numbers", ("", "1 \n\t \r\n", "1"), OK, "ok found '1.00000', expected '1.00000', error '0.00000'"),
        ("numbers", ("", "nan", "1"), PE, 'wrong output format Expected double, but "nan" found'),
        ("numbers", ("", "inf", "1"), PE, 'wrong output format Expected double, but "inf" found'),
        ("numbers", ("", "1", "x"), FAIL, 'FAIL Expected double, but "x" found (answer)'),
        ("path", ("3 2 1 2 2 3", "3 1 2 3", "3 1 2 3"), OK, "ok 3"),
        ("path", ("2 1 1 2", "-1", "2 1 2"), WA, "wrong answer jury has a path of 2, contestant has none"),
        ("path", ("3 3 1 2 2 3 1 3", "3 1 2 3", "2 1 3"), WA, "wrong answer path of 3, expected 2"),
        ("path", ("3 3 1 2 2 3 1 3", "2 1 3", "3 1 2 3"), FAIL, "FAIL contestant has a better path: 2"),
        ("path", ("3 2 1 2 2 3", "2 1 3", "3 1 2 3"), WA, "wrong answer there is no edge 1 3"),
        ("path", ("3 2 1 2 2 3", "3 1 2 3", "2 1 3"), FAIL, "FAIL there is no edge 1 3 (answer)"),
        ("path", ("3 2 1 2 2 3", "4", "3 1 2 3"), WA, "wrong answer Integer parameter [name=length] equals to 4, violates the range [-1, 3]"),
        ("path", ("3 2 1 2 2 3", "3 1 9 3", "3 1 2 3"), WA, "wrong answer Integer parameter [name=path[2]] equals to 9, violates the range [1, 3]"),
        ("path", ("3 2 1 2 2 9", "3 1 2 3", "3 1 2 3"), FAIL, "FAIL Integer parameter equals to 9, violates the range [1, 3] (input)"),
        ("path", ("", "", ""), FAIL, "FAIL Unexpected end of file - token expected (input)"),
        ("yesno", ("2 3", "Yes 3 1 2\nno", "YES 1 2 3\nNO"), OK, "ok fine"),
        ("yesno", ("2 3", "Yes 3 1 1 no", "YES 1 2 3 NO"), WA, "wrong answer test case 1: values repeat: 1"),
        ("yesno", ("2 3", "Yes 3 1 2 yes", "YES 1 2 3 NO"), WA, "wrong answer test case 2: expected NO, found YES"),
        ("yesno", ("1", "maybe", "NO"), PE, "wrong output format test case 1: YES or NO expected, but MAYBE found"),
        ("yesno", ("1", "no", "No"), FAIL, 'FAIL test case 1: Token parameter equals to "No", doesn\'t correspond to pattern "YES|NO" (answer)'),
        ("lines", ("sorted", "b a\r\nc \n", "a b\nc\n"), OK, "ok 2 lines"),
        ("lines", ("sorted", "b a\n", "a b\nc\n"), EOF, "unexpected eof Expected line"),
        ("lines", ("sorted", "b a\nd e", "a b\nc\n"), WA, "wrong answer line 2: expected 'c', found 'd, e'"),
        ("lines", ("other", "", ""), FAIL, 'FAIL Condition failed: "commands == "sorted" || commands == "chars""'),
        ("lines", ("chars", "a b\n# ", "a b"), OK, "ok"),
        ("lines", ("chars", "a b\n#x", "a b"), PE, "wrong output format Unexpected character #120, but ' ' expected"),
        ("lines", ("chars", "a b\n", "a b"), PE, "wrong output format Unexpected end of file, '#' expected"),
        ("score", ("points", "", ""), POINTS, "points 0.5 half of 10"),
        ("score", ("points", "more", ""), DIRT, "wrong output format Extra information in the output file"),
        ("score", ("partial", "", ""), 66, "partially correct (50) half"),
        ("score", ("fail", "more", ""), FAIL, "FAIL jury is wrong"),
        ("score", ("exit", "", ""), FAIL, "FAIL Checker must end with quit or quitf call"),
        ("score", ("nothing", "", ""), FAIL, "FAIL Checker must end with quit or quitf call"),
        ("score", ("answer", "", "9"), FAIL, "FAIL Integer parameter [name=jury] equals to 9, violates the range [1, 5] (answer)"),
        ("score", ("expected", "", ""), WA, "wrong answer in line 3: expected '5', found 'x'"),
        ("score", ("random", "", ""), OK, "ok"),
    ],
)  # fmt: skip
def test_checker(built: Path, checker: str, texts: tuple[str, str, str], status: int, message: str) -> None:
    assert run(built / checker, *texts) == (status, message)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-2147483648", "-2147483648"),
        ("int", "2147483647", "2147483647"),
        ("int", "2147483648", None),
        ("int", "-2147483649", None),
        ("int", "0", "0"),
        *[("int", text, None) for text in ("-0", "00", "007", "+1", "1.0", "-", "1x", "--1", "1e3", "١")],
        ("long", "-9223372036854775808", "-9223372036854775808"),
        ("long", "9223372036854775808", None),
        ("long", "9" * 40, None),
        ("unsigned", "18446744073709551615", "18446744073709551615"),
        ("unsigned", "18446744073709551616", None),
        ("unsigned", "-1", None),
        ("double", "-1.5e2", "-150.000"),
        ("double", ".5", "0.500"),
        ("double", "5.", "5.000"),
        *[("double", text, None) for text in ("0x10", "1e999", "1e", ".", "-", "1.5.5", "infinity", "1_0", "e5")],
        ("strict", "1.25", "1.250"),
        *[("strict", text, None) for text in ("1", "1.2345", "1.e1", "11.5", "x.5")],
        ("range", "5 -3", "2"),
        ("range", "6 0", None),
        ("range", "0 4", None),
        ("word", "abc", "abc"),
        ("word", "ababzzq", "ababzzq"),
        ("word", "abcax", "abcax"),
        *[("word", text, None) for text in ("a", "abcab", "abaz", "ba" * 9)],
        ("long_word", "q" * 100_000, "q" * 30 + "..." + "q" * 31),
        ("long_word", "q" * 100_001, None),
        ("line", "a b\n", "a b"),
        ("line", "a B\n", None),
        ("words", "a b", "a-b"),
        ("words", "a 1", None),
        ("split", "", ""),
        ("eof", "", ""),
        ("eof", "\n", None),
        ("eof", "x", None),
        ("convert", "-12", "-12"),
    ],
)  # fmt: skip
def test_values(built: Path, kind: str, text: str, value: str | None) -> None:
    status, message = run(built / "numeric_reader", kind, text, "")
    if value is None:
        assert status in (WA, PE), message
    else:
        assert (status, message) == (OK, f"ok {value}".strip())


def test_usage_and_missing_files(built: Path, tmp_path: Path) -> None:
    for arguments, message in (([], "usage"), (["a", "b", "c"], "cannot open the file")):
        done = subprocess.run(
            [built / "numbers", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, message in done.stderr) == (FAIL, True)


def test_large_files_are_read_quickly(built: Path) -> None:
    numbers = "12345.678\n" * 1_500_000
    assert run(built / "numbers", "", numbers, numbers) == (OK, "ok 1500000 numbers")
