"""Built-in checkers: what they accept, what they say, and that size does not hurt them."""

import json
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cef_env.errors import UserError
from cef_env.judge.checkers import BLOCK_BYTES, CHECKERS, get_checker, line_blocks, token_blocks
from cef_env.judge.json_checker import json_difference

words = st.lists(st.sampled_from([b"a", b"B", b"12", b"\xff", b"x" * 50]), max_size=30)
spaces = st.sampled_from([b" ", b"\n", b"\t ", b"\r\n", b"\x0b", b"\x0c\n\n"])


@pytest.mark.parametrize(
    ("spec", "printed", "expected", "difference"),
    [
        ("tokens", b"", b"", None),
        ("tokens", b" \n", b"", None),
        ("tokens", b"0", b"", "printed 1 tokens, expected 0"),
        ("tokens", b"", b"0", "printed 0 tokens, expected 1"),
        ("tokens", b"a  b\n\nc", b"a\nb c\n", None),
        ("tokens", b"1 2\n3 5\n", b"1 2 3 4", "line 2, token 4: printed '5', expected '4'"),
        ("tokens", b"yes", b"YES", "line 1, token 1: printed 'yes', expected 'YES'"),
        ("tokens", b"\xff", b"\xfe", r"line 1, token 1: printed '\\xff', expected '\\xfe'"),
        ("tokens?case=ignore", b"yes\nNo", b"YES no", None),
        ("tokens?case=ignore", b"Yes Nx", b"YES No", "line 1, token 2: printed 'Nx', expected 'No'"),
        ("tokens?order=any", b"3 1\n2", b"1 2 3", None),
        ("tokens?order=any", b"3 1\n4 2", b"1 2 3", "line 2, token 3: printed '4', which is not expected"),
        ("tokens?order=any", b"1 1", b"1", "line 1, token 2: printed '1', which is expected less often"),
        ("tokens?order=any", b"1 2", b"2 1 3", "token '3' is missing"),
        ("tokens?order=any&case=ignore", b"B a", b"A b", None),
        ("lines", b"a b \r\n\n", b"a b", None),
        ("lines", b"a\n\nb", b"a\nb", "line 2: printed '', expected 'b'"),
        ("lines", b"\na", b"a", "line 1: printed '', expected 'a'"),
        ("lines", b"a\nb", b"a", "printed 2 lines, expected 1"),
        ("lines", b"a\nb  c", b"a\nb c", "line 2: printed 'b  c', expected 'b c'"),
        ("lines", b"x", b"", "printed 1 lines, expected 0"),
        ("lines", b"\n", b"", None),
        ("lines?order=any", b"b c\na", b"a\nb c\n", None),
        ("lines?order=any", b"c b\na", b"a\nb c", "line 1: printed 'c b', which is not expected"),
        ("floats?abs=0.1", b"1.05 x 2", b"1 x 2.10", None),
        ("floats?abs=0.1", b"x 2.3", b"x 2.1", "line 1, token 2: printed '2.3', expected '2.1' (error 0.2, relative 0.0952)"),
        ("floats?abs=0.1", b"x", b"1", "line 1, token 1: printed 'x', expected '1'"),
        ("floats?abs=0.1", b"1", b"x", "line 1, token 1: printed '1', expected 'x'"),
        ("floats?rel=0.1", b"90 -110", b"100 -100", None),
        ("floats?rel=0.1", b"100", b"90", "line 1, token 1: printed '100', expected '90' (error 10, relative 0.111)"),
        ("floats?abs=1e-6&rel=1e-6", b"1.0 1000000 0.0000005", b"1.0000009 1000000.9 0", None),
        ("floats?abs=1e-6", b"1e0 +1 .5 5. 1E-1", b"1 1 0.5 5 0.1", None),
        ("floats?abs=1&case=ignore", b"Nan 1.5", b"NAN 1", None),
        ("floats?abs=1", b"1 2 3", b"1 2", "printed 3 tokens, expected 2"),
        ("json", b"[1, 2.0, true]", b"[1,2,1]", None),
        ("json", b'{"a": 1, "b": [2]}', b'{"b":[2],"a":1}', None),
        ("json", b"[1, 2]", b"[2, 1]", "answer[0] is 1, expected 2"),
        ("json", b'{"a": [1, "x"]}', b'{"a": [1, "y"]}', "answer['a'][1] is 'x', expected 'y'"),
        ("json", b"[1]", b"[1, 2]", "answer has 1 elements, expected 2"),
        ("json", b'{"a": 1}', b'{"b": 1}', "answer misses key 'b'"),
        ("json", b'{"a": 1, "b": 2}', b'{"b": 2}', "answer has the unexpected key 'a'"),
        ("json", b"[]", b"{}", "answer is a list of 0, expected an object of 0"),
        ("json", b'"1"', b"1", "answer is '1', expected 1"),
        ("json", b"null", b"false", "answer is None, expected False"),
        ("json", b"0.30000000000000004", b"0.3", "answer is 0.30000000000000004, expected 0.3"),
        ("json?abs=1e-9", b"[0.30000000000000004, 1]", b"[0.3, 1.0000000001]", None),
        ("json?rel=1e-2", b"101", b"100", None),
        ("json?rel=1e-2", b"[true]", b"[1.001]", "answer[0] is True, expected 1.001"),
        ("json", b"", b"1", "the answer is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("json", b"1 2", b"1", "the answer is not JSON: Extra data: line 1 column 3 (char 2)"),
        ("json", b"Infinity", b"Infinity", None),
        ("json", b"[NaN]", b"[1]", "the answer is not JSON: NaN equals nothing"),
        ("json", b'{"a": 1, "a": 2}', b'{"a": 2}', "the answer is not JSON: an object repeats a key"),
        ("json", b"[" * 100_000, b"[]", "the answer is nested too deeply"),
    ],
)  # fmt: skip
def test_comparison(spec: str, printed: bytes, expected: bytes, difference: str | None) -> None:
    assert get_checker(spec)(printed, expected) == difference


@pytest.mark.parametrize(
    "token",
    [b"nan", b"inf", b"-inf", b"0x1p0", b"1_0", b"1e999", b"--1", b"1e", b".", b"1.0\xb2", "١".encode()],
)
def test_what_is_no_finite_decimal_is_near_nothing(token: bytes) -> None:
    check = get_checker("floats?abs=1e200&rel=1e200")
    assert check(token, b"1") is not None
    assert check(b"1", token) is not None
    assert check(b"1 2 " + token, b"1 2.5 1") is not None
    assert check(token, token) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "checker='': use floats, json, lines or tokens"),
        ("exact", "checker='exact': use floats, json, lines or tokens"),
        ("tokens?abs=1", "option 'abs' is unknown; tokens has case=ignore, order=any"),
        ("tokens?order=all", "order='all' is not possible; use any"),
        ("tokens?order", "order='' is not possible; use any"),
        ("tokens?case=ignore&case=ignore", "option 'case' is given twice; tokens has"),
        ("floats", "say how far numbers may be off, as in floats"),
        ("floats?case=ignore", "say how far numbers may be off"),
        ("floats?abs=-1", "abs='-1' is not possible; use 1e-6 or another number >= 0"),
        ("floats?abs=nan", "abs='nan'"),
        ("floats?abs=1e999", "abs='1e999'"),
        ("floats?rel=", "rel=''"),
        ("floats?abs=1&order=any", "option 'order' is unknown"),
        ("json?case=ignore", "option 'case' is unknown; json has abs="),
        ("tokens?&case=ignore", "option '' is unknown"),
    ],
)  # fmt: skip
def test_bad_specs_are_named_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        get_checker(spec)
    assert message in str(caught.value)
    assert repr(spec) in str(caught.value)
    assert "\n" not in str(caught.value)


