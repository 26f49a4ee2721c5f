"""What the receipt of a request after the training claims: certificates, and what is refused."""

import json
import shutil
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kept_trio import KeptTrio, train_trio
from test_newton_cg import HEAD

from parties.common.errors import IntegrityError, PolicyError
from parties.requests.events import EventKind, StartedBody, StatedBody, VerifiedBody
from parties.requests.lifecycle import RequestState
from parties.requests.receipts import read_receipt
from parties.vertical.kept_model import party_models
from parties.vertical.service import carry_out
from parties.vertical.service.carry_out import _Part, _together
from parties.vertical.service.replay import plan_replay
from unlearning.guarantee import Guarantee
from unlearning.receipts.keys import read_trust
from unlearning.receipts.receipt import Receipt, StatedGuarantee
from unlearning.receipts.verify import verify

ALONE: dict[str, Any] = {"compare": (), "retrains": 0}
NEWTON: dict[str, Any] = HEAD | {
    "newton": {"weight": 1e-2, "bound": 1e-3},
    "unlearning": {"method": "newton-cg", **ALONE},
    "requests": {"guard": 1.0},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptTrio:
    """Three parties that have trained a convex head; tests work on copies."""
    return train_trio(tmp_path_factory.mktemp("trained"), **NEWTON)


@pytest.fixture
def trio(trained: KeptTrio, tmp_path: Path) -> KeptTrio:
    """A copy of the three parties."""
    shutil.copytree(trained.folder, tmp_path / "trio")
    return KeptTrio(tmp_path / "trio", trained.plan)


def training_rows(trio: KeptTrio) -> list[int]:
    store = party_models(trio.party("left"))
    newest = store.newest_version()
    assert newest is not None
    return [*map(int, store.read(newest.number).tensors["rows"]["train"])]


def receipt_of(trio: KeptTrio, request: str) -> Receipt:
    """The receipt of a request, the same at all parties, and valid."""
    folders = [trio.folder / "runs" / "trio" / name / "receipts" for name in trio.names]
    (data,) = {(each / f"{request}.json").read_bytes() for each in folders}
    result = verify(data, read_trust((folders[0] / "trust.json").read_bytes()))
    assert int(result.exit_code) == 0, result.findings
    return read_receipt(folders[0] / f"{request}.json")


def forgotten(trio: KeptTrio, rows: list[int], **changes: Any) -> StatedGuarantee:
    """What the receipt of a request for ``rows`` claims."""
    request = trio.request("left", rows)
    trio.carry_out(**changes)
    assert trio.view("hub", request).state is RequestState.CERTIFIED
    return receipt_of(trio, request).guarantee


def test_bound_of_the_present_model_stands_in_the_receipt(trio: KeptTrio) -> None:
    rows = training_rows(trio)
    first = forgotten(trio, rows[:6])
    assert first.kind is Guarantee.DISTANCE_CERTIFIED
    assert 0 < float(first.bound or 0) <= 1e-3
    again = forgotten(trio, rows[:6])  # the model does not change, so its bound holds
    assert again == first
    heuristic = NEWTON["unlearning"] | {"method": "fine-tune"}
    weak = forgotten(trio, rows[6:12], unlearning=heuristic)
    assert weak == forgotten(trio, rows[:12]) == StatedGuarantee(kind=Guarantee.HEURISTIC)
    last = forgotten(trio, [*rows[:2], *rows[12:18]], unlearning=NEWTON["unlearning"])
    assert last.kind is Guarantee.DISTANCE_CERTIFIED  # whatever was done before
    assert last.bound != first.bound


def test_epsilon_and_delta_of_a_release_stand_in_the_receipt(tmp_path: Path) -> None:
    newton = NEWTON["newton"] | {"release": {"epsilon": 1.5}}
    trio = train_trio(tmp_path, **(NEWTON | {"newton": newton}))
    rows = training_rows(trio)
    expected = StatedGuarantee(kind=Guarantee.CERTIFIED, epsilon="1.5", delta="1e-5")
    assert forgotten(trio, rows[:6]) == expected
    assert forgotten(trio, rows[3:9]) == expected
    with closing(trio.desk("hub")) as desk:
        request = desk.requests()[-1].id
    us = trio.party("left", serves=False, replays=request)  # its noise is drawn anew
    with closing(trio.desk("left")) as desk, pytest.raises(PolicyError, match="adds noise"):
        plan_replay(us, desk)


def test_a_version_without_the_numbers_of_its_certificate_is_heuristic(
    trio: KeptTrio, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = training_rows(trio)
    with monkeypatch.context() as patch:
        patch.setattr(carry_out, "upper_bound_text", lambda _: None)
        assert forgotten(trio, rows[:6]).kind is Guarantee.HEURISTIC
    assert forgotten(trio, rows[:6]).kind is Guarantee.HEURISTIC


EXACT, HEURISTIC = (StatedGuarantee(kind=each) for each in (Guarantee.EXACT, Guarantee.HEURISTIC))
NEAR, FAR = (
    StatedGuarantee(kind=Guarantee.DISTANCE_CERTIFIED, bound=each) for each in ("1e-5", "0.1")
)
NOISY = StatedGuarantee(kind=Guarantee.CERTIFIED, epsilon="1", delta="1e-5")


@pytest.mark.parametrize(
    ("parts", "claimed"),
    [
        ([(NEAR, True)], NEAR),
        ([(FAR, False)], FAR),
        ([(FAR, True), (NEAR, True)], NEAR),  # about the model that the last method made
        ([(NEAR, True), (FAR, True)], FAR),
        ([(NEAR, True), (FAR, False)], NEAR),
        ([(FAR, False), (NOISY, True)], NOISY),  # noise makes the distance larger than the bound
        ([(EXACT, True), (NEAR, False)], EXACT),
        ([(EXACT, False), (NEAR, True)], NEAR),
        ([(NEAR, True), (HEURISTIC, False)], HEURISTIC),
        ([(HEURISTIC, False), (NEAR, True)], HEURISTIC),
    ],
)
def test_certificates_of_a_batch_are_not_combined(
    parts: list[tuple[StatedGuarantee, bool]], claimed: StatedGuarantee
) -> None:
    assert _together([_Part(each, changed=changed) for each, changed in parts]) == claimed


def test_a_heuristic_that_had_nothing_to_do_may_be_exact(tmp_path: Path) -> None:
    changes = {"unlearning": {"method": "fine-tune", **ALONE}, "requests": {"guard": 1.0}}
    trio = train_trio(tmp_path, **changes)
    store = party_models(trio.party("left"))
    rows = store.read(1).tensors["rows"]
    unused = [*map(int, rows["validation"])]
    assert forgotten(trio, unused[:3]).kind is Guarantee.EXACT
    used = [*map(int, rows["train"])]
    assert forgotten(trio, [*used[:4], *unused[3:5]]) == HEURISTIC


def test_no_party_signs_a_guarantee_that_the_method_cannot_give(trio: KeptTrio) -> None:
    """A dishonest active party says that fine-tuning is exact."""
    request = trio.request("left", training_rows(trio)[:4])
    with ExitStack() as stack:
        desks = {name: stack.enter_context(closing(trio.desk(name))) for name in trio.names}
        hub = desks["hub"].journal
        for name in ("left", "right") * 3:
            theirs = desks[name]
            desks["hub"].merge(theirs.journal.since(hub.counts()), theirs.journal.counts())
            theirs.merge(hub.since(theirs.journal.counts()), hub.counts())
        start = StartedBody(batch=(request,), version=9, method="fine-tune")
        hub.append(EventKind.STARTED, request, start)
        verified = VerifiedBody(version=10, guarantee="exact")
        hub.append(EventKind.VERIFIED, request, verified)
        for name in trio.names:
            stated = StatedBody(
                version=10, before="0" * 64, after="1" * 64, destroyed=(), remains=(),
                transcript="0" * 64, profile={},
            )  # fmt: skip
            desks[name].append(EventKind.STATED, request, stated)
        right = desks["right"]
        right.merge(desks["left"].journal.since(right.journal.counts()), {}, attends=False)
        with pytest.raises(IntegrityError, match="stronger than heuristic, the strongest one"):
            right.merge(hub.since(right.journal.counts()), hub.counts())
        kinds = [json.loads(each.encode())["kind"] for each in right.journal.events()]
    assert "signed" not in kinds
