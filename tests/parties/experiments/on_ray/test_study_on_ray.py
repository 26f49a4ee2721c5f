"""A study on Ray has the measurements of this process."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parties.experiments.population.part import PartPlan, StudyPart, StudyPlace
from parties.experiments.population.plan import (
    ORIGINAL,
    RETRAIN,
    Population,
    StudyMethod,
    TriggerPopulation,
)
from parties.experiments.provenance import RunningCode

TRIGGER = TriggerPopulation(
    runs=2,
    changes=(
        'unlearn=[{name="stamp", classes=["3"], fraction=0.5, '
        'backdoor={party="left", target="0"}}]',
    ),
)
POPULATION = Population(
    name="digits",
    config="vertical/digits.toml",
    runs=32,
    rows=100,
    changes=("training.epochs=1",),
    trigger=TRIGGER,
)
ROWS = (
    ORIGINAL,
    RETRAIN,
    StudyMethod(name="short", way="fine-tune", settings={"epochs": 1}),
)
CONFIGS = Path(__file__).parents[4] / "configs"


with_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="ray is not installed: pip install 'vfl[ray]'"
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@with_ray
def test_measurements_on_ray_are_those_of_this_process(tmp_path: Path) -> None:
    studies = import_module("parties.experiments.on_ray.studies")  # not importable without Ray
    tasks_module = import_module("parties.experiments.on_ray.tasks")

    plans = [PartPlan(POPULATION, seed, (), {}) for seed in (3, 4)]
    code = RunningCode.begin(())
    here, ray = (StudyPlace(CONFIGS, None, tmp_path / name, code) for name in ("here", "ray"))
    work, told = [(plan, ROWS) for plan in plans], []
    StudyPart(plans[0], ray, lambda _: None).measured(RETRAIN)  # as of a command that was stopped
    assert studies.count_missing(work, ray) == 5
    with tasks_module.RayTasks("local", 1) as tasks:
        studies.measure_on_ray(tasks, work, ray, 1, (told.append, lambda: None))
    assert len(told) == 5
    assert studies.count_missing(work, ray) == 0
    for plan in plans:
        ours, theirs = (StudyPart(plan, each, lambda _: None) for each in (here, ray))
        for row in ROWS:
            found, expected = theirs.measured(row), ours.measured(row)
            for name in ("confidences", "test", "validation", "changed", "triggered"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
            assert found.facts["provenance"] == expected.facts["provenance"]


class ChangingTasks:
    """Runs each job in this process; before the second job, a file of the code changes."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def share(self, value: object) -> object:
        return value

    def run(
        self, work: Callable[..., Any], jobs: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[int, Any]]:
        for number, arguments in enumerate(jobs):
            yield number, work(*arguments)
            self._file.write_text("LIMIT = 4")


@with_ray
def test_measurement_after_a_change_of_the_code_has_unknown_code(tmp_path: Path) -> None:
    studies = import_module("parties.experiments.on_ray.studies")
    file = tmp_path / "code.py"
    file.write_text("LIMIT = 3")
    code = RunningCode.begin(["code.py"], tmp_path)
    place = StudyPlace(CONFIGS, None, tmp_path / "out", code)
    plan = PartPlan(POPULATION.model_copy(update={"trigger": None}), 3, (), {})
    rows, progress = (ORIGINAL, RETRAIN), (lambda _: None, lambda: None)
    studies.measure_on_ray(ChangingTasks(file), [(plan, rows)], place, 1, progress)
    part = StudyPart(plan, place, lambda _: None)
    codes = {row.name: part.measured(row).facts["provenance"]["code"] for row in rows}
    assert codes == {RETRAIN.name: code.started.code, ORIGINAL.name: ""}
