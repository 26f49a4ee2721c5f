"""Rounds of language models over message channels: traffic, and equality with one process."""

from pathlib import Path

import pytest
import torch
from local_cohort import LocalCohort

from configs.config_file import read_config
from configs.language import LanguageConfig
from parties.common.errors import PolicyError
from parties.common.progress import Progress, ProgressReporter
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import LocalTask, TextTask
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.setup import set_up_language_party
from parties.session.setup import StartOptions
from tests.parties.language.ferries import (
    connected_cohort,
    prepare_federation,
    set_up_party,
)

TASK = LocalTask(aim="text", stream="s", epochs=1, batch=8, learning_rate=0.01, text=TextTask())


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, StartOptions]:
    return prepare_federation(tmp_path_factory.mktemp("ferries"))


def test_a_round_sends_the_adapters_both_ways_and_equals_a_round_in_one_process(
    ready: tuple[LanguageConfig, StartOptions],
) -> None:
    names = ready[0].agreement.spokes
    members = [Member(name) for name in names]
    with connected_cohort(*ready, TASK) as (remote, server):
        model = server.base_model.initial
        before = server.traffic.total().payload
        result = remote.mean_update(members, TASK, {"model": model})
        crossed = server.traffic.total().payload - before
        scores = remote.evaluate(names, "test", model)
    d = 2 * 4 * (4 * 64 + 3 * 96)
    assert len(model) == d
    assert crossed == 2 * 4 * d * len(names), "2 · 4 · d · |S|"
    local = LocalCohort(
        {name: (party := set_up_party(*ready, name)).client_task(party) for name in names}
    )  # type: ignore[misc]
    expected = local.mean_update(members, TASK, {"model": model})
    assert torch.equal(result.delta, expected.delta)
    assert (result.rows, result.loss) == (expected.rows, pytest.approx(expected.loss))
    assert scores == local.evaluate(names, "test", model)


def test_initial_adapters_depend_on_the_agreements_seed(
    ready: tuple[LanguageConfig, StartOptions],
) -> None:
    start = set_up_party(*ready, "server").base_model.initial
    again = read_config(ready[0].path, LANGUAGE, ["seed=9"])
    other = set_up_language_party(again, "client-0", ready[1], lambda _: None).base_model.initial
    assert not torch.equal(start, other), "A is drawn with the agreement's seed"


def test_a_missing_base_model_is_named(
    ready: tuple[LanguageConfig, StartOptions], tmp_path: Path
) -> None:
    config = read_config(ready[0].path, LANGUAGE, ['settings.client.base="nowhere"'])
    with pytest.raises(Exception, match="nowhere"):
        set_up_language_party(config, "client-0", ready[1], lambda _: None)


def test_a_base_model_with_another_digest_is_refused(
    ready: tuple[LanguageConfig, StartOptions],
) -> None:
    config = read_config(ready[0].path, LANGUAGE, [f'model.digest="{"0" * 64}"'])
    with pytest.raises(PolicyError, match="the agreed digest is 000000000000"):
        set_up_language_party(config, "client-0", ready[1], lambda _: None)


def test_tokens_are_reported_as_progress() -> None:
    events: list[dict[str, object]] = []
    progress = ProgressReporter("server", events.append)
    progress.phase("training", 2)
    progress.add_tokens(1500)
    progress.phase("measuring")
    assert [each["tokens"] for each in events] == [0, 0], "a new phase counts from 0"
    assert Progress("server", seconds=2.0, tokens=3000).pace == "1,500 tokens"
    assert Progress("server", done=8, seconds=2.0).pace == "4"
