"""Encoding of local tasks as protocol messages, and splitting of vectors into messages."""

from collections.abc import Iterator
from math import inf
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parties.horizontal.local.local_task import (
    Aim,
    DistillationPlan,
    GatePlan,
    LocalTask,
    Objective,
    TextTask,
)
from parties.horizontal.local.rows import RowKind
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.message import Message
from protocol.tensors import MAX_PAYLOAD
from unlearning.horizontal.data_free import FeatureSign
from unlearning.horizontal.error_noise import ErrorNoisePlan
from unlearning.horizontal.fedforget import TeacherMode

ROWS: dict[RowKind, "vfl_pb2.Rows"] = {
    "learn": vfl_pb2.TRAIN_ROWS,
    "retained": vfl_pb2.RETAIN,
    "forgotten": vfl_pb2.FORGOTTEN,
    "test": vfl_pb2.TEST,
    "validation": vfl_pb2.VALIDATION,
    "stamped": vfl_pb2.TRIGGERED,
    "planted": vfl_pb2.PLANTED,
    "members": vfl_pb2.MEMBERS,
    "non_members": vfl_pb2.NON_MEMBERS,
}
AIMS: dict[Aim, "vfl_pb2.Aim"] = {
    "fit": vfl_pb2.FIT,
    "unlearning-loss": vfl_pb2.UNLEARNING_LOSS,
    "ascent": vfl_pb2.ASCENT,
    "elastic": vfl_pb2.ELASTIC,
    "teachers": vfl_pb2.TEACHERS,
    "fisher": vfl_pb2.FISHER,
    "inputs": vfl_pb2.INPUTS,
    "distil": vfl_pb2.DISTIL,
    "personal-model": vfl_pb2.PERSONAL_MODEL,
    "gated": vfl_pb2.GATED,
    "classes": vfl_pb2.CLASSES,
    "error-maximising-noise": vfl_pb2.ERROR_MAXIMISING_NOISE,
    "error-minimising-noise": vfl_pb2.ERROR_MINIMISING_NOISE,
    "pseudo-labels": vfl_pb2.PSEUDO_LABELS,
    "text": vfl_pb2.TEXT,
}
MODES: dict[TeacherMode, "vfl_pb2.TeacherMode"] = {
    "literal": vfl_pb2.LITERAL,
    "repel": vfl_pb2.REPEL,
    "clean_teacher": vfl_pb2.CLEAN_TEACHER,
    "bad_teacher": vfl_pb2.BAD_TEACHER,
    "ga": vfl_pb2.GA,
}
DELIVERED = "delivered"  # slot of the run's final model
KINDS = {word: kind for kind, word in ROWS.items()}
SIGNS: dict[FeatureSign, "vfl_pb2.FeatureSign"] = {
    "align": vfl_pb2.ALIGN_FEATURES,
    "repel": vfl_pb2.REPEL_FEATURES,
    "orthogonal": vfl_pb2.ORTHOGONAL_FEATURES,
}
_SIGNS = {word: sign for sign, word in SIGNS.items()}
_AIMS = {word: aim for aim, word in AIMS.items()}
_MODES = {word: mode for mode, word in MODES.items()}


def encode_task(task: LocalTask, kind: RowKind, slots: tuple[str, ...]) -> vfl_pb2.LocalTask:
    """Return the protocol message that contains a local task.

    Args:
        task: the local task.
        kind: kind of rows that the task uses, for example the forgotten rows.
        slots: names of the vectors that the task needs in addition to ``model``.
    """
    teachers = None
    if task.aim == "teachers":
        first, second = task.teacher_weights
        teachers = vfl_pb2.Teachers(
            mode=MODES[task.teacher_mode],
            teacher_weight=first,
            second_weight=second,
            temperature=task.temperature,
        )
    return vfl_pb2.LocalTask(
        rows=ROWS[kind],
        aim=AIMS[task.aim],
        stream=task.stream,
        epochs=task.epochs,
        batch=task.batch,
        learning_rate=task.learning_rate,
        momentum=task.momentum,
        weight_decay=task.weight_decay,
        proximal=task.proximal,
        steps=task.steps,
        clip=task.clip,
        slots=slots,
        teachers=teachers,
        distil=_encode_distil(task),
        gate=_encode_gate(task),
        noise=_encode_noise(task),
        text=None if task.text is None else encode_text_task(task.text),
    )


