"""One client's work: answer a lesson from the rows that it holds, and nothing is kept of it."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from models.gpfl import GpflNetwork
from models.prompts import Prompted
from parties.common.shared_randomness import Index, key, permutation, torch_seed
from parties.horizontal.engine.cohort import Kind, Score, Whose
from parties.horizontal.local.data_free import Game, duel
from parties.horizontal.local.distil import Overshadowing
from parties.horizontal.local.distillation import Pace
from parties.horizontal.local.fisher import fisher, inputs
from parties.horizontal.local.gkt import GatedTransfer
from parties.horizontal.local.local_task import (
    Learned,
    Lesson,
    Pupil,
    Rows,
    Slots,
    Unteachable,
    learn,
)
from parties.horizontal.local.mia_rows import matched
from parties.horizontal.local.personal import Personal, drawn, part, whole
from parties.horizontal.local.score_histogram import counted
from unlearning.audit.forgetting import label_odds
from unlearning.horizontal.noise import error_maximising, error_minimising

AT_ONCE = 1024  # rows whose outputs are computed at a time


def nowhere() -> Index:
    """No places."""
    return np.empty(0, np.int64)


def no_rows() -> Rows:
    """No rows."""
    return Rows(torch.empty(0), torch.empty(0, dtype=torch.int64))


@dataclass(slots=True)
class Shelf:
    """A client's rows.

    Attributes:
        rows: for training.
        held: its own test rows.
        forgotten: places among ``rows`` that must go.
        planted: places among ``rows`` that bear the trigger of an audit.
        stamped: ``held`` with the trigger and the class that it stands for.
        validation: rows by which people choose settings; from them nothing is learned either.
        marked: ``rows``, every one with the trigger, where they are unlearned as such; or none.
    """

    rows: Rows
    held: Rows
    forgotten: Index = field(default_factory=nowhere)
    planted: Index = field(default_factory=nowhere)
    stamped: Rows = field(default_factory=no_rows)
    validation: Rows = field(default_factory=no_rows)
    marked: Rows | None = None

    def of(self, kind: Kind) -> Rows:
        """The rows of one kind."""
        match kind:
            case "learn":
                return self.rows
            case "held" | "validation" | "stamped":
                apart = {"held": self.held, "validation": self.validation, "stamped": self.stamped}
                return apart[kind]
            case "planted":
                return self.rows.take(self.planted)
            case "forgotten":
                return self.rows.take(self.forgotten)
            case "retained":
                return self.rows.take(self._retained())
            case "members" | "non_members":
                raise ValueError("which rows are compared is drawn, see ``matched``")

    def lesson(self, kind: Kind) -> Rows:
        """The rows of one kind, as lessons have them."""
        if kind == "forgotten" and self.marked is not None:
            return self.marked.take(self.forgotten)
        return self.of(kind)

    def clean(self) -> Rows:
        """The forgotten rows that do not bear the trigger."""
        return self.rows.take(np.setdiff1d(self.forgotten, self.planted))

    def purge(self) -> int:
        """Drop the forgotten rows for good; how many they were."""
        gone, stay = len(self.forgotten), self._retained()
        self.planted = np.flatnonzero(np.isin(stay, self.planted))
        if self.marked is not None:
            self.marked = self.marked.take(stay)
        self.rows, self.forgotten = self.rows.take(stay), nowhere()
        return gone

    def _retained(self) -> Index:
        return np.setdiff1d(np.arange(len(self.rows)), self.forgotten)


Meant = Callable[[Shelf, str], Index | None]  # by a request; None: there is no such request


def nobody(_shelf: Shelf, _request: str) -> None:
    """No request is known."""


@dataclass(slots=True)
class Learner:
    """A client: its name, its network, its shelf, and what of the model is its own.

    Attributes:
        meant: the places among the training rows that a request names.
    """

    name: str
    network: nn.Module
    shelf: Shelf
    seed: int
    personal: Personal = field(default_factory=Personal)
    own: Tensor | None = None
    lines: dict[str, Tensor | None] = field(default_factory=dict)  # of other lines of models
    line: str = "original"
    meant: Meant = nobody

    @property
    def size(self) -> int:
        """See ``Taught``."""
        return sum(each.numel() for each in self.network.parameters())

    @property
    def holds(self) -> bool:
        """See ``Taught``."""
        return bool(len(self.shelf.rows))

    def attend(self, request: str) -> bool:
        """See ``Taught``."""
        meant = self.meant(self.shelf, request)
        if meant is not None:
            self.shelf.forgotten = meant
        return meant is not None

    def dismiss(self) -> None:
        """See ``Taught``."""
        self.shelf.forgotten = nowhere()

    def purge(self) -> int:
        """See ``Taught``."""
        return self.shelf.purge()

    def packed(self, own: Tensor) -> Tensor:
        """See ``Taught``."""
        return part(self.network, self.personal, own)

    def unpacked(self, kept: Tensor) -> Tensor:
        """See ``Taught``."""
        return whole(self.network, self.personal, kept)

    def delivered(self, model: Tensor) -> dict[str, Tensor]:
        """See ``Taught``."""
        self.become(model)
        return dict(self.network.state_dict())

    def follow(self, line: str, parent: str | None) -> None:
        """Go over to another line of models; see ``Cohort.follow``."""
        self.lines[self.line] = self.own
        if line not in self.lines:
            self.lines[line] = self.lines.get(parent) if parent else None
        self.line, self.own = line, self.lines[line]

    def measure(self, kind: Kind, model: Tensor, whose: Whose = "own") -> Score:
        """How a model does on rows of one kind, once it is the client's own, or as it was sent."""
        rows = self._measured(kind)
        if not len(rows):
            return Score(0, 0, 0.0)
        if whose == "own":
            self.become(model)
        else:
            Pupil(self.network).take(model)
        with torch.no_grad():
            parts = torch.split(rows.inputs, AT_ONCE)
            logits = torch.cat([self.network(part) for part in parts])
        right = int((logits.argmax(dim=1) == rows.labels).sum())
        loss = float(cross_entropy(logits, rows.labels, reduction="sum"))
        return Score(len(rows), right, loss, counted(label_odds(logits, rows.labels)))

    def answer(self, kind: Kind, lesson: Lesson, slots: Slots) -> Learned:
        """Do what a lesson says with rows of one kind.

        Raises:
            Unteachable: there are none, or it does not fit this network.
        """
        rows = self.shelf.lesson(kind)
        if not len(rows):
            raise Unteachable(f"{self.name} has no {kind} rows")
        own = replace(lesson, stream=f"{lesson.stream} {self.name} {kind}")
        pupil = self._pupil(self.network)
        if isinstance(self.network, GpflNetwork):
            self.network.knows(rows.labels)
        match lesson.aim:
            case "fisher" | "inputs" | "descriptor" | "classes":
                return Learned(self._told(pupil, rows, own, slots), len(rows), 0.0, 0)
            case "distil" | "gated":
                return self._distilled(pupil, own, slots, len(rows))
            case "worst-noise" | "best-noise":
                return self._from_noise(pupil, rows, own, slots)
            case _:
                found = learn(pupil, rows, own, slots, self.seed)
                self.own = found.own
                return found

    def _measured(self, kind: Kind) -> Rows:
        if kind not in ("members", "non_members"):
            return self.shelf.of(kind)
        secret = key(self.seed, "membership", self.name)
        members, others = matched(self.shelf.clean(), self.shelf.held, secret)
        return members if kind == "members" else others

    def _pupil(self, network: nn.Module) -> Pupil:
        """A network with what is our own, or with what we draw for it before the first lesson."""
        own, plan = self.own, self.personal
        if own is None:
            own = drawn(network, plan, torch_seed(self.seed, "own", self.name))
        return Pupil(network, plan, own)

    def _told(self, pupil: Pupil, rows: Rows, lesson: Lesson, slots: Slots) -> Tensor:
        """What is told of rows from which nothing is learned."""
        pupil.take(slots["model"])
        match lesson.aim:
            case "fisher":
                return fisher(self.network, rows)
            case "inputs":
                return self._inputs(rows, lesson)
            case "descriptor":
                return parameters_to_vector(self.network.parameters()).detach() - slots["model"]
            case _:
                with torch.no_grad():
                    classes = self.network(rows.inputs[:1]).shape[1]
                return (torch.bincount(rows.labels, minlength=classes) > 0).float()

    def _distilled(self, pupil: Pupil, lesson: Lesson, slots: Slots, rows: int) -> Learned:
        """Mimir's unlearning, or GKT: a teacher and images that a generator makes; no row is read.

        Raises:
            Unteachable: the network has no prompts, or the lesson does not say how.
        """
        student = self.network
        teacher = deepcopy(student)
        self._pupil(teacher).take(slots["teacher"])
        pupil.take(slots["model"])
        before = parameters_to_vector(student.parameters()).detach().clone()
        pace = Pace(rounds=lesson.epochs, batch=lesson.batch, learning_rate=lesson.learning_rate)
        seed = torch_seed(self.seed, lesson.stream)
        game, shape = self._game(lesson, teacher, slots), self.shelf.rows.inputs.shape[1:]
        loss = duel(game, shape, pace, seed)
        now = parameters_to_vector(student.parameters()).detach()
        return Learned(now - before, rows, loss, lesson.epochs, self.own)

    def _game(self, lesson: Lesson, teacher: nn.Module, slots: Slots) -> Game:
        """What our network, as the student, and the generator play for."""
        student, leaving = self.network, None
        if "second" in slots and isinstance(student, Prompted):
            leaving = deepcopy(student)
            Pupil(leaving).take(slots["second"])
        if lesson.distil is not None and isinstance(student, Prompted):
            if isinstance(teacher, Prompted) and leaving is not None:
                return Overshadowing(student, teacher, leaving, lesson.distil)
        elif lesson.gate is not None and (leaving is not None or lesson.gate.classes):
            fixed = (*self.personal.own, *self.personal.last)
            learns = [e for n, e in student.named_parameters() if not n.startswith(fixed)]
            return GatedTransfer(student, teacher, leaving, learns, lesson.gate)
        raise Unteachable("this network cannot be distilled in this way")

    def _from_noise(self, pupil: Pupil, rows: Rows, lesson: Lesson, slots: Slots) -> Learned:
        """FedMM: learn from noise in place of the rows, of which only the classes are known.

        What is the client's own stays as it is.

        Raises:
            Unteachable: the lesson does not say how.
        """
        plan = lesson.noise
        if plan is None:
            raise Unteachable("the lesson does not say how noise is made")
        held = torch.bincount(rows.labels).nonzero().flatten()
        labels = held.repeat_interleave(plan.rows)
        random = torch.Generator().manual_seed(torch_seed(self.seed, "noise", lesson.stream))
        start = torch.randn(len(labels), *rows.inputs.shape[1:], generator=random)
        makes = error_maximising if lesson.aim == "worst-noise" else error_minimising
        pupil.take(slots["teacher"])
        noise = Rows(makes(self.network, start, labels, plan), labels)
        found = learn(pupil, noise, lesson, {"model": slots["model"]}, self.seed)
        return replace(found, rows=len(rows), own=self.own)

    def become(self, model: Tensor) -> None:
        """Have the network be the model with our own parameters, or after our own step."""
        rows = self.shelf.of("retained")
        if isinstance(self.network, GpflNetwork):
            self.network.knows(rows.labels)
        self._pupil(self.network).take(model)
        if self.personal.inner is not None and len(rows):
            block = list(self.network.parameters())
            loss = cross_entropy(self.network(rows.inputs), rows.labels)
            with torch.no_grad():
                for each, gradient in zip(block, torch.autograd.grad(loss, block), strict=True):
                    each.sub_(self.personal.inner * gradient)

    def _inputs(self, rows: Rows, lesson: Lesson) -> Tensor:
        """Of every layer as many inputs, ``batch`` at most: ``[inputs, widths]``, flat."""
        secret = key(self.seed, "inputs", lesson.stream)
        chosen = rows.take(permutation(secret, len(rows))[: lesson.batch].copy())
        generator = torch.Generator().manual_seed(int.from_bytes(secret[:7], "big"))
        parts = []
        for each in inputs(self.network, chosen):
            # A convolution has more columns than rows; all layers tell as many as there are rows.
            places = torch.randperm(each.shape[1], generator=generator)[: len(chosen)]
            parts.append(each[:, places].T)
        return torch.cat(parts, dim=1).flatten()
