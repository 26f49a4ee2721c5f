"""A small federation in this process: digits, dealt to a few clients."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from models.seeded import seeded
from models.whole import whole_mlp
from parties.common.shared_randomness import torch_seed
from parties.data.partition import iid, pathological
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import Course, run
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.learner import Learner, Shelf
from parties.horizontal.local.local_task import Lesson, Rows
from parties.horizontal.simulation.local_cohort import LocalCohort

CLIENTS = [f"client-{number}" for number in range(5)]
LESSON = Lesson(stream="train", batch=16, learning_rate=0.1)


@cache
def digits() -> Rows:
    data = load_digits()
    images = torch.from_numpy(data.images).float() / 16
    return Rows(images[:, None], torch.from_numpy(data.target))


def network(stream: str = "shape") -> nn.Module:
    return seeded(torch_seed(0, stream), lambda: whole_mlp((1, 8, 8), (32,), 10))


def fresh(stream: str) -> Tensor:
    return parameters_to_vector(network(stream).parameters()).detach()


def learners(share: float | None = 0.4, forgotten: int = 0) -> dict[str, Learner]:
    """The clients; the first must forget its first so many rows."""
    rows = digits()
    labels = rows.labels.numpy()
    parts = iid(labels, 5, 0) if share is None else pathological(labels, 5, share, 0)
    found = {}
    for name, part in zip(CLIENTS, parts, strict=True):
        held, taught = part[::5], np.setdiff1d(part, part[::5])
        gone = np.arange(forgotten if name == CLIENTS[0] else 0)
        shelf = Shelf(rows.take(taught), rows.take(held), gone)
        found[name] = Learner(name, network(), shelf, seed=0)
    return found


@cache
def trained(share: float | None = 0.4, rounds: int = 15) -> Tensor:
    members = [Member(name) for name in CLIENTS]
    cohort = LocalCohort(learners(share))
    course = Course(LESSON, rounds)
    return run(cohort, fresh("original"), members, course, lambda *_: None)


def scene(turns: list[Turn], share: float | None = 0.4, history: object = None) -> Scene:
    """The first client leaves."""
    return Scene(
        cohort=LocalCohort(learners(share)),
        original=trained(share),
        leaving=[Member(CLIENTS[0])],
        staying=[Member(name) for name in CLIENTS[1:]],
        fresh=fresh,
        history=history,  # type: ignore[arg-type]
        tell=turns.append,
    )


def accuracy(model: Tensor, whom: list[str], share: float | None = 0.4) -> float:
    """On the training rows of some clients."""
    net = network()
    torch.nn.utils.vector_to_parameters(model.clone(), net.parameters())
    right = rows = 0
    with torch.no_grad():
        for name in whom:
            taught = learners(share)[name].shelf.rows
            right += int((net(taught.inputs).argmax(1) == taught.labels).sum())
            rows += len(taught)
    return right / rows


def loss(model: Tensor, name: str) -> float:
    """Mean cross entropy on one client's training rows."""
    found = learners()[name].measure("learn", model)
    return found.loss / found.rows