def _encode_distil(task: LocalTask) -> vfl_pb2.Distil | None:
    plan = task.distil
    if plan is None:
        return None
    return vfl_pb2.Distil(
        student_steps=plan.student_steps,
        divergence=plan.divergence,
        attention=plan.attention,
        temperature=plan.temperature,
        after_prompt=plan.after_prompt,
        sign=SIGNS[plan.sign],
    )


def _decode_distil(message: vfl_pb2.Distil) -> DistillationPlan:
    return DistillationPlan(
        student_steps=message.student_steps,
        temperature=message.temperature,
        divergence=message.divergence,
        attention=message.attention,
        after_prompt=message.after_prompt,
        sign=_SIGNS[message.sign],
    )


def _encode_gate(task: LocalTask) -> vfl_pb2.Gate | None:
    plan = task.gate
    if plan is None:
        return None
    return vfl_pb2.Gate(
        student_steps=plan.student_steps,
        temperature=plan.temperature,
        attention=plan.attention,
        threshold=plan.threshold,
        classes=plan.classes,
    )


def _decode_gate(message: vfl_pb2.Gate) -> GatePlan:
    return GatePlan(
        student_steps=message.student_steps,
        temperature=message.temperature,
        attention=message.attention,
        threshold=message.threshold,
        classes=tuple(message.classes),
    )


def _encode_noise(task: LocalTask) -> vfl_pb2.ErrorNoise | None:
    plan = task.noise
    if plan is None:
        return None
    return vfl_pb2.ErrorNoise(
        rows=plan.rows,
        steps=plan.steps,
        learning_rate=plan.learning_rate,
        penalty=plan.penalty,
    )


def _decode_noise(message: vfl_pb2.ErrorNoise) -> ErrorNoisePlan:
    return ErrorNoisePlan(
        rows=message.rows,
        steps=message.steps,
        learning_rate=message.learning_rate,
        penalty=message.penalty,
    )


def decode_task(message: vfl_pb2.LocalTask) -> tuple[RowKind, LocalTask]:
    """Return the kind of rows and the local task that a protocol message contains.

    Raises:
        RemoteProtocolError: the message names rows that are not for training, or the batch size or
            the number of epochs is missing.
    """
    kind = KINDS.get(message.rows)
    if kind not in ("learn", "retained", "forgotten") or not message.batch or not message.epochs:
        raise RemoteProtocolError(
            "received a local task in which the rows are not for training, or the batch size or "
            "the number of epochs is missing"
        )
    task = LocalTask(
        aim=_AIMS[message.aim],
        stream=message.stream,
        epochs=message.epochs,
        batch=message.batch,
        learning_rate=message.learning_rate,
        momentum=message.momentum,
        weight_decay=message.weight_decay,
        proximal=message.proximal,
        steps=message.steps if message.HasField("steps") else None,
        clip=message.clip if message.HasField("clip") else None,
        teacher_mode=_MODES[message.teachers.mode]
        if message.HasField("teachers")
        else "clean_teacher",
        teacher_weights=(message.teachers.teacher_weight, message.teachers.second_weight),
        temperature=message.teachers.temperature if message.HasField("teachers") else 1.0,
        distil=_decode_distil(message.distil) if message.HasField("distil") else None,
        gate=_decode_gate(message.gate) if message.HasField("gate") else None,
        noise=_decode_noise(message.noise) if message.HasField("noise") else None,
        text=decode_text_task(message.text) if message.HasField("text") else None,
    )
    return kind, task


def split_vector(vector: "Tensor | NDArray[Any]") -> Iterator[tuple[int, NDArray[Any]]]:
    """Split a vector, ``[n]``, into parts; each part fits into one message.

    Yields:
        For each part: the index of its first element in ``vector``, and the part, ``[part]``.
    """
    whole = vector.detach().cpu().contiguous().numpy() if isinstance(vector, Tensor) else vector
    size = MAX_PAYLOAD // whole.itemsize
    for start in range(0, len(whole), size):
        yield start, whole[start : start + size]


