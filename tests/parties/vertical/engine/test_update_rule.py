"""The update rule of a task and the sample of D_r: messages, and values that are refused."""

import math

import pytest
import torch

from configs.agreement import TrainingSettings
from parties.vertical.engine.optimiser import UpdateRule, build_optimiser
from parties.vertical.engine.rows import Sample
from protocol import vfl_pb2
from protocol.dataclass_codec import decode, encode
from protocol.errors import RemoteProtocolError

RULES = [
    UpdateRule(),
    UpdateRule("adam", 0.05, 0.0, 0.01, 0.2),
    UpdateRule("sgd", 0.1, 0.9, 0.0, 0.0),
]
WRONG = [-1e-9, math.nan, math.inf]


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_the_same_after_its_message(rule: UpdateRule) -> None:
    sent = vfl_pb2.UpdateRule.FromString(encode(rule, vfl_pb2.UpdateRule).SerializeToString())
    assert decode(sent, UpdateRule) == rule


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["learning_rate", "momentum", "weight_decay", "proximal"])
def test_number_that_is_negative_or_not_finite_is_refused(name: str, wrong: float) -> None:
    message = encode(RULES[1], vfl_pb2.UpdateRule)
    setattr(message, name, wrong)
    with pytest.raises(
        RemoteProtocolError, match=rf"value of {name} \(legal: at least 0, finite\)"
    ):
        decode(message, UpdateRule)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, math.nan])
def test_share_of_a_sample_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(RemoteProtocolError, match=r"share \(legal: above 0, at most 1\)"):
        decode(vfl_pb2.Sample(stream="draw", share=share), Sample)


def test_optimiser_has_the_numbers_of_its_rule() -> None:
    block = [torch.nn.Parameter(torch.zeros(2))]
    plain, adam, sgd = (build_optimiser(rule, block) for rule in RULES)
    assert plain is None
    assert build_optimiser(None, block) is None
    assert build_optimiser(RULES[1], []) is None
    assert isinstance(adam, torch.optim.Adam)
    assert (adam.defaults["lr"], adam.defaults["weight_decay"]) == (0.05, 0.01)
    assert isinstance(sgd, torch.optim.SGD)
    assert (sgd.defaults["lr"], sgd.defaults["momentum"]) == (0.1, 0.9)


def test_rule_like_training_keeps_all_but_the_learning_rate() -> None:
    training = TrainingSettings(optimiser="sgd", learning_rate=0.5, momentum=0.8, weight_decay=0.1)
    assert UpdateRule.like_training(training, 0.02) == UpdateRule("sgd", 0.02, 0.8, 0.1)
    training = TrainingSettings(optimiser="adam", learning_rate=0.5, weight_decay=0.1)
    assert UpdateRule.like_training(training, 0.02) == UpdateRule("adam", 0.02, 0.0, 0.1)
