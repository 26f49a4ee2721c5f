"""Tests of the search: one rule for all methods, and refusal of unchosen settings."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from configs.errors import ConfigError
from parties.experiments.population import search as search_module
from parties.experiments.population.measured import Measured
from parties.experiments.population.part import StudyPlace
from parties.experiments.population.plan import (
    Population,
    SearchPlan,
    SearchRange,
    Study,
    StudyMethod,
)
from parties.experiments.population.search import (
    Choice,
    Trial,
    choose,
    read_choices,
    search_settings,
    tried_rows,
    with_choices,
    write_choices,
)
from parties.experiments.provenance import Provenance, RunningCode

PLACE = Population(name="digits", config="some.toml", runs=32)
ROW = StudyMethod(
    name="fine-tune",
    way="fine-tune",
    search={"epochs": SearchRange(low=1, high=20, whole=True), "learning_rate": SearchRange(low=1)},
)
STUDY = Study.model_construct(population=(PLACE,), row=(ROW,))

OLD, NEW = Provenance("aaaaaaa", "2 cores", "old"), Provenance("bbbbbbb", "2 cores", "new")
SHIPPED = Path(__file__).parents[4] / "docs" / "forgetting-search.json"


def trial(epochs: int, leak: float, utility: float) -> Trial:
    return Trial({"epochs": epochs}, leak, utility, 0.1, 1.0)


def test_every_method_gets_the_same_number_of_trials_and_the_defaults_first() -> None:
    tried = tried_rows(STUDY, ROW, 0.01)
    assert len(tried) == 20
    assert tried[0] == (ROW, {})
    assert [settings for _, settings in tried] == [each for _, each in tried_rows(STUDY, ROW, 0.01)]
    epochs = [row.settings["epochs"] for row, _ in tried[1:]]
    assert (min(epochs), max(epochs)) == (1, 19)


def test_rule_takes_the_lowest_leak_among_useful_settings() -> None:
    trials = [trial(1, 0.60, 0.0), trial(2, 0.52, -0.009), trial(3, 0.50, -0.011)]
    found = choose(STUDY, PLACE, ROW, trials, Provenance())
    assert (found.settings, found.useful) == ({"epochs": 2}, True)


def test_rule_takes_the_most_accurate_settings_if_none_is_useful() -> None:
    found = choose(STUDY, PLACE, ROW, [trial(1, 0.5, -0.3), trial(2, 0.6, -0.1)], OLD)
    assert (found.settings, found.useful) == ({"epochs": 2}, False)


def choice(population: str, epochs: int, origin: Provenance | None = None) -> Choice:
    trials = [trial(epochs, 0.5, 0.0)]
    return Choice(population, "fine-tune", {"epochs": epochs}, True, trials, origin or OLD)


def test_choices_of_one_population_keep_those_of_another(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    assert read_choices(path) == {}
    write_choices(path, [choice("digits", 1), choice("income", 2)])
    write_choices(path, [choice("digits", 3)])
    assert read_choices(path) == {
        ("income", "fine-tune"): {"epochs": 2}, ("digits", "fine-tune"): {"epochs": 3},
    }  # fmt: skip


def test_choices_keep_their_own_provenance(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    write_choices(path, [choice("digits", 1, OLD), choice("income", 2, OLD)])
    assert json.loads(path.read_text()).items() >= asdict(OLD).items()
    write_choices(path, [choice("income", 3, NEW)])
    content = json.loads(path.read_text())
    assert [each["provenance"] for each in content["choices"]] == [asdict(OLD), asdict(NEW)]
    assert (content["commit"], content["code"]) == ("aaaaaaa, bbbbbbb", "")


def test_code_of_a_choice_without_provenance_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    earlier = asdict(choice("digits", 1))
    del earlier["provenance"]
    path.write_text(json.dumps({**asdict(OLD), "choices": [earlier]}))
    write_choices(path, [choice("income", 2, NEW)])
    content = json.loads(path.read_text())
    assert content["choices"][0]["provenance"] == asdict(Provenance())
    assert content["code"] == ""


def test_shipped_choices_have_their_common_provenance() -> None:
    content = json.loads(SHIPPED.read_text())
    common = Provenance.common(Provenance(**each["provenance"]) for each in content["choices"])
    assert content.items() >= asdict(common).items()


def test_choice_has_the_provenance_of_the_files_with_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"failure": "the parameters of a model are not finite", "seconds": 1.0}

    class Part:
        agreement = SimpleNamespace(training=SimpleNamespace(learning_rate=0.01))

        def __init__(self, *_: object) -> None:
            pass

        def measured(self, row: StudyMethod) -> Measured:
            origin = NEW if row.settings else OLD  # the defaults were measured earlier
            return Measured.nothing(facts | {"provenance": asdict(origin)})

    monkeypatch.setattr(search_module, "StudyPart", Part)
    place = StudyPlace(tmp_path, None, tmp_path, RunningCode.begin(()))
    study = STUDY.model_copy(update={"search": SearchPlan(trials=3, seeds=(0, 1))})
    found = list(search_settings(study, PLACE, place, lambda _: None, lambda: None))
    assert [each.provenance for each in found] == [Provenance("aaaaaaa, bbbbbbb", "2 cores")]


def test_study_with_unchosen_settings_is_refused() -> None:
    chosen: dict[tuple[str, str], dict[str, Any]] = {("digits", "fine-tune"): {"epochs": 7}}
    (row,) = with_choices([ROW], PLACE, chosen)
    assert row.settings == {"epochs": 7}
    with pytest.raises(ConfigError, match="these rows are not chosen yet: fine-tune") as error:
        with_choices([ROW], PLACE, {})
    assert error.value.hint is not None
    assert "vfl bench forgetting-search" in error.value.hint


def test_damaged_file_of_choices_is_named(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text("{")
    with pytest.raises(ConfigError, match=r"search\.json is not a file of chosen settings"):
        read_choices(tmp_path / "search.json")
