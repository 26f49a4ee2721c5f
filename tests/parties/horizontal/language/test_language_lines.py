"""Language models over lines: what crosses in a round, and that lines change nothing."""

from pathlib import Path

import pytest
import torch

from configs.federated_file import LanguageConfig, read_language
from parties.common.errors import PolicyError
from parties.common.progress import Progress, Watch
from parties.horizontal.engine.cohort import Member
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.text_task import TextLesson
from parties.horizontal.simulation.local_cohort import LocalCohort
from parties.horizontal.tasks import pupil
from parties.language.setup import take_language_seat
from parties.session.setup import Place
from tests.parties.horizontal.language.ferries import at_lines, seat, with_keys

LESSON = Lesson(aim="text", stream="s", epochs=1, batch=8, learning_rate=0.01, text=TextLesson())


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageConfig, Place]:
    return with_keys(tmp_path_factory.mktemp("ferries"))


def test_a_round_costs_the_adapters_there_and_back_and_is_that_of_one_process(
    ready: tuple[LanguageConfig, Place],
) -> None:
    names = ready[0].agreement.spokes
    members = [Member(name) for name in names]
    with at_lines(*ready) as (remote, server):
        model = server.room.start
        before = server.ledger.total().payload
        found = remote.mean(members, LESSON, {"model": model})
        crossed = server.ledger.total().payload - before
        scores = remote.read(names, "held", model)
    d = 2 * 4 * (4 * 64 + 3 * 96)
    assert len(model) == d
    assert crossed == 2 * 4 * d * len(names), "2 · 4 · d · |S|"
    local = LocalCohort({name: pupil(seat(*ready, name)) for name in names})  # type: ignore[misc]
    wanted = local.mean(members, LESSON, {"model": model})
    assert torch.equal(found.change, wanted.change)
    assert (found.rows, found.loss) == (wanted.rows, pytest.approx(wanted.loss))
    assert scores == local.read(names, "held", model)


def test_what_is_taught_begins_alike_everywhere(ready: tuple[LanguageConfig, Place]) -> None:
    start = seat(*ready, "server").room.start
    again = read_language(ready[0].path, ["seed=9"])
    other = take_language_seat(again, "client-0", ready[1], lambda _: None).room.start
    assert not torch.equal(start, other), "A is drawn under the agreement's seed"


def test_a_base_that_is_not_there_is_named(
    ready: tuple[LanguageConfig, Place], tmp_path: Path
) -> None:
    config = read_language(ready[0].path, ['seats.client.base="nowhere"'])
    with pytest.raises(Exception, match="nowhere"):
        take_language_seat(config, "client-0", ready[1], lambda _: None)


def test_another_base_than_the_agreed_one_is_refused(
    ready: tuple[LanguageConfig, Place],
) -> None:
    config = read_language(ready[0].path, [f'model.digest="{"0" * 64}"'])
    with pytest.raises(PolicyError, match="the one agreed on 000000000000"):
        take_language_seat(config, "client-0", ready[1], lambda _: None)


def test_tokens_are_told_as_they_pass() -> None:
    told: list[dict[str, object]] = []
    watch = Watch("server", told.append)
    watch.phase("training", 2)
    watch.passed(1500)
    watch.phase("measuring")
    assert [each["tokens"] for each in told] == [0, 0], "a new phase begins to count anew"
    assert Progress("server", seconds=2.0, tokens=3000).pace == "1,500 tokens"
    assert Progress("server", done=8, seconds=2.0).pace == "4"
