"""Agreements of the LLM mode: defaults, and refusals with their messages."""

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
        ("unlearn=[{name='a', client='client-9'}]", "client 'client-9', which does not exist"),
        ("unlearn=[{name='a'}]", "a request needs client, rows = "),
        ("partition={kind='one', client='nobody'}", "'nobody' is no client"),
        ("parties.ash.role='client'", "model.digest must name the base model of all parties"),
        ("model.digest='abc'", "model.digest"),
        ("training.momentum=0.9", "training.momentum"),
        (
            "clients=4\naggregation.kind='masks'\nunlearn=[{name='a', client='client-1'}]",
            "use requests without client",
        ),
        (
            "aggregation.kind='masks'\npartition={kind='one', client='client-0'}",
            "a single client forgets",
        ),
        (
            "tuning={kind='lora', merging='product_svd'}\ntraining.rule={kind='fedavgm'}",
            "replaces the factors in every round",
        ),
        (
            "tuning={kind='lora', merging='product_svd'}\nunlearning.npo={rule={kind='fedavgm'}}",
            "replaces the factors in every round",
        ),
        ("test_share=0.0\nunlearning.method='primal-dual'", "and test_share is 0"),
        (
            "test_share=0.0\nunlearning.variants=[{name='pd', method='primal-dual', settings={}}]",
            "and test_share is 0",
        ),
        (
            "evaluation={quantise=true, benchmark='tofu'}\nmodel.quantised='int4'",
            "they are rounded already",
        ),
        (
            "aggregation={kind='masks', min_contributors=3}\ntraining.share=0.5",
            "with training.share 2 of the 3 remaining clients take part in a round",
        ),
        (
            "aggregation.kind='masks'\nunlearning.npo={participants='leaving'}",
            "whose update aggregation.kind = 'masks' hides: participants = 'all'",
        ),
        (
            "unlearn=[{name='a', client='client-0'}, {name='b', client='client-1'},"
            " {name='c', client='client-2'}]",
            "the requests remove every client",
        ),
        (
            "unlearning.primal_dual={initial_multiplier=20.0}",
            "initial_multiplier 20.0 is above max_multiplier",
        ),
        ("unlearning.primal_dual={threshold=12.0}", "unlearning.primal_dual.threshold"),
        ("unlearning.npo={unlearn={rounds=0}}", "unlearn.rounds must be at least 1"),
        ("unlearning.fine_tune={rounds=0}", "fine_tune.rounds = 0 would leave the model"),
        ("evaluation.relearn=20", "evaluation.relearn is measured with a benchmark"),
        ("evaluation.quantise=true", "evaluation.quantise is measured with a benchmark"),
        (
            "unlearning.variants=[{name='retrain-x', method='npo', settings={}}]",
            "a variant has the name of a Retrain",
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


SETTINGS = """
[evaluation]
benchmark = "tofu"

[settings.server]
base = "base"
benchmark = { kind = "tofu", path = "tofu", forget = "forget10" }

[settings.client]
base = "base"
data = { kind = "tofu", path = "tofu", forget = "forget10" }
"""


def test_other_texts_than_those_that_are_measured_are_not_forgotten(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + SETTINGS)
    assert read_language(path).agreement.evaluation.benchmark == "tofu"
    both = [f'settings.{each}.forget="forget01"' for each in ("client.data", "server.benchmark")]
    assert read_language(path, both).agreement
    with pytest.raises(
        ConfigError, match=r"client\.data\.forget is 'forget01', and settings\.server"
    ):
        read_language(path, both[:1])


def test_other_limits_leave_the_patience_that_measuring_needs(tmp_path: Path) -> None:
    found = read_language(written(tmp_path), ["limits.join_seconds=600.0"]).agreement
    assert found.limits.idle_seconds == 14_400


def test_each_mode_is_read_as_what_it_is(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert read_federated(path).agreement.mode == "llm"
    with pytest.raises(ConfigError, match="mode is 'llm', not 'horizontal'"):
        read_horizontal(path)
