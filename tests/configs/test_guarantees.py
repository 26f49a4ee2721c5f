"""Settings that break a guarantee are refused, and the message names a legal setting."""

from pathlib import Path

import pytest

from configs.config_file import read_config
from configs.errors import ConfigError
from parties.vertical.methods.registry import SCHEMA

VERTICAL = Path(__file__).parents[2] / "configs" / "vertical"
CERTIFIED, SHARDS = VERTICAL / "income-certified.toml", VERTICAL / "digits-shards.toml"
VOTES, BACKDOOR = VERTICAL / "digits-votes.toml", VERTICAL / "digits-backdoor.toml"

REFUSED = {
    "a top that is not convex": (
        CERTIFIED,
        ["top.kind='mlp'"],
        "needs a convex loss: set top = { kind = 'sum' }",
    ),
    "a bottom that is not linear": (
        CERTIFIED,
        ["parties.bank.bottom.hidden=[4]"],
        "parties.bank.bottom = { kind = 'mlp', hidden = [] }",
    ),
    "a bound in float32": (CERTIFIED, ["dtype='float32'"], "set dtype = 'float64'"),
    "steps that overlap": (CERTIFIED, ["training.overlap='pipeline'"], "overlap = 'none'"),
    "fitted preprocessing with a bound": (
        CERTIFIED,
        ["preprocessing='fitted'"],
        "set preprocessing = 'declared'",
    ),
    "a best epoch with shards": (SHARDS, ["training.patience=3"], "remove training.patience"),
    "fitted preprocessing with shards": (
        SHARDS,
        ["preprocessing='fitted'"],
        "set preprocessing = 'declared'",
    ),
    "newton-cg from a model that batches trained": (
        CERTIFIED,
        ["training.optimiser='adam'"],
        "needs training.optimiser = 'newton-cg'",
    ),
    "an early start where Newton steps trained": (
        CERTIFIED,
        ["unlearning.method='fedora'"],
        "unlearning.fedora.start = 'original' or unlearning.method = 'newton-cg'",
    ),
    "cvfu beside frozen bottoms": (
        VOTES,
        [
            "privacy.embed_once={noise_multiplier=4.0}",
            "unlearning.compare=['fine-tune','relabel','cvfu']",
        ],
        "remove 'cvfu' from the table [unlearning]",
    ),
    "a backdoor in rows that are released once": (
        BACKDOOR,
        ["privacy.embed_once={noise_multiplier=4.0}"],
        "remove the key 'backdoor' from the request",
    ),
    "shards with another method": (
        SHARDS,
        ["unlearning.method='fedora'", "unlearning.compare=['fine-tune','relabel']"],
        "set both, or neither of them",
    ),
    "the method without shards": (SHARDS, ["sharding.shards=1"], "set both, or neither of them"),
    "baselines beside shards": (
        SHARDS,
        ["unlearning.compare=['fine-tune']"],
        "unlearning.compare = []",
    ),
    "an epsilon of nothing": (CERTIFIED, ["newton.release={epsilon=0.0}"], "greater than 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_break_a_guarantee_are_refused(name: str) -> None:
    path, changes, message = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        read_config(path, SCHEMA, changes)
    assert message in f"{caught.value} | {caught.value.hint}"


def test_newton_with_a_legal_start_or_without_requests_is_accepted() -> None:
    fedora = "unlearning.method='fedora'"
    assert read_config(CERTIFIED, SCHEMA, [fedora, "unlearning.fedora.start='original'"])
    assert read_config(CERTIFIED, SCHEMA, [fedora, "unlearn=[]"])


def test_range_with_low_above_high_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / CERTIFIED.name
    wrong.write_text(CERTIFIED.read_text().replace("[0, 20_000]", "[5, 5]"))
    with pytest.raises(ConfigError, match="low < high"):
        read_config(wrong, SCHEMA)
