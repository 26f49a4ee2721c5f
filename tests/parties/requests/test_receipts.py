"""What receipts say that all parties must build equally."""

from pathlib import Path

import pytest
from journals import federation

from parties.requests.events import (
    CompletedBody,
    EventBody,
    EventKind,
    StartedBody,
    StatedBody,
    VerifiedBody,
)
from parties.requests.journal import RequestJournal
from parties.requests.lifecycle import RequestRules, requests_of
from parties.requests.receipts import Federation, _code_version, build_receipt
from unlearning.guarantee import Guarantee
from unlearning.receipts.receipt import NO_HASH, Receipt


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


def built(journal: RequestJournal, made: Federation, rules: RequestRules) -> Receipt:
    """The receipt of the only request of a journal."""
    events = journal.events()
    (view,) = requests_of(events, rules)
    receipt = build_receipt(
        made, view, {view.id: view}, events, dict.fromkeys(made.roles, "1" * 64)
    )
    assert receipt is not None
    return receipt


def test_events_that_only_the_hub_makes_do_not_count_from_another_party(tmp_path: Path) -> None:
    """The other party sorts before the hub, so that its events would come first."""
    roles = {"shop": "active", "bank": "passive"}
    made = Federation("people", roles, "2" * 64, "3" * 64, 0.02)  # type: ignore[arg-type]
    with federation(tmp_path, tuple(roles)) as both:
        request = both.ask("bank")
        both.exchange()
        both.approve(request)
        both.exchange()

        def append(name: str, kind: EventKind, body: EventBody) -> None:
            both.journals[name].append(kind, request, body)

        start = StartedBody(batch=(request,), version=1, method="retrain")
        append("shop", EventKind.STARTED, start)
        append("shop", EventKind.VERIFIED, VerifiedBody(version=2))
        for name in roles:
            append(name, EventKind.STATED, stated())
        both.exchange()
        honest = built(both.journals["shop"], made, both.rules)
        append("bank", EventKind.STARTED, start)
        append("bank", EventKind.VERIFIED, VerifiedBody(version=2, guarantee="exact", level="full"))
        append("bank", EventKind.COMPLETED, CompletedBody(receipt="ab" * 32))
        both.exchange()
        assert built(both.journals["shop"], made, both.rules) == honest
    assert honest.prev_receipt_hash == NO_HASH
    assert honest.guarantee.kind is Guarantee.HEURISTIC