class VectorAssembler:
    """Assembles a vector from the parts that a peer sends in order.

    Args:
        most: largest allowed number of elements of the vector.
        dtype: type of the elements.
    """

    def __init__(self, most: int, dtype: np.dtype[Any]) -> None:
        self._most, self._dtype = most, dtype
        self._vector: NDArray[Any] | None = None
        self._filled = 0

    def add(
        self,
        part: "vfl_pb2.LoadVector | vfl_pb2.Update | vfl_pb2.CiphertextSum | vfl_pb2.DecryptedSum",
        message: Message,
    ) -> Tensor | None:
        """Add a part; return the complete vector, ``[n]``, or None if parts are missing.

        Raises:
            RemoteProtocolError: the vector is too long, or the part does not start where the
                previous part ended.
        """
        if part.start == 0:
            if not 0 < part.size <= self._most:
                raise RemoteProtocolError(
                    f"received a vector of {part.size} elements; expected at most {self._most} "
                    "elements",
                    "compare the agreements: both parties need the same model",
                )
            self._vector, self._filled = None, 0
        values = message.tensor(self._dtype.type, None)
        if part.start == 0:
            if len(values) == part.size:  # the vector has one part and is not copied
                return torch.from_numpy(values)
            self._vector = np.empty(part.size, self._dtype)
        end = self._filled + len(values)
        whole = self._vector
        if (
            whole is None
            or part.start != self._filled
            or part.size != len(whole)
            or end > len(whole)
        ):
            raise RemoteProtocolError(
                "received a part of a vector out of order: the part starts at element "
                f"{part.start}; expected element {self._filled}"
            )
        whole[self._filled : end] = values
        self._filled = end
        if end < len(whole):
            return None
        self._vector = None
        return torch.from_numpy(whole)


OBJECTIVES: dict[Objective, "vfl_pb2.TextObjective"] = {
    "learn": vfl_pb2.LEARN_TEXTS,
    "grad-ascent": vfl_pb2.GRAD_ASCENT,
    "grad-diff": vfl_pb2.GRAD_DIFF,
    "npo": vfl_pb2.NPO,
    "simnpo": vfl_pb2.SIMNPO,
    "rmu": vfl_pb2.RMU,
    "primal-dual": vfl_pb2.PRIMAL_DUAL,
}
_OBJECTIVES = {word: each for each, word in OBJECTIVES.items()}
Optimiser = Literal["adamw", "sgd"]


def encode_text_task(task: TextTask) -> vfl_pb2.Text:
    """Return the protocol message that contains a local task on texts."""
    return vfl_pb2.Text(
        objective=OBJECTIVES[task.objective],
        optimiser=task.optimiser,
        gamma=task.gamma,
        alpha=task.alpha,
        beta=task.beta,
        delta=task.delta,
        retain_kl=task.retain == "kl",
        stop_at_uniform=task.stop_at_uniform,
        layer=task.layer,
        steering=task.steering,
        multiplier=task.multiplier,
        max_loss=task.max_loss,
    )


def decode_text_task(message: vfl_pb2.Text) -> TextTask:
    """Return the local task on texts that a protocol message contains.

    Raises:
        RemoteProtocolError: the objective or the optimiser is unknown, or a number is out of range.
    """
    if message.objective not in _OBJECTIVES or message.optimiser not in get_args(Optimiser):
        raise RemoteProtocolError(
            "received a local task on texts with an unknown objective or optimiser"
        )
    weights = (message.gamma, message.alpha, message.delta, message.steering, message.multiplier)
    if not all(0 <= each < inf for each in weights):
        raise RemoteProtocolError(
            "received a local task on texts in which 'gamma', 'alpha', 'delta', 'steering' or "
            "'multiplier' is negative or not finite"
        )
    if not (0 < message.beta < inf and 0 < message.max_loss < inf):
        raise RemoteProtocolError(
            "received a local task on texts in which 'beta' or 'max_loss' is not positive, or not "
            "finite"
        )
    return TextTask(
        objective=_OBJECTIVES[message.objective],
        optimiser=cast(Optimiser, message.optimiser),
        gamma=message.gamma,
        alpha=message.alpha,
        beta=message.beta,
        delta=message.delta,
        retain="kl" if message.retain_kl else "nll",
        stop_at_uniform=message.stop_at_uniform,
        layer=message.layer,
        steering=message.steering,
        multiplier=message.multiplier,
        max_loss=message.max_loss,
    )
