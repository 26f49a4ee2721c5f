"""What receipts say that all parties must build equally."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from journals import Federation as Journals
from journals import federation

from parties.requests.events import (
    CompletedBody,
    EventBody,
    EventKind,
    IntroducedBody,
    SignedBody,
    StartedBody,
    StatedBody,
    VerifiedBody,
    new_request_id,
)
from parties.requests.journal import RequestJournal
from parties.requests.lifecycle import RequestRules, requests_of
from parties.requests.receipts import (
    TRUST,
    Federation,
    _code_version,
    build_receipt,
    receipt_figures,
    write_trust,
)
from unlearning.guarantee import Guarantee
from unlearning.receipts.keys import TrustFile, read_trust
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


@pytest.mark.parametrize(
    ("verified", "kind"),
    [
        ({"guarantee": "exact"}, Guarantee.EXACT),
        ({"guarantee": "distance-certified", "bound": "5.34e-5"}, Guarantee.DISTANCE_CERTIFIED),
        ({"guarantee": "certified", "epsilon": "1", "delta": "1e-5"}, Guarantee.CERTIFIED),
        ({"guarantee": "distance-certified"}, Guarantee.HEURISTIC),
        ({"guarantee": "certified", "epsilon": "1"}, Guarantee.HEURISTIC),
        ({"guarantee": "distance-certified", "bound": "-1"}, Guarantee.HEURISTIC),
        ({"guarantee": "exact", "bound": "1"}, Guarantee.HEURISTIC),
        ({"guarantee": "a later kind"}, Guarantee.HEURISTIC),
    ],
)
def test_a_guarantee_without_its_numbers_is_heuristic(
    tmp_path: Path, verified: dict[str, str], kind: Guarantee
) -> None:
    """So every party builds a receipt, and the same one, from an event without the numbers."""
    roles = {"shop": "active", "bank": "passive"}
    made = Federation("people", roles, "2" * 64, "3" * 64, 0.02)  # type: ignore[arg-type]
    with federation(tmp_path, tuple(roles)) as both:
        request = both.ask("bank")
        both.exchange()
        both.approve(request)
        both.exchange()
        start = StartedBody(batch=(request,), version=1, method="newton-cg")
        both.journals["shop"].append(EventKind.STARTED, request, start)
        body = VerifiedBody.model_validate({"version": 2, **verified})
        both.journals["shop"].append(EventKind.VERIFIED, request, body)
        for name in roles:
            both.journals[name].append(EventKind.STATED, request, stated())
        both.exchange()
        found = [built(both.journals[name], made, both.rules) for name in roles]
    assert found[0] == found[1]
    expected = {"guarantee": "heuristic"} if kind is Guarantee.HEURISTIC else verified
    claimed = found[0].guarantee
    numbers = {"epsilon": claimed.epsilon, "delta": claimed.delta, "bound": claimed.bound}
    known = {name: each for name, each in numbers.items() if each is not None}
    assert {"guarantee": claimed.kind.value, **known} == expected


MEASURED = {
    "validation_before": "0.9130", "validation_after": "0.9000", "validation_rows": "27",
    "test_before": "0.9100", "test_after": "0.8900", "test_retrain": "0.8950", "retrains": "3",
    "forgotten_before": "1.0000", "forgotten_after": "0.0000", "membership_auc": "0.5100",
    "js_ratio": "1.0200", "js_ratio_limit": "1.3000",
}  # fmt: skip


def test_receipt_of_the_figures_in_the_journal_is_that_of_all_figures(tmp_path: Path) -> None:
    """A journal of an earlier version has all figures."""
    roles = {"shop": "active", "bank": "passive"}
    made = Federation("people", roles, "2" * 64, "3" * 64, 0.02)  # type: ignore[arg-type]

    def receipt_of(folder: str, audit: dict[str, str]) -> Receipt:
        with federation(tmp_path / folder, tuple(roles)) as both:
            request = both.ask("bank")
            both.exchange()
            both.approve(request)
            both.exchange()
            start = StartedBody(batch=(request,), version=1, method="retrain")
            both.journals["shop"].append(EventKind.STARTED, request, start)
            verified = VerifiedBody(version=2, level="full", audit=audit)
            both.journals["shop"].append(EventKind.VERIFIED, request, verified)
            for name in roles:
                both.journals[name].append(EventKind.STATED, request, stated())
            both.exchange()
            return built(both.journals["bank"], made, both.rules)

    for name in ("all", "some"):
        (tmp_path / name).mkdir()
    whole = receipt_of("all", MEASURED).audit
    assert receipt_of("some", receipt_figures(MEASURED, with_tests=True)).audit == whole
    assert [(each.metric, each.value, each.n) for each in whole.results] == [
        ("loss-of-validation-accuracy", "0.0130", 27),
        ("loss-of-test-accuracy-against-retrains", "0.0050", 3),
        ("distance-from-retrains-on-forgotten-rows", "1.0200", 3),
    ]


def test_journal_gets_differences_of_accuracies_alone() -> None:
    found = receipt_figures(MEASURED, with_tests=True)
    assert found == {
        "validation_before": "0.0130", "validation_after": "0.0000", "validation_rows": "27",
        "test_retrain": "0.0050", "test_after": "0.0000", "retrains": "3",
        "js_ratio": "1.0200", "js_ratio_limit": "1.3000",
    }  # fmt: skip
    private = receipt_figures(MEASURED, with_tests=False)
    assert private == {name: found[name] for name in found if not name.startswith("test")}
    assert receipt_figures({}, with_tests=True) == {}


def introduce(made: Journals, name: str, key: str) -> None:
    body = IntroducedBody(key=key, certificate="00", proof="00")
    made.journals[name].append(EventKind.INTRODUCED, new_request_id(made.clock.now), body)


def carry_out(made: Journals, version: int, *names: str) -> None:
    """Let the hub and the parties ``names`` carry out a request that makes a version."""
    hub, receipt = made.names[0], f"{version:064x}"
    made.clock.now += timedelta(days=1)
    request = made.ask(hub)
    made.exchange()
    made.approve(request, hub, *names)
    made.exchange()
    start = StartedBody(batch=(request,), version=version - 1, method="retrain")
    made.journals[hub].append(EventKind.STARTED, request, start)
    made.journals[hub].append(EventKind.VERIFIED, request, VerifiedBody(version=version))
    made.journals[hub].append(EventKind.COMPLETED, request, CompletedBody(receipt=receipt))
    for name in (hub, *names):
        body = SignedBody(receipt=receipt, signature="00")
        made.journals[name].append(EventKind.SIGNED, request, body)
    made.exchange()


def written(made: Journals, folder: Path, joined: str, left: Mapping[str, int]) -> TrustFile:
    """The file of trusted keys of the hub, after ``post`` joined on the day ``joined``."""
    events = made.journals[made.names[0]].events()
    present = tuple(each for each in made.names if each not in left)
    views = requests_of(events, RequestRules(present, made.names[0], joined={"post": joined}))
    keys = {name: f"{at:064x}" for at, name in enumerate(made.names, 1)}
    write_trust(folder, "people", keys, left, events, views)
    return read_trust((folder / TRUST).read_bytes())


def test_trust_file_has_all_keys_and_the_versions_that_each_party_signs(tmp_path: Path) -> None:
    with federation(tmp_path) as three:
        introduce(three, "shop", "c" * 64)  # an old key
        introduce(three, "shop", f"{2:064x}")
        carry_out(three, 2, "shop")
        joined = (three.clock.now + timedelta(days=1)).date().isoformat()
        assert written(three, tmp_path / "out", joined, {}).signers(3) == {"bank", "shop", "post"}
        carry_out(three, 3, "shop", "post")
        found = written(three, tmp_path / "out", joined, {})
        later = written(three, tmp_path / "out", joined, {"post": 5})
    assert [each.public.hex() for each in found.keys_of("shop")] == ["c" * 64, f"{2:064x}"]
    assert {each.party: each.since for each in found.keys} == {
        "bank": None,
        "shop": None,
        "post": 3,
    }
    assert found.signers(2) == {"bank", "shop"}
    assert found.signers(3) == {"bank", "shop", "post"}
    assert [("post" in later.signers(each)) for each in (2, 3, 4, 5)] == [False, True, True, False]
