"""The aggregation claim of the metrics record matches the settings."""

import json

import pytest

from configs.horizontal import HorizontalAgreement
from parties.horizontal.engine.aggregation import aggregation_claim, horizontal_aggregation_claim
from parties.horizontal.registry import AGREEMENT


def agreement(**sums: object) -> HorizontalAgreement:
    return AGREEMENT.model_validate(
        {
            "federation": "wards",
            "mode": "horizontal",
            "clients": 4,
            "shape": (8,),
            "labels": {"classes": ("0", "1")},
            "parties": {"server": {"role": "server"}},
            "aggregation": sums,
        }
    )


@pytest.mark.parametrize(
    ("sums", "claim"),
    [
        ({}, "the server sees every client's update"),
        ({"kind": "masks"}, "a minority of clients cannot help the server"),
        ({"kind": "ckks"}, "if any one client gives the server the key of a sum"),
        (
            {"kind": "ckks", "key_holders": ("client-1", "client-2")},
            "if any one of the key holders gives",
        ),
    ],
)
def test_claim_names_who_could_reveal_updates(sums: dict[str, object], claim: str) -> None:
    assert claim in aggregation_claim(agreement(**sums))["claim"]


def test_claim_names_the_key_holders() -> None:
    assert aggregation_claim(agreement(kind="ckks"))["key_holders"] == [
        f"client-{n}" for n in range(4)
    ]
    named = aggregation_claim(agreement(kind="ckks", key_holders=("client-3", "client-1")))
    assert (named["key_holders"], named["min_contributors"]) == (["client-3", "client-1"], 3)


@pytest.mark.parametrize(("method", "rows"), [("sfu", True), ("fedosd", False)])
def test_claim_of_sfu_mentions_rows_of_remaining_clients(method: str, rows: bool) -> None:
    settings = {
        "unlearn": [{"name": "one", "client": "client-0"}],
        "unlearning": {"method": method},
    }
    text = json.dumps(agreement().model_dump(mode="json") | settings)
    claim = horizontal_aggregation_claim(AGREEMENT.model_validate_json(text))["claim"]
    assert ("rows of the remaining clients" in claim) is rows
