"""Encoding and decoding of local tasks."""

from typing import get_args

import pytest

from parties.horizontal.engine.wire import AIMS, decode_task, encode_task
from parties.horizontal.local.local_task import Aim, DistillationPlan, GatePlan, LocalTask
from protocol.completeness import require_complete
from protocol.errors import LocalProtocolError
from unlearning.horizontal.error_noise import ErrorNoisePlan

NONE = (0.0, 0.0)  # no teacher has a weight


def round_trip(task: LocalTask) -> LocalTask:
    message = encode_task(task, "retained", ())
    require_complete(message, 0, LocalProtocolError)
    kind, decoded = decode_task(type(message).FromString(message.SerializeToString()))
    assert kind == "retained"
    return decoded


@pytest.mark.parametrize(
    "task",
    [
        LocalTask(stream="a", batch=1, learning_rate=1.0, steps=3, clip=2.0, teacher_weights=NONE),
        LocalTask(
            stream="b", batch=1, learning_rate=1.0, aim="distil", teacher_weights=(0.0, 0.0),
            distil=DistillationPlan(
                student_steps=3, attention=7.0, after_prompt=False, sign="repel"
            ),
        ),
        LocalTask(
            stream="c", batch=1, learning_rate=1.0, aim="gated", teacher_weights=(0.0, 0.0),
            gate=GatePlan(
                student_steps=3, temperature=4.0, attention=5.0, threshold=-0.5, classes=(0, 9)
            ),
        ),
        LocalTask(
            stream="d", batch=1, learning_rate=1.0, aim="error-maximising-noise",
            teacher_weights=NONE,
            noise=ErrorNoisePlan(rows=3, steps=4, learning_rate=0.5, penalty=0.25),
        ),
        LocalTask(
            stream="e", batch=1, learning_rate=1.0, aim="teachers", teacher_mode="repel",
            teacher_weights=(0.5, 0.25), temperature=3.0,
        ),
    ],
    ids=lambda task: task.aim,
)  # fmt: skip
def test_decoded_task_equals_the_encoded_task(task: LocalTask) -> None:
    assert round_trip(task) == task


def test_every_aim_has_a_distinct_code() -> None:
    assert set(AIMS) == set(get_args(Aim))
    assert len(set(AIMS.values())) == len(AIMS)
