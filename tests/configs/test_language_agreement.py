"""Agreements of the LLM mode: defaults, and refusals with their messages."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from configs.config_file import read_any, read_config
from configs.errors import ConfigError
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.registry import text_unlearning_methods

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
    agreement = read_config(written(tmp_path), LANGUAGE).agreement
    assert agreement.tuning.kind == "lora"
    assert (agreement.tuning.rank, agreement.tuning.alpha, agreement.tuning.dropout) == (
        32,
        64,
        0.05,
    )
    plan = agreement.training
    assert (plan.rounds, plan.epochs, plan.batch, plan.learning_rate) == (10, 5, 32, 8e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("unlearn=[{name='a', rows='flagged', round=11}]", "has round = 11"),
        ("unlearn=[{name='a', client='client-9'}]", "client 'client-9', which does not exist"),
        ("unlearn=[{name='a'}]", "a request must not forget all texts"),
        ("partition={kind='one', client='nobody'}", "'nobody' is not a client"),
        ("parties.ash.role='client'", "model.digest is missing"),
        ("model.digest='abc'", "model.digest"),
        ("training.momentum=0.9", "training.momentum"),
        (
            "clients=4\naggregation.kind='masks'\nunlearn=[{name='a', client='client-1'}]",
            "remove the key 'client' from all requests",
        ),
        (
            "aggregation.kind='masks'\npartition={kind='one', client='client-0'}",
            "only one client has texts to forget",
        ),
        (
            "tuning={kind='lora', merging='product_svd'}\ntraining.rule={kind='fedavgm'}",
            "replaces the factors in every round",
        ),
        (
            "tuning={kind='lora', merging='product_svd'}\nunlearning.npo={rule={kind='fedavgm'}}",
            "replaces the factors in every round",
        ),
        (
            "test_share=0.0\nunlearning.method='primal-dual'",
            "test_share = 0 there are no held-out texts",
        ),
        (
            "test_share=0.0\nunlearning.variants=[{name='pd', method='primal-dual', settings={}}]",
            "test_share = 0 there are no held-out texts",
        ),
        (
            "evaluation={quantise=true, benchmark='tofu'}\nmodel.quantised='int4'",
            "the weights are already rounded",
        ),
        (
            "aggregation={kind='masks', min_contributors=3}\ntraining.share=0.5",
            "only 2 of the 3 remaining clients take part in a round",
        ),
        (
            "aggregation.kind='masks'\nunlearning.npo={participants='leaving'}",
            "must hide: choose participants = 'all'",
        ),
        (
            "unlearn=[{name='a', client='client-0'}, {name='b', client='client-1'},"
            " {name='c', client='client-2'}]",
            "the requests remove every client",
        ),
        (
            "unlearning.primal_dual={initial_multiplier=20.0}",
            "initial_multiplier must not exceed max_multiplier",
        ),
        ("unlearning.primal_dual={threshold=12.0}", "unlearning.primal_dual.threshold"),
        ("unlearning.npo={unlearn={rounds=0}}", "unlearn.rounds must be at least 1"),
        ("unlearning.fine_tune={rounds=0}", "fine_tune.rounds must be at least 1"),
        ("evaluation.relearn=20", "evaluation.relearn needs a benchmark"),
        ("evaluation.quantise=true", "evaluation.quantise needs a benchmark"),
        (
            "unlearning.variants=[{name='retrain-x', method='npo', settings={}}]",
            "must not begin with 'retrain'",
        ),
        (
            "aggregation.kind='masks'\ntuning={kind='lora', merging='product_svd'}",
            "set tuning.merging to 'factors' or 'freeze_A'",
        ),
    ],
)
def test_impossible_combination_is_refused(tmp_path: Path, change: str, message: str) -> None:
    changes = [each.replace("'", '"') for each in change.split("\n")]
    with pytest.raises(ConfigError) as refused:
        read_config(written(tmp_path), LANGUAGE, changes)
    assert message in str(refused.value)


def test_memory_options_are_in_the_agreement_only_if_set(tmp_path: Path) -> None:
    path, pieces = written(tmp_path), ["training.micro_batch=4", "training.checkpointing=true"]
    usual, spared = (read_config(path, LANGUAGE, c).agreement.training for c in ([], pieces))
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


def test_request_and_measured_texts_must_be_equal(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + SETTINGS)
    assert read_config(path, LANGUAGE).agreement.evaluation.benchmark == "tofu"
    both = [f'settings.{each}.forget="forget01"' for each in ("client.data", "server.benchmark")]
    assert read_config(path, LANGUAGE, both).agreement
    with pytest.raises(
        ConfigError, match=r"client\.data\.forget is 'forget01', and settings\.server"
    ):
        read_config(path, LANGUAGE, both[:1])


def test_idle_limit_keeps_its_default_for_evaluation(tmp_path: Path) -> None:
    agreement = read_config(written(tmp_path), LANGUAGE, ["limits.join_seconds=600.0"]).agreement
    assert agreement.limits.idle_seconds == 14_400


def test_config_of_another_mode_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert read_any(path, (HORIZONTAL, LANGUAGE)).agreement.mode == "llm"
    with pytest.raises(ConfigError, match=r"must be 'horizontal' \(got 'llm'\)"):
        read_config(path, HORIZONTAL)


def test_a_request_can_run_its_method_alone(tmp_path: Path) -> None:
    changes = ("unlearning.retrains=0", "unlearning.compare=[]")
    agreement = read_config(written(tmp_path), LANGUAGE, changes).agreement
    assert [each.name for each in text_unlearning_methods(agreement, 2)] == ["npo"]
    three = read_config(written(tmp_path), LANGUAGE, ("unlearning.retrains=3",)).agreement
    names = [each.name for each in text_unlearning_methods(three, 2)]
    assert names == ["npo", "fine-tune", "retrain", "retrain-2", "retrain-3"]


def test_primal_dual_of_requests_after_the_run_needs_held_out_texts() -> None:
    parties = {"server": {"role": "server"}, **{each: {"role": "client"} for each in ("a", "b")}}
    agreement = {
        "federation": "ferries",
        "mode": "llm",
        "parties": parties,
        "model": {"digest": "0" * 64},
        "unlearning": {"method": "primal-dual"},
        "test_share": 0.0,
    }
    assert LANGUAGE.agreement.model_validate(agreement)
    with pytest.raises(ValidationError, match="test_share = 0 there are no held-out texts"):
        LANGUAGE.agreement.model_validate(agreement | {"requests": {"keep": "model"}})
