"""Sums of ciphertexts over lines: the same mean, drop-outs at every step, and who is refused."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import CLIENTS
from five_clients import (
    CONFIG,
    LOCAL_TASK,
    MEMBERS,
    Dies,
    cohort,
    local,
    party_of,
    prepared,
    untouched,
)

from configs.client_unlearning import StageSettings
from configs.federated_file import HorizontalConfig
from parties.common.errors import Diverged, PolicyError
from parties.horizontal.client import run_client
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import Slots
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.secure.encryption import ckks
from parties.horizontal.secure.encryption.client import CkksClient
from parties.horizontal.secure.encryption.server import CkksServer
from parties.horizontal.server import run_server
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol.line import Line

Ready = tuple[HorizontalConfig, StartOptions]
AGGREGATION = '[aggregation]\nkind = "ckks"\n{}\n\n[unlearning]\nmethod = "fine-tune"\n\n'


def ciphered(folder: Path, more: str = "") -> Ready:
    text = CONFIG.replace("[settings.server]", AGGREGATION.format(more) + "[settings.server]")
    return prepared(folder, text)


@pytest.fixture(scope="module")
def all_keepers(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return ciphered(tmp_path_factory.mktemp("all"))


@pytest.fixture(scope="module")
def two_keepers(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return ciphered(tmp_path_factory.mktemp("two"), 'key_holders = ["client-1", "client-3"]')


def slots(ready: Ready) -> Slots:
    return {"model": initial_parameters(ready[0].agreement, "original")}


def keepers(ready: Ready) -> tuple[str, ...]:
    return ready[0].agreement.aggregation.key_holders


def dying(told: list[str], who: str, frames: int) -> Callable[[str, Line], Line]:
    """The first line of one client breaks once it said so many frames."""
    lines = list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return Dies(line, frames) if name == who and lines.count(name) == 1 else line

    return tap


@pytest.mark.parametrize("holders", ["all_keepers", "two_keepers"])
def test_the_mean_is_the_same_and_nobody_is_seen_alone(
    holders: str, request: pytest.FixtureRequest
) -> None:
    ready, told = request.getfixturevalue(holders), list[str]()
    with cohort(ready, told, untouched, 3, keepers(ready)) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots(ready))
        again = remote.mean_update(MEMBERS, LOCAL_TASK, slots(ready))
        with pytest.raises(PolicyError, match="single updates are hidden"):
            next(remote.updates(MEMBERS, LOCAL_TASK, slots(ready)))
        with pytest.raises(PolicyError, match="2 clients are connected"):
            remote.mean_update(MEMBERS[:2], LOCAL_TASK, slots(ready))
        with pytest.raises(
            Diverged, match=r"the update of client-0, .* exceeds the range of secure"
        ):
            remote.mean_update(MEMBERS, replace(LOCAL_TASK, learning_rate=1e38), slots(ready))
    wanted = local(ready).mean_update(MEMBERS, LOCAL_TASK, slots(ready))
    assert torch.allclose(found.delta, wanted.delta, atol=2e-7, rtol=0)
    assert torch.equal(found.delta, again.delta)
    assert (found.rows, found.loss) == (wanted.rows, pytest.approx(wanted.loss, abs=1e-5))
    assert not [each for each in told if "left out" in each]


@pytest.mark.parametrize(
    ("who", "frames"),
    [(CLIENTS[2], 2), (CLIENTS[2], 3), (CLIENTS[2], 5), (CLIENTS[0], 3), (CLIENTS[0], 6)],
)
def test_who_dies_in_a_sum_costs_its_own_part(all_keepers: Ready, who: str, frames: int) -> None:
    """Before its sealing key, its ciphertexts or its assent, or before the key that it makes.

    The last one, a keeper, dies before it assents or opens.
    """
    told: list[str] = []
    with cohort(all_keepers, told, dying(told, who, frames), 3, ()) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_keepers))
    there = [each for each in MEMBERS if each not in found.absent]
    wanted = local(all_keepers).mean_update(there, LOCAL_TASK, slots(all_keepers))
    assert {each.client for each in found.absent} <= {who}
    assert any(f"{who} is left out" in each for each in told)
    assert torch.allclose(found.delta, wanted.delta, atol=2e-7, rtol=0)
    assert found.rows == wanted.rows


def test_one_keeper_that_is_left_opens_nothing(two_keepers: Ready) -> None:
    """The other one dies before it opens."""
    told: list[str] = []
    tap = dying(told, "client-3", 4)
    with (
        cohort(two_keepers, told, tap, 3, keepers(two_keepers)) as remote,
        pytest.raises(PolicyError, match="1 key holders decrypted the sum, and 2 are needed"),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(two_keepers))


def test_without_two_keepers_no_sum_begins(two_keepers: Ready) -> None:
    others = [each for each in MEMBERS if each.client != "client-1"]
    with (
        cohort(two_keepers, [], untouched, 3, keepers(two_keepers)) as remote,
        pytest.raises(PolicyError, match="4 clients are connected, 1 of them key holders"),
    ):
        remote.mean_update(others, LOCAL_TASK, slots(two_keepers))


def test_a_server_that_leaves_the_encryption_out_learns_nothing(all_keepers: Ready) -> None:
    told: list[str] = []
    with cohort(all_keepers, told, untouched) as remote:
        assert not dict(remote.updates(MEMBERS[:1], LOCAL_TASK, slots(all_keepers)))
    assert any("requests a single update" in each for each in told)


def test_a_server_that_asks_for_masks_in_place_of_ciphertexts_learns_nothing(
    all_keepers: Ready,
) -> None:
    told: list[str] = []
    with (
        cohort(all_keepers, told, untouched, 3) as remote,
        pytest.raises(PolicyError, match="clients are connected"),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_keepers))


def test_a_sum_that_the_server_changed_is_opened_by_nobody(
    all_keepers: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_the_first(self: CkksServer, name: str, data: bytes) -> None:
        self._there.append(name)
        if len(self._there) > 1:
            found = ckks.load_ciphertexts(self._context, data, self._count)
            pairs = zip(self._total or found, found, strict=True)
            self._total = [a + b for a, b in pairs] if self._total else found

    monkeypatch.setattr(CkksServer, "add", without_the_first)
    told: list[str] = []
    with (
        cohort(all_keepers, told, untouched, 3, ()) as remote,
        pytest.raises(PolicyError, match="0 key holders decrypted the sum, and 2 are needed"),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_keepers))
    assert any("the tags are not those of a sum" in each for each in told)


def test_keepers_that_open_one_sum_to_different_numbers_are_named(
    all_keepers: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    decrypt_sum = CkksClient.decrypt_sum

    def lying(self: CkksClient, *given: object) -> ckks.Numbers:
        return decrypt_sum(self, *given) + (self._name == "client-1")  # type: ignore[arg-type]

    monkeypatch.setattr(CkksClient, "decrypt_sum", lying)
    with (
        cohort(all_keepers, [], untouched, 3, ()) as remote,
        pytest.raises(
            PolicyError, match="client-0 and client-1 decrypt the same sum to different numbers"
        ),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_keepers))


def test_ciphertexts_of_another_length_cost_their_own_part(
    all_keepers: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt = CkksClient.encrypt

    def short(self: CkksClient, numbers: ckks.Numbers) -> bytes:
        sent = encrypt(self, numbers)
        return sent[:-1] if self._name == "client-2" else sent

    monkeypatch.setattr(CkksClient, "encrypt", short)
    told: list[str] = []
    with cohort(all_keepers, told, untouched, 3, ()) as remote:
        found = remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_keepers))
    assert found.absent == (Member("client-2"),)
    assert any("sent wrong ciphertexts: a truncated ciphertext" in each for each in told)


def test_a_key_with_its_secret_part_in_the_open_is_refused(
    all_keepers: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key = CkksClient.make_key

    def open_handed(self: CkksClient, others: dict[str, bytes]) -> object:
        key = make_key(self, others)
        secret = ckks.make_keys().secret
        return type(key)(secret, key.secret, key.sealed, key.sealing)

    told: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(CkksClient, "make_key", open_handed)
        with (
            cohort(all_keepers, told, untouched, 3, ()) as remote,
            pytest.raises(PolicyError, match="2 clients are connected"),
        ):
            remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_keepers))
    assert sum("the context has a secret key, and must have none" in each for each in told) == 3


def test_a_whole_run_of_ciphertexts_unlearns_and_says_who_could_see_more(tmp_path: Path) -> None:
    ready = ciphered(tmp_path, 'key_holders = ["client-1", "client-3"]')
    plan = ready[0].agreement
    short = plan.unlearning.model_copy(update={"fine_tune": StageSettings(rounds=1)})
    plan = plan.model_copy(
        update={"training": plan.training.model_copy(update={"rounds": 1}), "unlearning": short}
    )
    config, port = replace(ready[0], agreement=plan), MemoryPort()
    published: list[dict[str, Any]] = []
    with ThreadPoolExecutor(5) as pool:
        for name in plan.spokes:
            party = party_of((config, ready[1]), name, [])
            pool.submit(run_client, party, partial(port.connect, name))
        metrics = run_server(party_of((config, ready[1]), plan.hub, []), port, published.append)
    assert published == [metrics]
    said = metrics["run"]["aggregation"]
    assert (said["kind"], said["key_holders"]) == ("ckks", ["client-1", "client-3"])
    assert "any one of the key holders that gives it the key" in said["claim"]
    (request,) = metrics["requests"]
    assert [each["name"] for each in request["methods"]] == ["original", "fine-tune", "retrain"]
