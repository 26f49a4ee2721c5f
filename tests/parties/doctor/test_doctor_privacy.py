"""``vfl doctor``: the ε that a party has spent, beside the budget."""

from pathlib import Path

import numpy as np
import pytest
from party_folder import PartyFolder, expect_failure

from parties.vertical.privacy.ledger import Mechanism, PrivacyLedger
from tests.conftest import HUB, SPOKE

NOISE = """
[privacy.embed_once]
noise_multiplier = 4.0
budget = 2.5
[privacy.label_dp]
epsilon = 3.0
"""
ONCE = Mechanism("once", sigma=4.0, clip=1.0)


def release(party_folder: PartyFolder, name: str, mechanism: Mechanism, times: int) -> Path:
    """Record releases of two rows, the first one ``times`` times; return the ledger's folder."""
    state = party_folder.folder / "runs" / "trial" / name
    ledger = PrivacyLedger(state, lambda size: bytes(range(size)))
    tags, often = ledger.tags([b"p1", b"p2"]), np.array([times, 1])
    ledger.charge(tags, mechanism, often, lambda spent: None)
    return state / "privacy"


def test_party_without_noise_has_no_ledger(party_folder: PartyFolder) -> None:
    assert "privacy ledger" not in party_folder.findings(SPOKE)


@pytest.mark.parametrize(
    ("times", "state", "text"),
    [(1, "ok", "ε = 1.994; the budget is 2.5"), (2, "warning", "ε = 2.944; the budget is 2.5")],
)
def test_spent_epsilon_of_embeddings_is_shown(
    party_folder: PartyFolder, times: int, state: str, text: str
) -> None:
    party_folder.agreed["shop"] = NOISE
    folder = release(party_folder, SPOKE, ONCE, times)
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    found = party_folder.findings(SPOKE)["privacy ledger"]
    assert found["state"] == state
    assert f"at most {times} releases of a row's embedding; the largest {text}" in found["message"]
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_spent_epsilon_of_labels_is_shown(party_folder: PartyFolder) -> None:
    party_folder.agreed["shop"] = NOISE
    release(party_folder, HUB, Mechanism("response", epsilon=3.0), 2)
    text = party_folder.findings(HUB)["privacy ledger"]["message"]
    assert "at most 2 releases of a row's label; the largest ε = 6; no budget is agreed" in text


def test_no_release_and_no_bound_are_shown(party_folder: PartyFolder) -> None:
    party_folder.agreed["shop"] = NOISE
    text = party_folder.findings(SPOKE)["privacy ledger"]["message"]
    assert text == "no release is recorded; ε = 0; the budget is 2.5"
    release(party_folder, SPOKE, Mechanism("visit", sigma=1.0), 1)
    assert "ε = ∞" in party_folder.findings(SPOKE)["privacy ledger"]["message"]


def test_ledger_without_its_key_is_refused(party_folder: PartyFolder) -> None:
    party_folder.agreed["shop"] = NOISE
    (release(party_folder, HUB, ONCE, 1) / "key").unlink()
    expect_failure(party_folder, HUB, 9, "key is missing, but the ledger that needs this key")
