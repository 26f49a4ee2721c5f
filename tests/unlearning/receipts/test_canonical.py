"""Canonical JSON: the examples of RFC 8785, and the refusal of everything else."""

import pytest

from unlearning.receipts.canonical import canonical_bytes, read_canonical, read_json
from unlearning.receipts.errors import CanonicalError


def test_strings_and_keys_are_those_of_the_rfc() -> None:
    text = '€$\u000f\nA\'B"\\\\"/'
    assert canonical_bytes({"string": text}) == (
        b'{"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    keys = ["€", "\r", "\ufb33", "1", "😀", "\x80", "ö"]  # RFC 8785, section 3.2.3
    expected = ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]
    value = dict.fromkeys(keys, 0)
    assert list(read_json(canonical_bytes(value), "it")) == expected  # type: ignore[arg-type]


def test_literals_and_nesting() -> None:
    assert canonical_bytes({"b": [None, True, False, (1, -1)], "a": {}}) == (
        b'{"a":{},"b":[null,true,false,[1,-1]]}'
    )
    assert canonical_bytes(2**53 - 1) == b"9007199254740991"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, "float"),
        (float("nan"), "float"),
        ({"a": {1, 2}}, "set"),
        (b"x", "bytes"),
        (2**53, "integer beyond"),
        (-(2**53), "integer beyond"),
        ({1: 2}, "not text"),
        ("\ud800", "lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
    ],
)
def test_value_without_a_canonical_form_is_refused(value: object, message: str) -> None:
    with pytest.raises(CanonicalError, match=message):
        canonical_bytes(value)


def test_deep_values_are_refused() -> None:
    deep: object = 0
    for _ in range(33):
        deep = [deep]
    with pytest.raises(CanonicalError, match="32 levels"):
        canonical_bytes(deep)
    with pytest.raises(CanonicalError, match="32 levels"):
        read_canonical(b"[" * 40 + b"]" * 40, "it")
    with pytest.raises(CanonicalError, match="32 levels"):
        read_json(b"[" * 100_000, "it")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a":1,"a":1}', "same key twice"),
        (b'{"a":{"b":0,"b":1}}', "same key twice"),
        (b"0.5", "float"),
        (b"1e2", "float"),
        (b"NaN", "NaN"),
        (b"-Infinity", "Infinity"),
        (b"9" * 5000, "integer beyond"),
        (b"9007199254740992", "integer beyond"),
        (b"-0", "byte 0 differs"),
        (b'{"b":1,"a":2}', "byte 2 differs"),
        (b'{"a": 1}', "byte 5 differs"),
        (b"[]\n", "byte 2 differs"),
        (b" []", "byte 0 differs"),
        (b'"\\u0041"', "byte 1 differs"),
        (b'"\\/"', "byte 1 differs"),
        (b'"\\ud800"', "lone surrogate"),
        (b"\xef\xbb\xbf[]", "not JSON"),
        (b'"\xff"', r"not UTF-8 \(byte 1\)"),
        (b"", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"[] []", "not JSON"),
        (b'"\n"', "not JSON"),
    ],
)
def test_bytes_that_are_not_canonical_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CanonicalError, match=message) as caught:
        read_canonical(data, "the file")
    assert str(caught.value).startswith("the file ")


@pytest.mark.parametrize("data", [b'{"a":1}', b'"\xc3\xb6"', b'"\\u000f\x7f"', b"null", b"[0,-5]"])
def test_canonical_bytes_are_read(data: bytes) -> None:
    assert canonical_bytes(read_canonical(data, "it")) == data


def test_hint_of_a_float_says_what_to_write() -> None:
    with pytest.raises(CanonicalError) as caught:
        read_json(b"[1.5]", "it")
    assert caught.value.hint == "write the number as text"
