"""Secure aggregation by CKKS over memory lines: the mean, drop-outs, and refusals."""

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
    BreakingLine,
    connected_cohort,
    local_cohort,
    party_of,
    prepare,
    unchanged_line,
)

from configs.client_unlearning import StageSettings
from configs.horizontal import HorizontalConfig
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


def prepare_ckks(folder: Path, more: str = "") -> Ready:
    text = CONFIG.replace("[settings.server]", AGGREGATION.format(more) + "[settings.server]")
    return prepare(folder, text)


@pytest.fixture(scope="module")
def all_key_holders(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return prepare_ckks(tmp_path_factory.mktemp("all"))


@pytest.fixture(scope="module")
def two_key_holders(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return prepare_ckks(tmp_path_factory.mktemp("two"), 'key_holders = ["client-1", "client-3"]')


def slots(ready: Ready) -> Slots:
    return {"model": initial_parameters(ready[0].agreement, "original")}


def key_holders(ready: Ready) -> tuple[str, ...]:
    return ready[0].agreement.aggregation.key_holders


def breaking_tap(client: str, frames: int) -> Callable[[str, Line], Line]:
    """Return a tap that breaks the first line of ``client`` after ``frames`` frames."""
    lines = list[str]()

    def tap(name: str, line: Line) -> Line:
        lines.append(name)
        return BreakingLine(line, frames) if name == client and lines.count(name) == 1 else line

    return tap


@pytest.mark.parametrize("holders", ["all_key_holders", "two_key_holders"])
def test_mean_equals_local_mean_and_single_updates_are_hidden(
    holders: str, request: pytest.FixtureRequest
) -> None:
    ready, warnings = request.getfixturevalue(holders), list[str]()
    large = replace(LOCAL_TASK, learning_rate=1e38)
    with connected_cohort(
        ready, warnings, unchanged_line, 3, key_holders(ready), task=large
    ) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots(ready))
        again = remote.mean_update(MEMBERS, LOCAL_TASK, slots(ready))
        with pytest.raises(PolicyError, match="needs the update of each client"):
            next(remote.updates(MEMBERS, LOCAL_TASK, slots(ready)))
        with pytest.raises(PolicyError, match="a sum has 2 clients with rows"):
            remote.mean_update(MEMBERS[:2], LOCAL_TASK, slots(ready))
        with pytest.raises(
            Diverged, match=r"the update of client-0, .* exceeds the range of secure"
        ):
            remote.mean_update(MEMBERS, large, slots(ready))
    expected = local_cohort(ready).mean_update(MEMBERS, LOCAL_TASK, slots(ready))
    assert torch.allclose(mean.delta, expected.delta, atol=2e-7, rtol=0)
    assert torch.equal(mean.delta, again.delta)
    assert (mean.rows, mean.loss) == (expected.rows, pytest.approx(expected.loss, abs=1e-5))
    assert not [each for each in warnings if "left out" in each]


@pytest.mark.parametrize(
    ("client", "frames"),
    [(CLIENTS[2], 2), (CLIENTS[2], 3), (CLIENTS[2], 5), (CLIENTS[0], 3), (CLIENTS[0], 6)],
)
def test_client_lost_in_a_sum_misses_only_its_own_update(
    all_key_holders: Ready, client: str, frames: int
) -> None:
    """The line of client-2 breaks before its sealing key, its ciphertexts or its approval.

    The line of client-0 breaks before the key that it makes, or before its approval or decryption.
    """
    warnings: list[str] = []
    with connected_cohort(all_key_holders, warnings, breaking_tap(client, frames), 3, ()) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_key_holders))
    present = [each for each in MEMBERS if each not in mean.absent]
    expected = local_cohort(all_key_holders).mean_update(
        present, LOCAL_TASK, slots(all_key_holders)
    )
    assert {each.client for each in mean.absent} <= {client}
    assert any(f"{client} is left out" in each for each in warnings)
    assert torch.allclose(mean.delta, expected.delta, atol=2e-7, rtol=0)
    assert mean.rows == expected.rows


def test_one_remaining_key_holder_cannot_decrypt(two_key_holders: Ready) -> None:
    """The line of the other key holder breaks before it decrypts."""
    warnings: list[str] = []
    tap = breaking_tap("client-3", 4)
    with (
        connected_cohort(two_key_holders, warnings, tap, 3, key_holders(two_key_holders)) as remote,
        pytest.raises(PolicyError, match="1 key holders decrypted the sum, expected 2"),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(two_key_holders))


def test_sum_needs_two_connected_key_holders(two_key_holders: Ready) -> None:
    others = [each for each in MEMBERS if each.client != "client-1"]
    with (
        connected_cohort(
            two_key_holders, [], unchanged_line, 3, key_holders(two_key_holders)
        ) as remote,
        pytest.raises(PolicyError, match="1 clients of an encrypted sum are key holders"),
    ):
        remote.mean_update(others, LOCAL_TASK, slots(two_key_holders))


