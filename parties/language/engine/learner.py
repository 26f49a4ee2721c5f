"""A client of a language model: answer a lesson from the texts that it holds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parties.common.progress import Watch
from parties.common.shared_randomness import Index, key, torch_seed
from parties.horizontal.engine.cohort import Kind, Score, Whose
from parties.horizontal.local.local_task import Learned, Lesson, Slots, Unteachable
from parties.horizontal.local.score_histogram import counted
from parties.horizontal.local.text_task import TextLesson
from parties.language.engine.base_model import Room
from parties.language.engine.micro_batches import pieces
from parties.language.engine.objective import Forgetting
from parties.language.engine.text_dataset import TextShelf, nowhere
from parties.language.evaluation.measuring import likelihoods
from parties.language.texts.batches import bucketed, paired
from parties.language.texts.encoding import Encoded

Meant = Callable[[TextShelf, str], Index | None]  # by a request; None: there is no such request


@dataclass(slots=True)
class LanguageLearner:
    """See ``Taught``; nothing of the model is a client's own.

    Attributes:
        at_a_time: rows of a step that are computed together; None: all.
        watch: is told of every step; None: nobody looks at this client alone.
    """

    name: str
    room: Room
    shelf: TextShelf
    seed: int
    meant: Meant
    at_a_time: int | None = None
    watch: Watch | None = None
    own: Tensor | None = None
    line: str = "original"
    lines: dict[str, Tensor | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """See ``Taught``."""
        return self.room.layout.size

    @property
    def holds(self) -> bool:
        """See ``Taught``."""
        return bool(self.shelf.rows)

    def follow(self, line: str, parent: str | None) -> None:
        """See ``Taught``; whatever the line, nothing is our own."""
        del parent
        self.line, self.lines[line] = line, None

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
        return own

    def unpacked(self, kept: Tensor) -> Tensor:
        """See ``Taught``."""
        return kept

    def delivered(self, model: Tensor) -> dict[str, Tensor]:
        """See ``Taught``."""
        return self.room.delivered(model)

    @torch.no_grad()
    def measure(self, kind: Kind, model: Tensor, whose: Whose = "own") -> Score:
        """See ``Taught``: right are answers whose every token is the likeliest.

        The loss is the sum of the answers' mean nats a token, the chance that of their exp(-).
        """
        del whose
        rows = self.shelf.of(kind)
        if not rows:
            return Score(0, 0, 0.0)
        with self.room.alone:
            self.room.take(model)
            self.room.model.eval()
            means, right = likelihoods(self.room, rows)
        chances = (-means).exp()
        odds = counted(torch.logit(chances.double(), eps=1e-12))
        return Score(len(rows), right, float(means.sum()), odds, float(chances.sum()))

    def answer(self, kind: Kind, lesson: Lesson, slots: Slots) -> Learned:
        """See ``Taught``.

        Raises:
            Unteachable: there are no rows of this kind, or the lesson is not for texts.
        """
        rows, plan = self.shelf.of(kind), lesson.text
        if plan is None:
            raise Unteachable(f"aim {lesson.aim!r} is not for texts")
        if plan.looks_back and "teacher" not in slots:
            raise Unteachable(f"{plan.objective} looks at the model before, which was not sent")
        if not rows:
            raise Unteachable(f"{self.name} has no {kind} texts")
        stream = f"{lesson.stream} {self.name} {kind}"
        forgets = kind == "forgotten" and plan.objective != "learn"
        with self.room.alone:
            self.room.take(slots["model"])
            before = self.room.vector()
            steps = (
                self._forget(rows, lesson, plan, stream, slots)
                if forgets
                else self._learn(rows, lesson, plan, stream, before)
            )
            count = len(rows) if forgets else len(rows) + len(self.shelf.public)
            losses = list(
                self._told(steps, lesson.stream, lesson.epochs * -(-count // lesson.batch))
            )
            change = self.room.vector() - before
        beside = len(self.shelf.of("retained")) if forgets else 0
        tokens = sum(tokens for _, tokens in losses)
        mean = sum(loss for loss, _ in losses) / len(losses)
        return Learned(change, len(rows) + beside, mean, len(losses), tokens=tokens)

    def _told(
        self, steps: Iterable[tuple[float, int]], name: str, total: int
    ) -> Iterator[tuple[float, int]]:
        """The steps of a lesson, as they pass."""
        if self.watch is not None:
            self.watch.phase(f"learning: {name}", total)
        for loss, tokens in steps:
            if self.watch is not None:
                self.watch.passed(tokens)
                self.watch.step()
            yield loss, tokens

    def _learn(
        self, rows: list[Encoded], lesson: Lesson, plan: TextLesson, stream: str, before: Tensor
    ) -> Iterator[tuple[float, int]]:
        """Every step's loss and tokens."""
        all_rows = rows + self.shelf.public
        lengths = [len(each.ids) for each in all_rows]
        learning = Forgetting(self.room, TextLesson(), before, 0)
        steps = _Steps(self.room, lesson, plan, before, torch_seed(self.seed, stream))
        for epoch in range(lesson.epochs):
            order = key(self.seed, "batches", stream, epoch)
            for places in bucketed(lengths, lesson.batch, order):
                yield self._step(steps, learning, [all_rows[at] for at in places], [])

    def _forget(
        self, rows: list[Encoded], lesson: Lesson, plan: TextLesson, stream: str, slots: Slots
    ) -> Iterator[tuple[float, int]]:
        kept = self.shelf.of("retained") + self.shelf.public
        before = slots.get("teacher", slots["model"])
        objective = Forgetting(self.room, plan, before, torch_seed(self.seed, "steering"))
        steps = _Steps(self.room, lesson, plan, slots["model"], torch_seed(self.seed, stream))
        lengths = [len(each.ids) for each in rows]
        for epoch in range(lesson.epochs):
            order = key(self.seed, "batches", stream, epoch)
            for lost, stays in _pairs(lengths, kept, lesson.batch, order):
                beside = [kept[at] for at in stays]
                told = self._step(steps, objective, [rows[at] for at in lost], beside)
                yield told
                if plan.stops and told[0] <= -self.room.guess:  # of ascent, minus the cross entropy
                    return

    def _step(
        self,
        steps: "_Steps",
        objective: Forgetting,
        forget: Sequence[Encoded],
        retain: Sequence[Encoded],
    ) -> tuple[float, int]:
        """One step on these rows: its loss, and the tokens of all of them."""
        loss = steps.descend(self._losses(objective, forget, retain))
        return loss, sum(len(each.ids) for each in (*forget, *retain))

    def _losses(
        self, objective: Forgetting, forget: Sequence[Encoded], retain: Sequence[Encoded]
    ) -> Iterator[Tensor]:
        named = objective.lesson.objective
        for piece in pieces(forget, retain, self.at_a_time, self.room.pad, named):
            with self.room.computing():
                loss = objective.loss(piece)
            yield loss


