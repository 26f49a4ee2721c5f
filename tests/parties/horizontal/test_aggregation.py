"""What the record says of sums is true to the settings."""

import json

import pytest

from configs.horizontal import HorizontalAgreement
from parties.horizontal.engine.aggregation import aggregation_claim, horizontal_aggregation_claim


def agreement(**sums: object) -> HorizontalAgreement:
    return HorizontalAgreement.model_validate(
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
    ("sums", "told"),
    [
        ({}, "the server sees every client's update"),
        ({"kind": "masks"}, "no minority of clients can help it"),
        ({"kind": "ckks"}, "any one client that gives it the key of a sum opens every single"),
        (
            {"kind": "ckks", "key_holders": ("client-1", "client-2")},
            "any one of the key holders that",
        ),
    ],
)
def test_the_record_says_who_could_see_more(sums: dict[str, object], told: str) -> None:
    assert told in aggregation_claim(agreement(**sums))["claim"]


def test_the_record_names_the_key_holders() -> None:
    assert aggregation_claim(agreement(kind="ckks"))["key_holders"] == [
        f"client-{n}" for n in range(4)
    ]
    named = aggregation_claim(agreement(kind="ckks", key_holders=("client-3", "client-1")))
    assert (named["key_holders"], named["min_contributors"]) == (["client-3", "client-1"], 3)


@pytest.mark.parametrize(("method", "rows"), [("sfu", True), ("fedosd", False)])
def test_the_record_says_that_sfu_shows_rows(method: str, rows: bool) -> None:
    asked = {"unlearn": [{"name": "one", "client": "client-0"}], "unlearning": {"method": method}}
    text = json.dumps(agreement().model_dump(mode="json") | asked)
    found = horizontal_aggregation_claim(HorizontalAgreement.model_validate_json(text))["claim"]
    assert ("rows of the remaining clients" in found) is rows
