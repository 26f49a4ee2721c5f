"""Handshakes that fail: agreements, versions, clocks, signatures, older processes."""

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_trial import failed_handshake
from handshake_parties import PLAN, PartyVariant, open_hub_port, party, scripted_channel

from parties.common.errors import exit_code
from parties.session.handshake import accept_spokes, join_hub
from parties.session.memory_port import MemoryPort
from protocol import vfl_pb2 as pb
from protocol.errors import Aborted, IdentityError
from protocol.phases import Phase, Side
from tests.conftest import HUB, SPOKE

VARIANTS: dict[str, Any] = {
    "seed": 5,
    "dtype": "float64",
    "parties.bank.width": 8,
    "parties.hospital.width": 5,
    "parties.shop.width": 3,
    "parties.shop.bottom.channels": [8],
    "parties.shop.pins": ["sha256:" + "0" * 64],
    "labels.classes": ["yes", "no"],
    "psi.minimum": 7,
    "split.validation": 0.15,
    "split.test": 0.25,
    "unlearning.fedora.weight": 3.0,
    "training.optimiser": "sgd",
    "training.learning_rate": 0.01,
    "training.momentum": 0.5,
    "training.weight_decay": 0.1,
    "training.batch": 32,
    "training.epochs": 3,
    "training.patience": 2,
    "unlearning.retrains": 4,
    "unlearning.fedora.policy": "uniform",
    "unlearning.fedora.iterations": 9,
    "unlearning.fedora.primal_step": 0.2,
    "unlearning.fedora.proximal": 0.01,
    "unlearning.fedora.anneal.warmup": 0.2,
    "unlearning.fine_tune.epochs": 3,
    "unlearning.gradient_ascent.clip": 2.0,
    "limits.step_seconds": 6.0,
    "limits.magnitude": 100.0,
    "limits.rows": 1000,
}


def variant(place: str, value: Any) -> PartyVariant:
    """A party with a legal agreement that differs in one setting."""
    plan = json.loads(json.dumps(PLAN))
    *tables, last = place.split(".")
    table = plan
    for name in tables:
        table = table.setdefault(name, {})
    table[last] = value
    return PartyVariant(plan=plan)


def refused_at_both(
    keys: Path, folder: Path, transport: str, spoke: PartyVariant, *message: str
) -> None:
    with failed_handshake(transport, keys, folder, spoke=spoke) as sides:
        for code, words in sides:
            assert code == 6
            for word in message:
                assert word in words


def test_agreement_has_at_least_thirty_variants() -> None:
    assert len(VARIANTS) == 30


@pytest.mark.parametrize("place", VARIANTS)
def test_difference_in_one_setting_is_refused_by_its_name(
    keys: Path, tmp_path: Path, place: str
) -> None:
    differing: Mapping[str, Any] = {place: VARIANTS[place]}
    for field, value in differing.items():
        # A policy of FedORA has defaults of its own, which then differ, too.
        words = ("the agreements differ: ", f"{field} is ")
        refused_at_both(keys, tmp_path, "memory", variant(field, value), *words)


def test_different_embedding_width_is_refused_over_the_wire(keys: Path, tmp_path: Path) -> None:
    message = "parties.shop.width is 2 at bank and 3 at shop"
    refused_at_both(keys, tmp_path, "grpc", variant("parties.shop.width", 3), message)


@pytest.mark.parametrize("versions", [(4, 5), (0, 1)], ids=["too new", "too old"])
def test_protocol_that_is_too_far_apart_is_refused_with_both_ranges(
    keys: Path, tmp_path: Path, versions: tuple[int, int]
) -> None:
    hub, shop = party(keys, HUB, []), party(keys, SPOKE, [])
    message = (
        f"shop runs vfl 0 with protocol versions {versions[0]} to {versions[1]}, but bank runs"
    )
    with open_hub_port("grpc", hub, keys, tmp_path) as at, ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(accept_spokes, hub, at.port)
        channel = scripted_channel(at.connect(SPOKE), Side.SPOKE, shop)
        hello = pb.Hello(
            oldest_version=versions[0], newest_version=versions[1], nonce=b"n" * 32,
            agreement=shop.canonical_agreement, clock=shop.now().timestamp(), software="vfl 0",
        )  # fmt: skip
        channel.send(hello)
        with pytest.raises(Aborted, match=message) as theirs:
            channel.receive(5)
        ours = accepting.exception(5)
    assert isinstance(ours, Exception)
    assert message in str(ours)
    assert (exit_code(ours), exit_code(theirs.value)) == (6, 6)


@pytest.mark.parametrize("shift", [302.0, -302.0])
def test_large_clock_difference_is_refused_by_both_with_the_seconds(
    keys: Path, tmp_path: Path, shift: float
) -> None:
    with failed_handshake("grpc", keys, tmp_path, spoke=PartyVariant(shift=shift)) as sides:
        for code, words in sides:
            assert code == 5
            names = "bank and shop" if shift > 0 else "shop and bank"
            apart = rf"the clocks of {names} are 30[12] s apart; expected at most 30"
            assert re.search(apart, words)


def test_spoke_with_invalid_signature_receives_a_ticket(keys: Path) -> None:
    port, shop = MemoryPort(), party(keys, SPOKE, [])
    channel = scripted_channel(port.connect(SPOKE), Side.SPOKE, shop)
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(accept_spokes, party(keys, HUB, []), port)
        hello = pb.Hello(
            oldest_version=3, newest_version=3, nonce=b"n" * 32, agreement=shop.canonical_agreement,
            clock=shop.now().timestamp(), software="vfl 0",
        )  # fmt: skip
        channel.send(hello)
        channel.receive(5)
        channel.send(pb.Accept(certificate=shop.keyring.identity.der, signature=b"no"))
        with pytest.raises(Aborted) as theirs:
            channel.receive(5)
        ours = accepting.exception(5)
    assert isinstance(ours, IdentityError)
    assert "the signature of shop for 'accept' is invalid" in str(ours)
    assert "signature" not in str(theirs.value)
    assert f"ticket {ours.ticket}" in str(theirs.value)
    assert f"(ticket {ours.ticket})" in str(ours)
    assert theirs.value.code == "identity"


def test_older_start_of_a_party_is_refused_and_the_others_join(keys: Path, tmp_path: Path) -> None:
    events: list[Any] = []
    bank = party(keys, HUB, events)
    with open_hub_port("memory", bank, keys, tmp_path) as at, ThreadPoolExecutor(3) as pool:
        accepting = pool.submit(accept_spokes, bank, at.port)
        newer = replace(party(keys, SPOKE, []), incarnation=7)
        assert join_hub(newer, lambda: at.connect(SPOKE)).phase is Phase.JOINED
        with pytest.raises(Aborted, match=r"of shop \(start 6\) connected after .* \(start 7"):
            join_hub(replace(newer, incarnation=6), lambda: at.connect(SPOKE))
        join_hub(party(keys, "hospital", []), lambda: at.connect("hospital"))
        channel = accepting.result(5)[0].channels[SPOKE]
    assert channel.incarnation == 7
    (message,) = [event["text"] for event in events if event["event"] == "warning"]
    assert "of shop (start 6)" in message