class _Steps:
    """The optimiser of one lesson; dropout is drawn under ``seed``."""

    def __init__(
        self, room: Room, lesson: Lesson, plan: TextLesson, anchor: Tensor, seed: int
    ) -> None:
        self._room, self._lesson = room, lesson
        self._block = [each for each in room.model.parameters() if each.requires_grad]
        self._anchor = room.layout.named(anchor) if lesson.proximal else {}
        rate, decay = lesson.learning_rate, lesson.weight_decay
        self._optimiser: torch.optim.Optimizer
        if plan.optimiser == "adamw":
            self._optimiser = torch.optim.AdamW(self._block, rate, weight_decay=decay)
        else:
            self._optimiser = torch.optim.SGD(
                self._block, rate, momentum=lesson.momentum, weight_decay=decay
            )
        room.model.train()
        torch.manual_seed(seed)

    def descend(self, losses: Iterable[Tensor]) -> float:
        """One step on the sum of ``losses``, each dropped before the next; their sum before it."""
        self._optimiser.zero_grad()
        total = 0.0
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        if self._lesson.proximal:
            self._pull()
        if self._lesson.clip is not None:
            torch.nn.utils.clip_grad_norm_(self._block, self._lesson.clip)
        self._optimiser.step()
        return total

    @torch.no_grad()
    def _pull(self) -> None:
        """FedProx: add μ (θ − θ_sent) to the gradient."""
        for each, anchor in zip(self._block, self._anchor.values(), strict=True):
            if each.grad is not None:
                each.grad.add_(each - anchor.to(each), alpha=self._lesson.proximal)


def _pairs(
    lengths: Sequence[int], kept: Sequence[Encoded], size: int, order: bytes
) -> Iterator[tuple[Index, Index]]:
    if kept:
        yield from paired(lengths, len(kept), size, order)
    else:
        yield from ((each, nowhere()) for each in bucketed(lengths, size, order))


def empty_flags(rows: int) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Nothing is flagged."""
    return np.zeros(rows, np.bool_)
