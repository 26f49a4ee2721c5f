"""Tests of the record of a run: JSON round trip, refusals, dates, and shares of Retrain's cost."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError
from sample_metrics import sample

from parties.common.errors import DataError
from parties.common.json_files import canonical_json
from parties.report.record import (
    VERSION,
    MethodCost,
    MethodRecord,
    RunFacts,
    add_shares_of_retrain,
    read_record,
)


def numbers(value: Any) -> list[float]:
    """Return all numbers of a document, sorted."""
    if isinstance(value, dict):
        return sorted(number for part in value.values() for number in numbers(part))
    if isinstance(value, list):
        return sorted(number for part in value for number in numbers(part))
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return [float(value)] if known else []


def test_record_survives_json() -> None:
    record = read_record(sample())
    assert read_record(json.loads(json.dumps(record.plain()))) == record


def test_record_keeps_every_number() -> None:
    assert numbers(read_record(sample()).plain()) == numbers(sample())


def test_numbers_of_a_diverged_method_become_null() -> None:
    record = read_record(sample())
    request = record.requests[0]
    method = request.methods[0].model_copy(update={"accuracy": {"test": math.nan}})
    diverged = request.model_copy(update={"methods": (method,)})
    plain = record.model_copy(update={"requests": (diverged,)}).plain()
    assert plain["requests"][0]["methods"][0]["accuracy"] == {"test": None}
    canonical_json(plain)  # refuses a number that is not finite


@pytest.mark.parametrize("version", [None, VERSION - 1, VERSION + 1, str(VERSION)])
def test_other_version_is_refused(version: object) -> None:
    with pytest.raises(DataError, match=f"this vfl reads format version {VERSION}"):
        read_record(sample() | {"version": version})


@pytest.mark.parametrize("content", [None, [], {}, {"run": {}}])
def test_other_content_is_refused(content: object) -> None:
    with pytest.raises(DataError, match="is not the metrics file of a run"):
        read_record(content)


def test_illegal_value_is_named() -> None:
    metrics = sample()
    metrics["requests"][0]["methods"][0]["accuracy"]["test"] = "high"
    with pytest.raises(DataError, match=r"requests\.0\.methods\.0\.accuracy\.test"):
        read_record(metrics)


def test_unknown_field_is_refused() -> None:
    metrics = sample()
    metrics["requests"][0]["iterations"] = []
    with pytest.raises(DataError, match=r"requests\.0\.iterations"):
        read_record(metrics)


def test_dates_are_written_in_utc() -> None:
    run = sample()["run"]
    east = datetime(2026, 11, 23, 12, 0, 0, 250, tzinfo=timezone(timedelta(hours=2)))
    recorded = RunFacts(**run | {"began": east}).plain()
    assert recorded["began"] == "2026-11-23T10:00:00Z"
    assert RunFacts(**recorded).began == datetime(2026, 11, 23, 10, tzinfo=UTC)


def test_date_without_time_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="began"):
        RunFacts(**sample()["run"] | {"began": "2026-11-23T10:00:00"})


def test_shares_compare_with_the_mean_retrain() -> None:
    costs = {"original": None, "fedosd": (1.0, 30), "retrain": (3.0, 60), "retrain-2": (5.0, 60)}
    methods = [
        MethodRecord(
            name=name, cost=None if cost is None else MethodCost(seconds=cost[0], size=cost[1])
        )
        for name, cost in costs.items()
    ]
    original, fedosd, *_ = add_shares_of_retrain(methods)
    assert original.cost is None
    assert fedosd.cost is not None
    assert (fedosd.cost.seconds_of_retrain, fedosd.cost.size_of_retrain) == (0.25, 0.5)
    assert fedosd.cost.rows_of_retrain is None
