"""Agreements on language models: what is refused, and by which words."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.federated_file import read_federated, read_horizontal, read_language

GOOD = """
federation = "ferries"
mode = "llm"
clients = 3
partition = { kind = "shards" }

[parties.server]
role = "server"

[[unlearn]]
name = "gone"
rows = "flagged"
round = 2
"""


def written(folder: Path, text: str = GOOD) -> Path:
    (folder / "ferries.toml").write_text(text)
    return folder / "ferries.toml"


def test_defaults_are_the_papers(tmp_path: Path) -> None:
    found = read_language(written(tmp_path)).agreement
    assert found.tuning.kind == "lora"
    assert (found.tuning.rank, found.tuning.alpha, found.tuning.dropout) == (32, 64, 0.05)
    plan = found.training
    assert (plan.rounds, plan.epochs, plan.batch, plan.learning_rate) == (10, 5, 32, 8e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("unlearn=[{name='a', rows='flagged', round=11}]", "comes after round 11"),
        ("unlearn=[{name='a', client='client-9'}]", "client 'client-9', who is none"),
        ("unlearn=[{name='a'}]", "name the client that leaves"),
        ("partition={kind='one', client='nobody'}", "'nobody' is no client"),
        ("parties.ash.role='client'", "model.digest says which model all begin with"),
        ("model.digest='abc'", "model.digest"),
        ("training.momentum=0.9", "training.momentum"),
        (
            "clients=4\naggregation.kind='masks'\nunlearn=[{name='a', client='client-1'}]",
            "name no client in the requests",
        ),
        (
            "aggregation.kind='masks'\npartition={kind='one', client='client-0'}",
            "has one client forget",
        ),
        (
            "tuning={kind='lora', merging='product_svd'}\ntraining.rule={kind='fedavgm'}",
            "turns the factors in every round",
        ),
        (
            "tuning={kind='lora', merging='product_svd'}\nunlearning.npo={rule={kind='fedavgm'}}",
            "turns the factors in every round",
        ),
        ("held=0.0\nunlearning.method='primal-dual'", "and held is 0"),
        (
            "held=0.0\nunlearning.also=[{name='pd', method='primal-dual', settings={}}]",
            "and held is 0",
        ),
        (
            "evaluation={quantise=true, benchmark='tofu'}\nmodel.quantised='int4'",
            "has none left to round",
        ),
        (
            "aggregation={kind='masks', least=3}\ntraining.share=0.5",
            "training.share has 2 of the 3 clients that stay take part in a round",
        ),
        (
            "aggregation.kind='masks'\nunlearning.npo={who='leaving'}",
            "whose update aggregation.kind = 'masks' hides: who = 'all'",
        ),
        (
            "unlearn=[{name='a', client='client-0'}, {name='b', client='client-1'},"
            " {name='c', client='client-2'}]",
            "the requests have every client leave",
        ),
        ("unlearning.primal_dual={price=20.0}", "price 20.0 is above the most that it may be"),
        ("unlearning.primal_dual={threshold=12.0}", "unlearning.primal_dual.threshold"),
        ("unlearning.npo={unlearn={rounds=0}}", "unlearn.rounds = 0 unlearns nothing"),
        ("unlearning.fine_tune={rounds=0}", "fine_tune.rounds = 0 would leave the model"),
        ("evaluation.relearn=20", "evaluation.relearn is measured with a benchmark"),
        ("evaluation.quantise=true", "evaluation.quantise is measured with a benchmark"),
        (
            "unlearning.also=[{name='retrain-x', method='npo', settings={}}]",
            "bears the name of a Retrain",
        ),
        (
            "aggregation.kind='masks'\ntuning={kind='lora', merging='product_svd'}",
            "legal with it: factors, freeze_A",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, change: str, said: str) -> None:
    changes = [each.replace("'", '"') for each in change.split("\n")]
    with pytest.raises(ConfigError) as refused:
        read_language(written(tmp_path), changes)
    assert said in str(refused.value)


def test_what_spares_memory_stands_in_the_agreement_only_where_it_is_set(tmp_path: Path) -> None:
    path, pieces = written(tmp_path), ["training.micro_batch=4", "training.checkpointing=true"]
    usual, spared = (read_language(path, c).agreement.training for c in ([], pieces))
    assert (spared.micro_batch, spared.checkpointing) == (4, True)
    extra = spared.model_dump().keys() - usual.model_dump().keys()
    assert extra == {"micro_batch", "checkpointing"}


SEATS = """
[evaluation]
benchmark = "tofu"

[seats.server]
base = "base"
benchmark = { kind = "tofu", path = "tofu", forget = "forget10" }

[seats.client]
base = "base"
data = { kind = "tofu", path = "tofu", forget = "forget10" }
"""


def test_other_texts_than_those_that_are_measured_are_not_forgotten(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + SEATS)
    assert read_language(path).agreement.evaluation.benchmark == "tofu"
    both = [f'seats.{each}.forget="forget01"' for each in ("client.data", "server.benchmark")]
    assert read_language(path, both).agreement
    with pytest.raises(ConfigError, match=r"client\.data\.forget is 'forget01', and seats\.server"):
        read_language(path, both[:1])


def test_other_limits_leave_the_patience_that_measuring_needs(tmp_path: Path) -> None:
    found = read_language(written(tmp_path), ["limits.join_seconds=600.0"]).agreement
    assert found.limits.idle_seconds == 14_400


def test_each_mode_is_read_as_what_it_is(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert read_federated(path).agreement.mode == "llm"
    with pytest.raises(ConfigError, match="mode is 'llm', not 'horizontal'"):
        read_horizontal(path)