def test_clients_refuse_to_send_updates_without_encryption(all_key_holders: Ready) -> None:
    warnings: list[str] = []
    cohort = connected_cohort(all_key_holders, warnings, unchanged_line, rejoin_timeout=0.0)
    with cohort as remote:  # the client ends with its error, so nobody comes back
        assert not dict(remote.updates(MEMBERS[:1], LOCAL_TASK, slots(all_key_holders)))
    assert any("requests the update of one client" in each for each in warnings)


def test_clients_refuse_masks_in_place_of_ciphertexts(
    all_key_holders: Ready,
) -> None:
    warnings: list[str] = []
    with (
        connected_cohort(all_key_holders, warnings, unchanged_line, 3) as remote,
        pytest.raises(PolicyError, match="clients are connected"),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_key_holders))


def test_sum_changed_by_the_server_is_not_decrypted(
    all_key_holders: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_the_first(self: CkksServer, name: str, data: bytes) -> None:
        self._there.append(name)
        if len(self._there) > 1:
            ciphertexts = ckks.load_ciphertexts(self._context, data, self._count)
            pairs = zip(self._total or ciphertexts, ciphertexts, strict=True)
            self._total = [a + b for a, b in pairs] if self._total else ciphertexts

    monkeypatch.setattr(CkksServer, "add", without_the_first)
    warnings: list[str] = []
    with (
        connected_cohort(all_key_holders, warnings, unchanged_line, 3, ()) as remote,
        pytest.raises(PolicyError, match="0 key holders decrypted the sum, expected 2"),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_key_holders))
    assert any("the authentication tags do not match the sum" in each for each in warnings)


def test_key_holders_that_decrypt_one_sum_differently_are_named(
    all_key_holders: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    decrypt_sum = CkksClient.decrypt_sum

    def wrong_decrypt_sum(self: CkksClient, *given: object) -> ckks.Numbers:
        return decrypt_sum(self, *given) + (self._name == "client-1")  # type: ignore[arg-type]

    monkeypatch.setattr(CkksClient, "decrypt_sum", wrong_decrypt_sum)
    with (
        connected_cohort(all_key_holders, [], unchanged_line, 3, ()) as remote,
        pytest.raises(
            PolicyError, match="client-0 and client-1 decrypted the same sum to different numbers"
        ),
    ):
        remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_key_holders))


def test_truncated_ciphertexts_are_left_out_of_the_sum(
    all_key_holders: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypt = CkksClient.encrypt

    def truncated_encrypt(self: CkksClient, numbers: ckks.Numbers) -> bytes:
        ciphertexts = encrypt(self, numbers)
        return ciphertexts[:-1] if self._name == "client-2" else ciphertexts

    monkeypatch.setattr(CkksClient, "encrypt", truncated_encrypt)
    warnings: list[str] = []
    with connected_cohort(all_key_holders, warnings, unchanged_line, 3, ()) as remote:
        mean = remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_key_holders))
    assert mean.absent == (Member("client-2"),)
    assert any("sent invalid ciphertexts: a ciphertext is truncated" in each for each in warnings)


def test_public_key_with_its_secret_part_is_refused(
    all_key_holders: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key = CkksClient.make_key

    def make_leaking_key(self: CkksClient, others: dict[str, bytes]) -> object:
        key = make_key(self, others)
        secret = ckks.make_keys().secret
        return type(key)(secret, key.secret, key.sealed, key.sealing)

    warnings: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(CkksClient, "make_key", make_leaking_key)
        with (
            connected_cohort(all_key_holders, warnings, unchanged_line, 3, ()) as remote,
            pytest.raises(PolicyError, match="2 clients are connected"),
        ):
            remote.mean_update(MEMBERS, LOCAL_TASK, slots(all_key_holders))
    assert sum("the CKKS context contains a secret key" in each for each in warnings) == 3


def test_ckks_run_unlearns_and_records_its_claim(tmp_path: Path) -> None:
    ready = prepare_ckks(tmp_path, 'key_holders = ["client-1", "client-3"]')
    plan = ready[0].agreement
    unlearning = plan.unlearning.model_copy(update={"fine_tune": StageSettings(rounds=1)})
    plan = plan.model_copy(
        update={
            "training": plan.training.model_copy(update={"rounds": 1}),
            "unlearning": unlearning,
        }
    )
    config, port = replace(ready[0], agreement=plan), MemoryPort()
    published: list[dict[str, Any]] = []
    with ThreadPoolExecutor(5) as pool:
        for name in plan.spokes:
            party = party_of((config, ready[1]), name, [])
            pool.submit(run_client, party, partial(port.connect, name))
        metrics = run_server(party_of((config, ready[1]), plan.hub, []), port, published.append)
    assert published == [metrics]
    aggregation = metrics["run"]["aggregation"]
    assert (aggregation["kind"], aggregation["key_holders"]) == ("ckks", ["client-1", "client-3"])
    assert "any one of the key holders gives the server the key" in aggregation["claim"]
    (request,) = metrics["requests"]
    assert [each["name"] for each in request["methods"]] == ["original", "fine-tune", "retrain"]
