"""Parts of a study, measured on all nodes of a Ray cluster at once.

Each node gets the settings and the data of a part, never a path, and returns the files with the
trained models and the measurements. First the models of every part are trained; then each method of
each part is a task of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch

from parties.common.atomic_file import write_atomically
from parties.experiments.on_ray.tasks import RayTasks
from parties.experiments.population.measured import Measured
from parties.experiments.population.part import (
    Describe,
    PartInputs,
    PartPlan,
    StudyPart,
    StudyPlace,
)
from parties.experiments.population.plan import RETRAIN, StudyMethod
from parties.experiments.provenance import Provenance, RunningCode

Files: TypeAlias = dict[str, bytes]  # content by name
Work: TypeAlias = Sequence[tuple[PartPlan, Sequence[StudyMethod]]]


def count_missing(work: Work, place: StudyPlace) -> int:
    """Return the number of measurements that have no file yet."""
    return sum(len(rows) for _, rows in _missing(work, place))


def measure_on_ray(
    tasks: RayTasks,
    work: Work,
    place: StudyPlace,
    threads: int,
    progress: tuple[Describe, Callable[[], None]],
) -> None:
    """Measure what has no file yet, and write the files into the folder of the study.

    If the code's files change meanwhile, the later measurements are stored with unknown code.

    Args:
        tasks: the cluster.
        work: the plan of each part, and the methods to measure.
        place: the folders of the study.
        threads: number of threads that torch uses in each task.
        progress: functions that describe and count each finished measurement.
    """
    parts = list(_missing(work, place))
    inputs = [tasks.share(part.read_inputs()) for part, _ in parts]
    for with_models in (False, True):
        jobs, names = [], list[tuple[StudyPart, StudyMethod]]()
        for (part, rows), shared in zip(parts, inputs, strict=True):
            models = tasks.share(part.model_files())
            for row in [each for each in rows if (each != RETRAIN) == with_models]:
                jobs.append((part.plan, row, shared, models, place.code, threads))
                names.append((part, row))
        for number, found in tasks.run(_measure, jobs):
            part, row = names[number]
            _write(part, row, found, place.code.provenance())
            progress[0](f"{part.name}: {row.name}")
            progress[1]()


def _missing(work: Work, place: StudyPlace) -> Iterator[tuple[StudyPart, list[StudyMethod]]]:
    """Each part that lacks measurements, with their methods; the Retrain models come first."""
    for plan, rows in work:
        part = StudyPart(plan, place, lambda _: None)
        unique = {part.path(row): row for row in (RETRAIN, *rows)}
        lacking = [row for path, row in unique.items() if not path.exists()]
        if lacking:
            yield part, lacking


def _measure(
    plan: PartPlan,
    row: StudyMethod,
    inputs: PartInputs,
    known: Mapping[str, bytes],
    code: RunningCode,
    threads: int,
) -> Files:
    """Measure one method on a node; return the files that are new."""
    torch.set_num_threads(threads)
    with TemporaryDirectory() as name:
        place = StudyPlace(Path(name), None, Path(name), code)
        part = StudyPart(plan, place, lambda _: None, inputs)
        part.folder.mkdir()
        for each, content in known.items():
            (part.folder / each).write_bytes(content)
        part.measured(row)
        files = {each.name: each for each in part.folder.iterdir()}
        return {each: path.read_bytes() for each, path in files.items() if each not in known}


def _write(part: StudyPart, row: StudyMethod, files: Mapping[str, Any], code: Provenance) -> None:
    """Write the files of a task; the measurement's file gets the provenance ``code``."""
    part.folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(part.folder / name, content)
    path = part.path(row)
    measured = Measured.load(path)
    if measured.facts["provenance"] != asdict(code):
        measured.with_facts(provenance=asdict(code)).save(path)
