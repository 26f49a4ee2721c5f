"""Size of a run before it starts: memory, bytes between the parties, and minutes.

The bytes follow from the agreement. The time of a step's arithmetic is measured here on this
machine; the time of its messages is a constant that was measured between two processes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import perf_counter
from typing import Final

import torch

from configs.agreement import VerticalAgreement
from parties.vertical.engine.networks import ActiveNetwork, build_bottom

# Measured on two runs of vfl simulate (mutual TLS, loopback, two busy cores) on tables of 2,700 and
# 40,000 rows a party, with 7 and 5 columns. Of a step, without its arithmetic: seconds, and bytes
# beside the vectors; of the intersection: seconds a row, and bytes a row of each party.
STEP_SECONDS: Final = 0.006
STEP_BYTES: Final = 200
ALIGN_SECONDS, ALIGN_BYTES = 0.00007, 60
START_SECONDS: Final = 10.0  # start of the processes, connections and report
_TRIALS: Final = 30  # steps that are measured


@dataclass(frozen=True, slots=True)
class RunSize:
    """Size of one run.

    Attributes:
        steps: training steps.
        sent: bytes between the parties, both directions.
        seconds: time on one machine or in one network without delay.
        step: measured seconds of the arithmetic of one step.
    """

    steps: int
    sent: int
    seconds: float
    step: float


def run_size(
    agreement: VerticalAgreement,
    rows: int,
    features: dict[str, int],
    clock: Callable[[], float] = perf_counter,
) -> RunSize:
    """Return the size of a training on ``rows`` common rows, without early stopping.

    Args:
        agreement: the agreement; every bottom model is a perceptron.
        rows: number of common rows.
        features: for each party with embeddings, the number of its features after preprocessing.
        clock: returns seconds; for the measured steps.
    """
    split, training = agreement.split, agreement.training
    validated = int(split.validation * rows)
    tested = int((split.test or 0.0) * rows)
    trained = rows - validated - tested
    steps = training.epochs * ceil(trained / training.batch)
    width = sum(agreement.parties[name].width or 0 for name in agreement.passive)
    number = 8 if agreement.dtype == "float64" else 4
    # Embeddings of all rows and gradients of the training rows; at the end all rows once more.
    vectors = training.epochs * (2 * trained + validated) + rows
    sent = vectors * width * number + steps * STEP_BYTES * len(agreement.passive)
    sent += ALIGN_BYTES * rows * len(agreement.parties)
    step = _measured_step(agreement, features, clock)
    seconds = START_SECONDS + steps * (step + STEP_SECONDS) + ALIGN_SECONDS * rows
    return RunSize(steps, sent, seconds, step)


def _measured_step(
    agreement: VerticalAgreement, features: dict[str, int], clock: Callable[[], float]
) -> float:
    """Return the median seconds of one step of the whole split model in one process."""
    parts = {
        name: build_bottom(entry, None, (features[name],))
        for name, entry in agreement.feature_parties.items()
    }
    active = ActiveNetwork(agreement, parts.get(agreement.active))
    networks = torch.nn.ModuleList([active, *parts.values()])
    optimiser = torch.optim.Adam(networks.parameters())
    batch = agreement.training.batch
    draws = torch.Generator().manual_seed(0)
    inputs = {name: torch.randn(batch, features[name], generator=draws) for name in parts}
    labels = _labels(agreement, batch)
    times = []
    for _ in range(_TRIALS):
        start = clock()
        optimiser.zero_grad()
        outputs = active([parts[name](inputs[name]) for name in parts])
        active.target.loss(outputs, labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        times.append(clock() - start)
    return sorted(times)[_TRIALS // 2]


def _labels(agreement: VerticalAgreement, rows: int) -> torch.Tensor:
    """Return made-up labels of the agreed kind, [rows], or [rows, labels] of several labels."""
    plan = agreement.labels
    if plan.task == "classification":
        return torch.arange(rows) % len(plan.classes)
    shape = (rows, plan.outputs) if plan.task == "multilabel" else (rows,)
    return torch.zeros(shape)
