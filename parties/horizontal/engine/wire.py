"""Lessons as the wire has them, and vectors in parts that fit in a message."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parties.horizontal.engine.cohort import Kind
from parties.horizontal.engine.wire_text import text_said, text_understood
from parties.horizontal.local.distillation import Distillation, Gate
from parties.horizontal.local.local_task import Aim, Lesson
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.message import Message
from protocol.tensors import MAX_PAYLOAD
from unlearning.horizontal.data_free import Sign
from unlearning.horizontal.forgetting_teachers import Mode
from unlearning.horizontal.noise import Noise

ROWS: dict[Kind, "vfl_pb2.Rows"] = {
    "learn": vfl_pb2.LEARN,
    "retained": vfl_pb2.RETAIN,
    "forgotten": vfl_pb2.FORGOTTEN,
    "held": vfl_pb2.TEST,
    "validation": vfl_pb2.VALIDATION,
    "stamped": vfl_pb2.TRIGGERED,
    "planted": vfl_pb2.PLANTED,
    "members": vfl_pb2.MEMBERS,
    "non_members": vfl_pb2.NON_MEMBERS,
}
AIMS: dict[Aim, "vfl_pb2.Aim"] = {
    "learn": vfl_pb2.FIT,
    "unlearn": vfl_pb2.UNLEARN_LOSS,
    "climb": vfl_pb2.ASCENT,
    "ascend": vfl_pb2.ELASTIC,
    "teachers": vfl_pb2.TEACHERS,
    "fisher": vfl_pb2.FISHER,
    "inputs": vfl_pb2.INPUTS,
    "distil": vfl_pb2.DISTIL,
    "descriptor": vfl_pb2.TELL_OWN,
    "gated": vfl_pb2.GATED,
    "classes": vfl_pb2.TELL_CLASSES,
    "worst-noise": vfl_pb2.WORST_NOISE,
    "best-noise": vfl_pb2.BEST_NOISE,
    "pseudo-labels": vfl_pb2.PSEUDO_LABELS,
    "text": vfl_pb2.TEXT,
}
MODES: dict[Mode, "vfl_pb2.TeacherMode"] = {
    "literal": vfl_pb2.LITERAL,
    "repel": vfl_pb2.REPEL,
    "clean_teacher": vfl_pb2.CLEAN_TEACHER,
    "bad_teacher": vfl_pb2.BAD_TEACHER,
    "ga": vfl_pb2.GA,
}
DELIVERED = "delivered"  # the slot of the model that the run ends with
KINDS = {word: kind for kind, word in ROWS.items()}
SIGNS: dict[Sign, "vfl_pb2.FeatureSign"] = {
    "align": vfl_pb2.ALIGN_FEATURES,
    "repel": vfl_pb2.REPEL_FEATURES,
    "orthogonal": vfl_pb2.ORTHOGONAL_FEATURES,
}
_SIGNS = {word: sign for sign, word in SIGNS.items()}
_AIMS = {word: aim for aim, word in AIMS.items()}
_MODES = {word: mode for mode, word in MODES.items()}


def said(lesson: Lesson, kind: Kind, slots: tuple[str, ...]) -> vfl_pb2.Teach:
    """A lesson as the server says it; ``slots`` are those beside ``model``."""
    teachers = None
    if lesson.aim == "teachers":
        first, second = lesson.weights
        teachers = vfl_pb2.Teachers(
            mode=MODES[lesson.mode], first=first, second=second, temperature=lesson.temperature
        )
    return vfl_pb2.Teach(
        rows=ROWS[kind],
        aim=AIMS[lesson.aim],
        stream=lesson.stream,
        epochs=lesson.epochs,
        batch=lesson.batch,
        learning_rate=lesson.learning_rate,
        momentum=lesson.momentum,
        weight_decay=lesson.weight_decay,
        proximal=lesson.proximal,
        steps=lesson.steps,
        clip=lesson.clip,
        slots=slots,
        teachers=teachers,
        distil=_distil(lesson),
        gate=_gate(lesson),
        noise=_noise(lesson),
        text=None if lesson.text is None else text_said(lesson.text),
    )


def _distil(lesson: Lesson) -> vfl_pb2.Distil | None:
    plan = lesson.distil
    if plan is None:
        return None
    return vfl_pb2.Distil(
        inner=plan.inner,
        divergence=plan.divergence,
        attention=plan.attention,
        temperature=plan.temperature,
        behind=plan.behind,
        sign=SIGNS[plan.sign],
    )


def _distillation(said: vfl_pb2.Distil) -> Distillation:
    return Distillation(
        inner=said.inner,
        temperature=said.temperature,
        divergence=said.divergence,
        attention=said.attention,
        behind=said.behind,
        sign=_SIGNS[said.sign],
    )


def _gate(lesson: Lesson) -> vfl_pb2.Gate | None:
    plan = lesson.gate
    if plan is None:
        return None
    return vfl_pb2.Gate(
        inner=plan.inner,
        temperature=plan.temperature,
        attention=plan.attention,
        most=plan.most,
        classes=plan.classes,
    )


def _gating(said: vfl_pb2.Gate) -> Gate:
    return Gate(
        inner=said.inner,
        temperature=said.temperature,
        attention=said.attention,
        most=said.most,
        classes=tuple(said.classes),
    )


def _noise(lesson: Lesson) -> vfl_pb2.Noise | None:
    plan = lesson.noise
    if plan is None:
        return None
    return vfl_pb2.Noise(
        rows=plan.rows,
        steps=plan.steps,
        learning_rate=plan.learning_rate,
        penalty=plan.penalty,
    )


def _noises(said: vfl_pb2.Noise) -> Noise:
    return Noise(
        rows=said.rows,
        steps=said.steps,
        learning_rate=said.learning_rate,
        penalty=said.penalty,
    )


def understood(teach: vfl_pb2.Teach) -> tuple[Kind, Lesson]:
    """A lesson as the client hears it.

    Raises:
        RemoteProtocolError: it asks for rows that nobody learns from, or for nothing.
    """
    kind = KINDS.get(teach.rows)
    if kind not in ("learn", "retained", "forgotten") or not teach.batch or not teach.epochs:
        raise RemoteProtocolError("teaches no rows, no batch or no epoch")
    lesson = Lesson(
        aim=_AIMS[teach.aim],
        stream=teach.stream,
        epochs=teach.epochs,
        batch=teach.batch,
        learning_rate=teach.learning_rate,
        momentum=teach.momentum,
        weight_decay=teach.weight_decay,
        proximal=teach.proximal,
        steps=teach.steps if teach.HasField("steps") else None,
        clip=teach.clip if teach.HasField("clip") else None,
        mode=_MODES[teach.teachers.mode] if teach.HasField("teachers") else "clean_teacher",
        weights=(teach.teachers.first, teach.teachers.second),
        temperature=teach.teachers.temperature if teach.HasField("teachers") else 1.0,
        distil=_distillation(teach.distil) if teach.HasField("distil") else None,
        gate=_gating(teach.gate) if teach.HasField("gate") else None,
        noise=_noises(teach.noise) if teach.HasField("noise") else None,
        text=text_understood(teach.text) if teach.HasField("text") else None,
    )
    return kind, lesson


def parts(vector: "Tensor | NDArray[Any]") -> Iterator[tuple[int, NDArray[Any]]]:
    """A vector in parts that fit in one message: where each begins, and the part."""
    whole = vector.detach().cpu().contiguous().numpy() if isinstance(vector, Tensor) else vector
    size = MAX_PAYLOAD // whole.itemsize
    for start in range(0, len(whole), size):
        yield start, whole[start : start + size]


class Gathering:
    """A vector that comes in parts, in their order."""

    def __init__(self, most: int, dtype: np.dtype[Any]) -> None:
        self._most, self._dtype = most, dtype
        self._vector: NDArray[Any] | None = None
        self._filled = 0

    def add(
        self,
        part: "vfl_pb2.Load | vfl_pb2.Change | vfl_pb2.Total | vfl_pb2.Unsealed",
        message: Message,
    ) -> Tensor | None:
        """The vector, once all of it is there.

        Raises:
            RemoteProtocolError: it is too long, or a part is not the next one.
        """
        if part.start == 0:
            if not 0 < part.size <= self._most:
                raise RemoteProtocolError(
                    f"said a vector of {part.size} numbers; at most {self._most} are expected",
                    "do both have the same model? compare the agreements",
                )
            self._vector, self._filled = None, 0
        values = message.tensor(self._dtype.type, None)
        if part.start == 0:
            if len(values) == part.size:  # whole in one part: it is not copied
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
            raise RemoteProtocolError("said a part of a vector that does not follow the one before")
        whole[self._filled : end] = values
        self._filled = end
        if end < len(whole):
            return None
        self._vector = None
        return torch.from_numpy(whole)
