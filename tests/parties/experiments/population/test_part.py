"""The files of a part of a study: models, measurements, and the code that computed them."""

from pathlib import Path

import pytest

from parties.experiments.population.part import PartPlan, StudyPart, StudyPlace
from parties.experiments.population.plan import (
    ORIGINAL,
    RETRAIN,
    Population,
    StudyMethod,
    TriggerPopulation,
)
from parties.experiments.population.study import missing_measurements
from parties.experiments.provenance import RunningCode

CONFIGS = Path(__file__).parents[4] / "configs"
POPULATION = Population(
    name="digits",
    config="vertical/digits.toml",
    runs=32,
    rows=100,
    changes=("training.epochs=1",),
)


def trigger(party: str, runs: int = 2) -> TriggerPopulation:
    backdoor = f'{{party="{party}", target="0"}}'
    request = f'{{name="stamp", classes=["3"], fraction=0.5, backdoor={backdoor}}}'
    return TriggerPopulation(runs=runs, changes=(f"unlearn=[{request}]",))


def part(
    folder: Path, own: TriggerPopulation | None = None, changes: tuple[str, ...] = ()
) -> StudyPart:
    """A part whose digested code is the file ``code.py`` of the folder."""
    (folder / "code.py").write_text("LIMIT = 3")
    code = RunningCode.begin(["code.py"], folder)
    changed = {"trigger": own, "changes": POPULATION.changes + changes}
    plan = PartPlan(POPULATION.model_copy(update=changed), 3, (), {})
    return StudyPart(plan, StudyPlace(CONFIGS, None, folder / "out", code), lambda _: None)


def test_models_of_another_trigger_are_not_read(tmp_path: Path) -> None:
    first = part(tmp_path, trigger("left"))
    assert len(first.measured(ORIGINAL).triggered) == 2
    known = set(first.model_files())
    for other in (trigger("right"), trigger("left", 3)):
        again = part(tmp_path, other)
        assert again.model_files().keys() < known  # the models without a trigger
        assert len(again.measured(ORIGINAL).triggered) == other.runs
        assert len(again.model_files().keys() - known) == 1
    assert set(part(tmp_path, trigger("left")).model_files()) == known


def test_measurement_after_a_change_of_the_code_has_unknown_code(tmp_path: Path) -> None:
    own = part(tmp_path)
    before = own.measured(ORIGINAL).facts["provenance"]
    (tmp_path / "code.py").write_text("LIMIT = 4")
    after = own.measured(RETRAIN).facts["provenance"]
    assert before["code"]
    assert after == before | {"code": ""}


def test_missing_measurements_are_those_without_a_file(tmp_path: Path) -> None:
    own = part(tmp_path)
    own.measured(ORIGINAL)
    place = StudyPlace(CONFIGS, None, tmp_path / "out", RunningCode.begin(()))
    missing = missing_measurements([(own.plan, (ORIGINAL, RETRAIN))], place)
    assert missing == {("digits", 3, RETRAIN.name)}


def test_costs_after_a_local_start_are_shares_of_a_retrain_with_one(tmp_path: Path) -> None:
    """Each method sends the embeddings of D_r about once, whatever the number of epochs is."""
    start = ('training.start="local"', "training.local.joint_epochs=0", "training.epochs=50")
    own = part(tmp_path, changes=start)
    same = StudyMethod(name="same", way="retrain-local", settings={"joint_epochs": 0.0})
    tuned = StudyMethod(name="tuned", way="fine-tune", settings={"epochs": 2})
    for method, share in ((RETRAIN, 1), (same, 1), (tuned, 2)):
        assert own.measured(method).facts["rows_of_retrain"] == pytest.approx(share), method.name
