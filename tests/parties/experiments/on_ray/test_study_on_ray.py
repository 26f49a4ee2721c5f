"""A study on Ray has the measurements of this process."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'vfl[ray]'")
def test_measurements_on_ray_are_those_of_this_process(tmp_path: Path) -> None:
    studies = import_module("parties.experiments.on_ray.studies")  # not importable without Ray
    tasks_module = import_module("parties.experiments.on_ray.tasks")

    plans = [PartPlan(POPULATION, seed, (), {}) for seed in (3, 4)]
    here, ray = (StudyPlace(CONFIGS, None, tmp_path / name, ()) for name in ("here", "ray"))
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
