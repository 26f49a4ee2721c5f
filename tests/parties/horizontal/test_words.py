"""Lessons on the wire: what is said is what is understood."""

from typing import get_args

import pytest

from parties.horizontal.engine.wire import AIMS, said, understood
from parties.horizontal.local.distillation import Distillation, Gate
from parties.horizontal.local.local_task import Aim, Lesson
from protocol.complete import require_complete
from protocol.errors import LocalProtocolError
from unlearning.horizontal.noise import Noise


def heard(lesson: Lesson) -> Lesson:
    teach = said(lesson, "retained", ())
    require_complete(teach, 0, LocalProtocolError)
    kind, found = understood(type(teach).FromString(teach.SerializeToString()))
    assert kind == "retained"
    return found


@pytest.mark.parametrize(
    "lesson",
    [
        Lesson(stream="a", batch=1, learning_rate=1.0, steps=3, clip=2.0, weights=(0.0, 0.0)),
        Lesson(
            stream="b", batch=1, learning_rate=1.0, aim="distil", weights=(0.0, 0.0),
            distil=Distillation(inner=3, attention=7.0, behind=False, sign="repel"),
        ),
        Lesson(
            stream="c", batch=1, learning_rate=1.0, aim="gated", weights=(0.0, 0.0),
            gate=Gate(inner=3, temperature=4.0, attention=5.0, most=-0.5, classes=(0, 9)),
        ),
        Lesson(
            stream="d", batch=1, learning_rate=1.0, aim="worst-noise", weights=(0.0, 0.0),
            noise=Noise(rows=3, steps=4, learning_rate=0.5, penalty=0.25),
        ),
        Lesson(
            stream="e", batch=1, learning_rate=1.0, aim="teachers", mode="repel",
            weights=(0.5, 0.25), temperature=3.0,
        ),
    ],
    ids=lambda lesson: lesson.aim,
)  # fmt: skip
def test_what_is_said_is_understood(lesson: Lesson) -> None:
    assert heard(lesson) == lesson


def test_every_aim_has_a_word_of_its_own() -> None:
    assert set(AIMS) == set(get_args(Aim))
    assert len(set(AIMS.values())) == len(AIMS)
