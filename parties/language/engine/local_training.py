"""Local training of a client with a language model."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from parties.common.progress import ProgressReporter
from parties.common.shared_randomness import Index, derive_key, torch_seed
from parties.horizontal.local.client_task import ClientTask
from parties.horizontal.local.local_task import (
    LocalTask,
    LocalTaskError,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
    TextTask,
)
from parties.horizontal.local.rows import RowKind
from parties.horizontal.local.score_histogram import score_histogram
from parties.language.engine.answer_likelihood import answer_losses
from parties.language.engine.base_model import BaseModel
from parties.language.engine.micro_batches import micro_batches
from parties.language.engine.objective import TextObjective
from parties.language.engine.text_dataset import TextDataset, no_text_rows
from parties.language.texts.batches import bucketed_batches, forget_retain_batches
from parties.language.texts.encoding import EncodedText

# (texts, name of a request) -> numbers of the requested rows; None if there is no such request.
RequestedRows = Callable[[TextDataset, str], Index | None]


@dataclass(slots=True)
class LanguageClientTask(ClientTask):
    """A client that trains a language model on its texts; no parameter is personal."""

    name: str  # name of the client
    base_model: BaseModel  # the model, which clients of one process share
    dataset: TextDataset  # the client's texts
    seed: int  # seed of the run
    # Function that returns the row numbers of the texts that a request names.
    requested: RequestedRows
    # Maximum number of rows per forward pass; None for a whole batch.
    micro_batch: int | None = None
    # Receiver of progress reports; None if the client has no progress display.
    progress: ProgressReporter | None = None
    personal: Tensor | None = None  # personal parameters; always None
    branch: str = "original"  # name of the current branch of personal parameters
    # Personal parameters by branch; every value is None.
    branches: dict[str, Tensor | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of trainable weights."""
        return self.base_model.layout.size

    @property
    def has_rows(self) -> bool:
        """True if the client has training texts."""
        return bool(self.dataset.rows)

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch to another branch; the personal parameters are empty in every branch."""
        del parent
        self.branch, self.branches[branch] = branch, None

    def pack_personal(self, vector: Tensor) -> Tensor:
        """Return the parameters ``[d]`` unchanged, because no parameter is personal."""
        return vector

    def unpack_personal(self, packed: Tensor) -> Tensor:
        """Return the parameters ``[d]`` unchanged, because no parameter is personal."""
        return packed

    def named_tensors(self, model: Tensor) -> dict[str, Tensor]:
        """Return a model ``[d]`` as a dictionary of named tensors, of any shape."""
        return self.base_model.named_tensors(model)

    @torch.no_grad()
    def evaluate(
        self, kind: RowKind, model: Tensor, parameters: ParameterSource = "personal"
    ) -> RowMetrics:
        """Measure a model ``[d]`` on the texts of one kind.

        The loss of an answer is the mean loss of its tokens, in nats; the loss of all texts is the
        sum of the losses of the answers. The probability of an answer is exp(-loss). It is the
        geometric mean of the probabilities of the tokens. An answer is correct if the model gives
        the highest probability to each token of the answer.
        """
        del parameters
        rows = self.dataset.of(kind)
        if not rows:
            return RowMetrics(0, 0, 0.0)
        with self.base_model.lock:
            self.base_model.load(model)
            self.base_model.model.eval()
            means, right = answer_losses(self.base_model, rows)
        chances = (-means).exp()
        odds = score_histogram(torch.logit(chances.double(), eps=1e-12))
        return RowMetrics(len(rows), right, float(means.sum()), odds, float(chances.sum()))

    def run_task(self, kind: RowKind, task: LocalTask, slots: Slots) -> LocalUpdate:
        """Train on the client's texts of one kind, and return the update.

        ``slots`` are the vectors that the server sent, by name, ``[d]`` each.

        Raises:
            LocalTaskError: there are no rows of this kind, the task has no settings for texts, or
                the objective needs the model before unlearning, but the server did not send this
                model.
        """
        rows, plan = self.dataset.of(kind), task.text
        if plan is None:
            raise LocalTaskError(
                f"the server's task with the aim {task.aim!r} contains no settings for texts"
            )
        if plan.needs_reference and "teacher" not in slots:
            raise LocalTaskError(
                f"the objective {plan.objective} needs the model before unlearning, but the server "
                "did not send that model"
            )
        if not rows:
            raise LocalTaskError(f"{self.name} has no {kind} texts, expected at least one")
        stream = f"{task.stream} {self.name} {kind}"
        forgets = kind == "forgotten" and plan.objective != "learn"
        with self.base_model.lock:
            self.base_model.load(slots["model"])
            before = self.base_model.trainable_vector()
            steps = (
                self._forget(rows, task, plan, stream, slots)
                if forgets
                else self._learn(rows, task, plan, stream, before)
            )
            count = len(rows) if forgets else len(rows) + len(self.dataset.public)
            total = task.epochs * -(-count // task.batch)
            losses = list(self._with_progress(steps, task.stream, total))
            change = self.base_model.trainable_vector() - before
        retained = len(self.dataset.of("retained")) if forgets else 0
        tokens = sum(tokens for _, tokens in losses)
        mean = sum(loss for loss, _ in losses) / len(losses)
        return LocalUpdate(change, len(rows) + retained, mean, len(losses), tokens=tokens)

    @property
    def _data(self) -> TextDataset:
        return self.dataset

    def _named_rows(self, request: str) -> Index | None:
        return self.requested(self.dataset, request)

    def _with_progress(
        self, steps: Iterable[tuple[float, int]], name: str, total: int
    ) -> Iterator[tuple[float, int]]:
        """Yield loss and tokens of each step, and report them."""
        if self.progress is not None:
            self.progress.phase(f"learning: {name}", total)
        for loss, tokens in steps:
            if self.progress is not None:
                self.progress.add_tokens(tokens)
                self.progress.step()
            yield loss, tokens

    def _learn(
        self,
        rows: list[EncodedText],
        task: LocalTask,
        plan: TextTask,
        stream: str,
        before: Tensor,
    ) -> Iterator[tuple[float, int]]:
        """Yield loss and tokens of each step of fine-tuning."""
        all_rows = rows + self.dataset.public
        lengths = [len(each.ids) for each in all_rows]
        learning = TextObjective(self.base_model, TextTask(), before, 0)
        optimiser = _TextOptimiser(
            self.base_model, task, plan, before, torch_seed(self.seed, stream)
        )
        for epoch in range(task.epochs):
            order = derive_key(self.seed, "batches", stream, epoch)
            for chosen in bucketed_batches(lengths, task.batch, order):
                yield self._step(optimiser, learning, [all_rows[at] for at in chosen], [])

    def _forget(
        self, rows: list[EncodedText], task: LocalTask, plan: TextTask, stream: str, slots: Slots
    ) -> Iterator[tuple[float, int]]:
        """Yield loss and tokens of each step of unlearning."""
        kept = self.dataset.of("retained") + self.dataset.public
        before = slots.get("teacher", slots["model"])
        objective = TextObjective(self.base_model, plan, before, torch_seed(self.seed, "steering"))
        optimiser = _TextOptimiser(
            self.base_model, task, plan, slots["model"], torch_seed(self.seed, stream)
        )
        lengths = [len(each.ids) for each in rows]
        # The loss of gradient ascent is minus the cross entropy.
        least = -self.base_model.uniform_loss if plan.stop_at_uniform else -math.inf
        for epoch in range(task.epochs):
            order = derive_key(self.seed, "batches", stream, epoch)
            for forget, retain in _forget_batches(lengths, kept, task.batch, order):
                batch = ([rows[at] for at in forget], [kept[at] for at in retain])
                done = self._step(optimiser, objective, *batch, least)
                yield done
                if done[0] <= least:
                    return

    def _step(
        self,
        optimiser: "_TextOptimiser",
        objective: TextObjective,
        forget: Sequence[EncodedText],
        retain: Sequence[EncodedText],
        least: float = -math.inf,
    ) -> tuple[float, int]:
        """Make one step, unless its loss is at most ``least``; return its loss and its tokens."""
        loss = optimiser.descend(self._losses(objective, forget, retain), least)
        return loss, sum(len(each.ids) for each in (*forget, *retain))

    def _losses(
        self, objective: TextObjective, forget: Sequence[EncodedText], retain: Sequence[EncodedText]
    ) -> Iterator[Tensor]:
        """Yield the loss of each micro-batch, a scalar."""
        name, pad = objective.task.objective, self.base_model.pad_token
        for batch in micro_batches(forget, retain, self.micro_batch, pad, name):
            with self.base_model.autocast():
                loss = objective.loss(batch)
            yield loss


class _TextOptimiser:
    """The optimiser of one local task; ``seed`` is the seed of dropout."""

    def __init__(
        self, base_model: BaseModel, task: LocalTask, plan: TextTask, anchor: Tensor, seed: int
    ) -> None:
        self._task = task
        self._block = [each for each in base_model.model.parameters() if each.requires_grad]
        self._anchor = base_model.layout.unflatten(anchor) if task.proximal else {}
        rate, decay = task.learning_rate, task.weight_decay
        self._optimiser: torch.optim.Optimizer
        if plan.optimiser == "adamw":
            self._optimiser = torch.optim.AdamW(self._block, rate, weight_decay=decay)
        else:
            self._optimiser = torch.optim.SGD(
                self._block, rate, momentum=task.momentum, weight_decay=decay
            )
        base_model.model.train()
        torch.manual_seed(seed)

    def descend(self, losses: Iterable[Tensor], least: float) -> float:
        """Make a step on the sum of ``losses``, scalars; return the sum before the step.

        No step is made if the sum is at most ``least``. The graph of each loss is freed before the
        next loss is computed.
        """
        self._optimiser.zero_grad()
        total = 0.0
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        if total <= least:
            return total
        if self._task.proximal:
            self._add_proximal_gradient()
        if self._task.clip is not None:
            torch.nn.utils.clip_grad_norm_(self._block, self._task.clip)
        self._optimiser.step()
        return total

    @torch.no_grad()
    def _add_proximal_gradient(self) -> None:
        # FedProx (Li et al. 2020, arXiv 1812.06127, Eq 2): add μ (w − w^t) to the gradient.
        for each, anchor in zip(self._block, self._anchor.values(), strict=True):
            if each.grad is not None:
                each.grad.add_(each - anchor.to(each), alpha=self._task.proximal)


def _forget_batches(
    lengths: Sequence[int], kept: Sequence[EncodedText], size: int, order: bytes
) -> Iterator[tuple[Index, Index]]:
    """Yield row numbers to forget and to retain, ``[size]`` each; none to retain without texts."""
    if kept:
        yield from forget_retain_batches(lengths, len(kept), size, order)
    else:
        yield from ((each, no_text_rows()) for each in bucketed_batches(lengths, size, order))
