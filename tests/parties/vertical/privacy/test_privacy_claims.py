"""Configs with and without a claim of (ε, δ)."""

from pathlib import Path
from typing import Any

import pytest
from three_parties import agreement

from configs.config_file import validate_table
from parties.report.sentences import NO_FORMAL_PRIVACY
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.privacy.accounting import epsilon_of
from parties.vertical.privacy.claims import PrivacyClaim, claims_summary, privacy_claims
from parties.vertical.privacy.ledger import PrivacySpending

ONCE = {"noise_multiplier": 4.0}
RELEASED = PrivacySpending(releases=1, square=1 / 16)
FLIPPED = PrivacySpending(releases=1, epsilon=2.0)
ALL = {"left": RELEASED, "right": RELEASED, "hub": FLIPPED}
FEATURES = ["features of left", "features of right"]
LABELS = ["labels of hub"]
TRAIN, NOISE = {"sigma": 5.0}, {"sigma": 5.0}

# Changes of the agreement, spending in the ledgers, claims.
TABLE: dict[str, tuple[dict[str, Any], dict[str, PrivacySpending], list[str]]] = {
    "nothing": ({}, {}, []),
    "an empty table": ({"privacy": {}}, ALL, []),
    "embed_once": ({"privacy": {"embed_once": ONCE}}, ALL, FEATURES),
    "embed_once, pipeline": (
        {"privacy": {"embed_once": ONCE}, "training": {"overlap": "pipeline"}}, ALL, FEATURES,
    ),
    "embed_once, its ledger unread": ({"privacy": {"embed_once": ONCE}}, {}, []),
    "embed_once, one ledger unread": (
        {"privacy": {"embed_once": ONCE}}, {"left": RELEASED}, FEATURES[:1],
    ),
    "embed_once after unbounded noise in this folder": (
        {"privacy": {"embed_once": ONCE}},
        ALL | {"left": PrivacySpending(9, float("inf"))},
        FEATURES[1:],
    ),
    "embed_once says nothing of labels": ({"privacy": {"embed_once": ONCE}}, ALL, FEATURES),
    "embed_train": ({"privacy": {"embed_train": TRAIN}}, ALL, []),
    "embed_train, clipped": ({"privacy": {"embed_train": TRAIN | {"clip": 1.0}}}, ALL, []),
    "embed_train, one visit": ({"privacy": {"embed_train": TRAIN | {"visits": 1}}}, ALL, []),
    "embed_train, one epoch of large batches": (
        {"privacy": {"embed_train": TRAIN}, "training": {"epochs": 1, "batch": 200}}, ALL, [],
    ),
    "embed_train, small batches (no amplification)": (
        {"privacy": {"embed_train": TRAIN | {"clip": 1.0}}, "training": {"batch": 1}}, ALL, [],
    ),
    "grad_noise": ({"privacy": {"grad_noise": NOISE}}, ALL, []),
    "grad_noise, clipped": ({"privacy": {"grad_noise": NOISE | {"clip": 0.1}}}, ALL, []),
    "grad_noise and embed_train": (
        {"privacy": {"grad_noise": NOISE, "embed_train": TRAIN}}, ALL, [],
    ),
    "label_dp": ({"privacy": {"label_dp": {"epsilon": 2.0}}}, ALL, LABELS),
    "label_dp, its ledger unread": ({"privacy": {"label_dp": {"epsilon": 2.0}}}, {}, []),
    "label_dp and grad_noise": (
        {"privacy": {"label_dp": {"epsilon": 2.0}, "grad_noise": NOISE}}, ALL, LABELS,
    ),
    "label_dp and embed_train": (
        {"privacy": {"label_dp": {"epsilon": 2.0}, "embed_train": TRAIN}}, ALL, LABELS,
    ),
    "label_dp and embed_once": (
        {"privacy": {"label_dp": {"epsilon": 2.0}, "embed_once": ONCE}}, ALL, FEATURES + LABELS,
    ),
}  # fmt: skip


def claims_for(changes: dict[str, Any], spent: dict[str, PrivacySpending]) -> list[PrivacyClaim]:
    return privacy_claims(
        validate_table(AGREEMENT, agreement(**changes), Path("trio.toml"), ""), spent
    )


@pytest.mark.parametrize("case", TABLE)
def test_epsilon_needs_a_valid_claim(case: str) -> None:
    changes, spent, claimed = TABLE[case]
    claims = claims_for(changes, spent)
    held = [f"{each.covers} of {each.party}" for each in claims if each.epsilon is not None]
    assert held == claimed
    assert len(claims) == 4  # the features of all three, and the labels
    for each in claims:
        assert ("ε = " in each.text or "(ε, δ) = " in each.text) is (each.epsilon is not None)
        assert (f"{NO_FORMAL_PRIVACY} for its {each.covers}: " in each.text) is (
            each.epsilon is None
        )
    assert claims_summary(claims) == (
        f"formal privacy for the {', '.join(claimed)} alone" if claimed else "no formal privacy"
    )


def test_claim_has_all_required_parts() -> None:
    text = claims_for({"privacy": {"embed_once": ONCE}}, ALL)[1].text
    for part in (
        "(ε, δ) = (1.994, 1e-05)", "replace-one", "sensitivity 2 C", "T = 1", "z = σ/C = 4",
        "against the active party", "dp-accounting 0.", "covered: every embedding",
        "released again, also by a prediction after this report", "vfl doctor at left",
        "not covered: which rows are common",
    ):  # fmt: skip
        assert part in text


def test_relation_determines_the_sensitivity() -> None:
    zero_out = claims_for({"privacy": {"embed_once": ONCE | {"relation": "zero_out"}}}, ALL)[1]
    replace = claims_for({"privacy": {"embed_once": ONCE}}, ALL)[1]
    assert "zero-out" in zero_out.text
    assert "sensitivity 1 C" in zero_out.text
    assert zero_out.epsilon == epsilon_of(1 / 16, "zero_out", 1e-5)
    assert replace.epsilon == epsilon_of(4 / 16, "zero_out", 1e-5)  # twice as far


def test_releases_of_earlier_runs_are_counted() -> None:
    twice = claims_for(
        {"privacy": {"embed_once": ONCE}}, ALL | {"left": PrivacySpending(2, 2 / 16)}
    )[1]
    assert "T = 2 at most" in twice.text
    assert twice.epsilon == epsilon_of(2 / 16, "replace_one", 1e-5)


def test_labels_have_a_pure_epsilon() -> None:
    text = claims_for({"privacy": {"label_dp": {"epsilon": 2.0}}}, ALL)[-1].text
    assert "ε = 2 (pure, δ = 0)" in text
    assert "test labels are used for the report only" in text
