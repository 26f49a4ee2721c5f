"""The record of a forgetting study: populations and rows that are measured later are merged."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_study import part, summary

from configs.errors import ConfigError
from parties.experiments.population.plan import read_study
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.population.study import seconds_of_methods
from parties.experiments.population.summary import PopulationSummary
from parties.experiments.provenance import Provenance
from parties.vertical.methods.fedora import ConstraintUse

ROOT = Path(__file__).parents[4]
HERE = Provenance("abc1234", "2 cores", "code")
NOW = Provenance("def5678", "2 cores", "other")
SEEDS = 4  # of the measured parts


STUDY = read_study(ROOT / "configs" / "bench" / "forgetting.toml")
(DIGITS,) = STUDY.chosen(("digits",))
ROWS = [row.name for row in STUDY.rows(DIGITS)]


def recorded(*names: str, population: str = "digits") -> PopulationSummary:
    """A population with the null, the original, and rows of these names."""
    null, original, exact = summary().methods
    rows = [replace(exact, name=name, population=population) for name in names]
    return replace(summary(), name=population, methods=[null, original, *rows])


def write(path: Path, recorded: RecordedStudy) -> None:
    path.write_text(json.dumps(recorded.content(HERE)))


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    use = ConstraintUse(active=7.5, at_maximum=0.0, iterations=8)
    found = summary()
    found = replace(found, methods=[replace(each, constraint=use) for each in found.methods])
    write(tmp_path / "study.json", RecordedStudy({found.name: found}, [HERE], 1.5))
    again = RecordedStudy.read(tmp_path / "study.json")
    assert again.populations == {found.name: found}
    assert (list(again.measured), again.hours) == ([HERE], 1.5)


def test_nothing_is_recorded_without_a_file(tmp_path: Path) -> None:
    assert RecordedStudy.read(tmp_path / "study.json") == RecordedStudy()


def test_file_that_is_no_record_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text("[]")
    with pytest.raises(ConfigError, match="is not the record of a forgetting study"):
        RecordedStudy.read(path)
    assert path.read_text() == "[]"


def test_new_rows_take_the_place_of_recorded_ones_in_the_order_of_the_study() -> None:
    earlier = RecordedStudy({"digits": recorded(*ROWS[2:5])}, [HERE], 1.0)
    new = recorded(ROWS[3], ROWS[0])
    new.methods[2:] = [replace(each, rows=0.5) for each in new.methods[2:]]
    found = earlier.merged(STUDY, [new], 0.5, [NOW])
    rows = {each.name: each.rows for each in found.populations["digits"].methods[2:]}
    assert rows == {ROWS[0]: 0.5, ROWS[2]: 0.25, ROWS[3]: 0.5, ROWS[4]: 0.25}
    assert list(rows) == [ROWS[0], *ROWS[2:5]]
    assert found.hours == 1.5
    assert found.measured == [HERE, NOW]


def test_provenance_of_rows_that_are_all_replaced_is_dropped() -> None:
    earlier = RecordedStudy({"digits": recorded(*ROWS[:2])}, [HERE], 1.0)
    assert earlier.merged(STUDY, [recorded(*ROWS[:3])], 0.5, [NOW]).measured == [NOW]
    other = recorded(ROWS[0], population="MNIST")
    assert earlier.merged(STUDY, [other], 0.5, [NOW]).measured == [HERE, NOW]


def test_hours_of_files_that_a_record_counts_are_not_added_again() -> None:
    measured = part(3)
    for each in measured.rows.values():
        each.facts["seconds"] = 1800.0
    seconds = seconds_of_methods([measured])
    known = RecordedStudy({"digits": recorded("exact")})
    assert known.new_hours(seconds, set()) == 0.0
    assert known.new_hours(seconds, {("digits", 3, "exact")}) == 0.5
    assert known.new_hours(seconds, {("digits", 2, "exact")}) == 0.0
    assert RecordedStudy().new_hours(seconds, set()) == 1.5  # of a command that was stopped


def test_populations_that_are_not_measured_stay() -> None:
    earlier = RecordedStudy({"digits": recorded(ROWS[0])})
    found = earlier.merged(STUDY, [recorded(ROWS[1], population="Fashion-MNIST")], 0.0, [])
    assert list(found.populations) == ["digits", "Fashion-MNIST"]


def test_some_rows_are_measured_only_beside_the_recorded_others() -> None:
    whole = RecordedStudy({"digits": recorded(*ROWS[1:])})
    whole.require(STUDY, [DIGITS], [ROWS[0]], SEEDS)
    with pytest.raises(ConfigError, match=f"not recorded yet: {ROWS[2]}"):
        RecordedStudy({"digits": recorded(ROWS[1], *ROWS[3:])}).require(
            STUDY, [DIGITS], [ROWS[0]], SEEDS
        )
    with pytest.raises(ConfigError, match="'digits' has no row 'nothing'"):
        whole.require(STUDY, [DIGITS], ["nothing"], SEEDS)
    RecordedStudy().require(STUDY, [DIGITS], [], SEEDS)


@pytest.mark.parametrize(
    ("rows", "seeds", "refused"),
    [
        ([ROWS[1]], 2, ROWS[0]),
        ([], 2, ROWS[0]),
        ([ROWS[1]], SEEDS, None),
        ([ROWS[0]], SEEDS + 1, ROWS[1]),
        ([], SEEDS + 1, None),
    ],
)
def test_rows_of_a_table_have_the_same_seeds(
    rows: list[str], seeds: int, refused: str | None
) -> None:
    whole = RecordedStudy({"digits": recorded(*ROWS)})
    if refused is None:
        whole.require(STUDY, [DIGITS], rows, seeds)
        return
    text = f"the row '{refused}' is recorded with 4 seeds, but --seeds is {seeds}"
    with pytest.raises(ConfigError, match=text) as error:
        whole.require(STUDY, [DIGITS], rows, seeds)
    assert error.value.hint is not None
    assert "use --seeds 4" in error.value.hint


def test_shipped_record_is_read() -> None:
    assert "digits" in RecordedStudy.read(ROOT / "docs" / "forgetting.json").populations