@given(words, st.data())
def test_tokens_do_not_depend_on_whitespace(tokens: list[bytes], data: st.DataObject) -> None:
    texts = [
        b"".join(data.draw(spaces) * data.draw(st.integers(1, 3)) + token for token in tokens)
        + data.draw(st.sampled_from([b"", b"\n"]))
        for _ in range(2)
    ]
    for spec in ("tokens", "tokens?case=ignore", "tokens?order=any", "floats?abs=1"):
        assert get_checker(spec)(*texts) is None
        changed = texts[0] + b" extra"
        assert get_checker(spec)(changed, texts[1]) is not None
        assert get_checker(spec)(texts[1], changed) is not None


@given(words, words)
def test_tokens_agree_with_the_definition(ours: list[bytes], theirs: list[bytes]) -> None:
    printed, expected = b" ".join(ours), b"\n".join(theirs)
    assert (get_checker("tokens")(printed, expected) is None) == (ours == theirs)
    assert (get_checker("tokens?order=any")(printed, expected) is None) == (sorted(ours) == sorted(theirs))
    folded = [[w.lower() for w in side] for side in (ours, theirs)]
    assert (get_checker("tokens?case=ignore")(printed, expected) is None) == (folded[0] == folded[1])


@given(words.flatmap(lambda w: st.tuples(st.just(w), st.permutations(w))))
def test_any_order_is_invariant_to_permutation(pair: tuple[list[bytes], list[bytes]]) -> None:
    one, other = (b"\n".join(side) for side in pair)
    assert get_checker("tokens?order=any")(one, other) is None
    assert get_checker("lines?order=any")(one, other) is None


decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=6)
sizes = st.sampled_from(["0", "1e-6", "0.1", "1", "1e-12", "1e10"])


@given(decimals, decimals | st.just(Decimal(0)), sizes, sizes, st.booleans())
def test_floats_agree_with_exact_arithmetic(
    expected: Decimal, offset: Decimal, absolute: str, relative: str, at_the_limit: bool
) -> None:
    limit = max(Fraction(absolute), Fraction(relative) * abs(Fraction(expected)))
    if at_the_limit:  # exactly on it, or one unit of a far digit beside it
        printed = expected + Decimal(limit.numerator) / Decimal(limit.denominator) + offset.scaleb(-30)
    else:
        printed = expected + offset
    near = abs(Fraction(printed) - Fraction(expected)) <= limit
    check = get_checker(f"floats?abs={absolute}&rel={relative}")
    assert (check(str(printed).encode(), str(expected).encode()) is None) == near
    assert (check(b"word " + str(printed).encode(), b"word " + str(expected).encode()) is None) == near


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c), max_leaves=20), st.data())  # fmt: skip
def test_json_agrees_with_python(value: object, data: st.DataObject) -> None:
    text = json.dumps(value).encode()
    assert (
        json_difference(
            text, json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")
        )
        is None
    )
    other = data.draw(st.sampled_from([[value], value, {"x": value}, None, [], [1, value]]))
    assert (json_difference(json.dumps(other).encode(), text) is None) == (other == value)


def test_integers_beyond_the_limit_of_the_interpreter() -> None:
    assert json_difference(b"[%s, 1.5]" % (b"7" * 5000), b"[%s, 1.5]" % (b"7" * 5000)) is None
    assert "expected 777" in str(json_difference(b"7" * 4999 + b"8", b"7" * 5000))
    assert "is not JSON" in str(json_difference(b"7" * 5000 + b"]", b"7" * 5000))
    check = get_checker("json?abs=1")
    assert check(b"7" * 5000, b"7" * 4999 + b"8") is None
    assert check(b"1" + b"0" * 4200, b"1") is not None


def test_expected_text_that_is_no_json_is_no_verdict() -> None:
    for expected in (b"", b"abc", b"NaN", b"[" * 100_000):
        with pytest.raises(ValueError, match=r"Expecting value|NaN|deeply"):
            json_difference(b"1", expected)


def test_blocks_hold_every_piece_once() -> None:
    for width in (1, 7, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES):
        text = b"\n".join([b"x" * width, b"y", b" z ", b"", b"x" * width] * (3 * BLOCK_BYTES // width + 1))
        assert [token for block in token_blocks(text) for token in block] == text.split()
        assert [line for block in line_blocks(text) for line in block] == [
            x.rstrip() for x in text.split(b"\n")
        ]


def test_the_difference_is_found_beyond_the_first_block() -> None:
    text = b"ab cd\n" * 30_000
    printed = text + b"ab xy"
    assert (
        get_checker("tokens")(printed, text + b"ab cd")
        == "line 30001, token 60002: printed 'xy', expected 'cd'"
    )
    assert get_checker("lines")(printed, text + b"ab cd") == "line 30001: printed 'ab xy', expected 'ab cd'"
    assert "line 30001, token 60002" in str(get_checker("tokens?order=any")(printed, text + b"ab cd"))


@pytest.mark.parametrize("spec", ["tokens", "lines", "floats?abs=1e-6", "json"])
def test_a_wrong_start_ends_the_work(spec: str) -> None:
    """Sixteen megabytes that differ at once; a generous bound, since the machine may be busy."""
    expected = b"[1" + b",1" * (8 << 20) + b"]" if spec == "json" else b"12 " * (5 << 20)
    printed = b"x" + expected
    start = time.process_time()
    assert get_checker(spec)(printed, expected) is not None
    assert time.process_time() - start < (5 if spec == "json" else 0.5)


def test_every_checker_is_documented() -> None:
    from cef_env.judge import checkers

    assert all(f"    {name}" in str(checkers.__doc__) for name in CHECKERS)
