"""What receipts say that all parties must build equally."""

import pytest

from parties.requests.events import StatedBody
from parties.requests.receipts import _code_version


def stated(**profile: str) -> StatedBody:
    key = "0" * 64
    return StatedBody(
        version=2, before=key, after=key, destroyed=(), remains=(), transcript=key, profile=profile
    )


@pytest.mark.parametrize(
    ("versions", "named"),
    [
        (("0.10.0", "0.9.1"), "0.9.1"),
        (("0.9.1", "0.10.0", "0.10.0"), "0.9.1"),
        (("0.4.0", "not a version"), "0.4.0"),
        (("",), "unknown"),
    ],
)
def test_receipt_names_the_oldest_version_that_a_party_states(
    versions: tuple[str, ...], named: str
) -> None:
    assert _code_version(stated(vfl=each) for each in versions) == named


def test_receipt_of_parties_that_state_no_version_names_none() -> None:
    assert _code_version([stated(threads="1")]) == "unknown"
