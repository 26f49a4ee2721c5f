"""Config files: every refusal by name, and a digest of the agreement alone."""

from pathlib import Path

import pytest

from configs.config_file import (
    MAX_PROBLEMS,
    agreement_differences,
    agreement_digest,
    canonical_agreement,
    read_config,
)
from configs.errors import ConfigError
from parties.data.party_settings import VerticalConfig
from parties.vertical.methods.registry import SCHEMA

GOOD = """
federation = "trial"
seed = 3

[labels]
classes = ["no", "yes"]

[parties.bank]
role = "active"

[parties.shop]
role = "passive"
width = 4

[training]
epochs = 2

[[unlearn]]
name = "some"
classes = ["yes"]
fraction = 0.5
"""
SETTINGS = """
[settings.bank.data]
kind = "sklearn"
name = "digits"
features = false
label = true

[settings.shop.data]
kind = "sklearn"
name = "digits"
"""


def read(folder: Path, text: str = GOOD, *changes: str) -> VerticalConfig:
    path = folder / "trial.toml"
    path.write_text(text)
    return read_config(path, SCHEMA, changes)


def refusal(folder: Path, text: str, *changes: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, *changes)
    assert str(folder / "trial.toml") in str(caught.value)
    return f"{caught.value} | {caught.value.hint}"


def edited(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_good_config_reads(tmp_path: Path) -> None:
    agreement = read(tmp_path, GOOD + SETTINGS).agreement
    assert (agreement.active, agreement.passive) == ("bank", ("shop",))
    assert list(agreement.feature_parties) == ["shop"]


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff" + GOOD).agreement.seed == 3


def test_unknown_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    text = edited("epochs = 2", "learnig_rate = 0.1")
    assert "'training.learnig_rate'; did you mean 'learning_rate'?" in refusal(tmp_path, text)


def test_unknown_key_of_a_party_is_refused_with_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'width'?" in refusal(tmp_path, edited("width", "widht"))


def test_unknown_key_of_a_request_is_refused_with_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'fraction'?" in refusal(tmp_path, edited("fraction", "fractoin"))


def test_unknown_key_of_party_settings_is_refused_with_the_nearest(tmp_path: Path) -> None:
    text = GOOD + SETTINGS.replace("features", "feature")
    error = refusal(tmp_path, text)
    assert "settings.bank.data.sklearn.feature" in error
    assert "did you mean 'features'?" in error


def test_missing_key_is_refused(tmp_path: Path) -> None:
    assert "'federation' is missing" in refusal(tmp_path, edited('federation = "trial"', ""))


@pytest.mark.parametrize("value", ['"ten"', "true", "1.5", "0", "-3", "[1]"])
def test_wrong_type_or_range_is_refused_without_a_cast(tmp_path: Path, value: str) -> None:
    text = edited("epochs = 2", f"epochs = {value}")
    assert "training.epochs: " in refusal(tmp_path, text)


@pytest.mark.parametrize("queries", [0, 2**20 + 1])
def test_queries_out_of_range_are_refused(tmp_path: Path, queries: int) -> None:
    text = edited("[training]", f"[psi]\nqueries = {queries}\n[training]")
    assert "psi.queries: " in refusal(tmp_path, text)


@pytest.mark.parametrize("rate", ["0.0", "-0.1", "nan", "inf"])
def test_learning_rate_out_of_range_is_refused(tmp_path: Path, rate: str) -> None:
    text = edited("epochs = 2", f"learning_rate = {rate}")
    assert "training.learning_rate: " in refusal(tmp_path, text)


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = edited("epochs = 2", "epochs = 0\nbatch = 0\nmomentum = 2.0")
    assert refusal(tmp_path, text).count("training.") == 3
    many = "\n".join(f"wrong{at} = 1" for at in range(30))
    assert refusal(tmp_path, edited("epochs = 2", many)).count("unknown key") == MAX_PROBLEMS


def test_bad_toml_is_refused_with_line_and_column(tmp_path: Path) -> None:
    assert "at line 3, column 8" in refusal(tmp_path, edited("seed = 3", "seed = = 3"))


def test_duplicate_key_is_refused_with_its_line(tmp_path: Path) -> None:
    assert "at line 4" in refusal(tmp_path, edited("seed = 3", "seed = 3\nseed = 4"))


def test_absent_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none.toml: No such file"):
        read_config(tmp_path / "none.toml", SCHEMA)
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        read_config(tmp_path, SCHEMA)


def test_config_that_is_not_utf8_is_refused_with_the_byte(tmp_path: Path) -> None:
    (tmp_path / "trial.toml").write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 2"):
        read_config(tmp_path / "trial.toml", SCHEMA)


def test_no_party_of_that_name_is_refused_with_the_parties(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no party 'bnak' in") as caught:
        read(tmp_path, GOOD + SETTINGS).settings("bnak")
    assert caught.value.hint == "the parties are bank, shop"


def test_settings_in_a_separate_file_are_read(tmp_path: Path) -> None:
    beside = tmp_path / "shop.party.toml"
    beside.write_text('hub = "bank.example:7700"\n[data]\nkind = "sklearn"\nname = "digits"\n')
    assert read(tmp_path).settings("shop").hub == "bank.example:7700"


def test_absent_settings_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shop.party.toml does not exist"):
        read(tmp_path).settings("shop")


def test_statistics_beside_declared_preprocessing_are_refused(tmp_path: Path) -> None:
    text = "preprocessing = 'declared'\n" + GOOD + SETTINGS
    text += "[settings.shop]\nstatistics = 'public.json'\n"
    with pytest.raises(
        ConfigError, match=r"the settings of shop contain the key 'statistics', .* 'declared'"
    ) as it:
        read(tmp_path, text).settings("shop")
    assert "'ranges' and 'vocabulary'" in (it.value.hint or "")
    assert read(tmp_path, text, "preprocessing='fitted'").settings("shop").statistics


def test_statistics_beside_ranks_are_refused(tmp_path: Path) -> None:
    shop = '[settings.shop.data]\nkind = "csv"\npath = "shop.csv"\nranks = true\n'
    text = GOOD + SETTINGS.partition("[settings.shop.data]")[0] + shop
    config = read(tmp_path, text + "[settings.shop]\nstatistics = 'public.json'\n")
    with pytest.raises(ConfigError, match=r"'statistics', and ranks = true in"):
        config.settings("shop")


def test_settings_of_no_party_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, GOOD + SETTINGS.replace("settings.shop", "settings.shp"))
    assert "[settings.shp]: no party has this name" in error
    assert "bank, shop" in error


@pytest.mark.parametrize("address", ["bank", "bank:0", "bank:70000", ":7700", "::1:7700"])
def test_address_without_a_port_is_refused(tmp_path: Path, address: str) -> None:
    text = GOOD + f'[settings.shop]\nhub = "{address}"\n' + SETTINGS
    assert "settings.shop.hub: " in refusal(tmp_path, text)


def test_two_active_parties_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, edited('role = "passive"', 'role = "active"'))
    assert "one active party" in error
    assert "bank, shop" in error


def test_no_active_party_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, edited('role = "active"', 'role = "passive"\nwidth = 2'))
    assert "(active parties: none)" in error


def test_passive_party_without_width_is_refused(tmp_path: Path) -> None:
    assert "a passive party has no key 'width'" in refusal(tmp_path, edited("width = 4", ""))


def test_votes_of_another_width_than_classes_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, edited("[training]", '[top]\nkind = "sum"\n[training]'))
    assert "width = 2" in error
    assert "parties.shop.width is 4" in error


def test_party_name_that_is_no_dns_label_is_refused(tmp_path: Path) -> None:
    assert "parties" in refusal(tmp_path, edited("parties.shop", 'parties."My Shop"'))


def test_unknown_class_in_a_request_is_refused_with_the_classes(tmp_path: Path) -> None:
    error = refusal(tmp_path, edited('classes = ["yes"]', 'classes = ["maybe"]'))
    assert "request 'some' names the unknown class 'maybe'; the classes are no, yes" in error


def test_two_requests_with_one_name_are_refused(tmp_path: Path) -> None:
    assert "two requests have the same name" in refusal(
        tmp_path, GOOD + '[[unlearn]]\nname = "some"\nclasses = ["no"]\n'
    )


def test_official_split_with_a_test_share_is_refused(tmp_path: Path) -> None:
    text = edited("[training]", '[split]\nkind = "official"\ntest = 0.2\n[training]')
    assert "remove the key 'test'" in refusal(tmp_path, text)


def test_split_without_training_rows_is_refused(tmp_path: Path) -> None:
    text = edited("[training]", "[split]\nvalidation = 0.5\ntest = 0.5\n[training]")
    assert "so that rows remain for training" in refusal(tmp_path, text)


def test_override_from_the_command_line_is_applied(tmp_path: Path) -> None:
    changes = ("training.epochs=5", "training.optimiser=sgd", "unlearning.fedora.iterations=9")
    agreement = read(tmp_path, GOOD, *changes).agreement
    assert (agreement.training.epochs, agreement.training.optimiser) == (5, "sgd")
    assert agreement.unlearning.fedora.iterations == 9


def test_override_of_party_settings_in_the_file_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(GOOD + SETTINGS)
    plain = read_config(path, SCHEMA)
    changed = read_config(path, SCHEMA, ["settings.shop.data.sample={fraction=0.5, seed=4}"])
    sample = changed.settings("shop").data.sample
    assert sample is not None
    assert (sample.fraction, sample.seed) == (0.5, 4)
    assert agreement_digest(changed.agreement) == agreement_digest(plain.agreement), (
        "party settings are no part of it"
    )


def test_override_without_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'training.epochs' is not of the form") as caught:
        read(tmp_path, GOOD, "training.epochs")
    assert "training.epochs=5" in caught.value.hint


def test_override_of_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    assert "did you mean 'epochs'?" in refusal(tmp_path, GOOD, "training.epoch=5")


@pytest.mark.parametrize("change", ["seed.x=5", "training.epochs.x=5", "unlearn.fraction=0.2"])
def test_override_inside_a_value_that_is_not_a_table_is_refused(
    tmp_path: Path, change: str
) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, GOOD, change)


def test_settings_that_are_no_table_are_refused(tmp_path: Path) -> None:
    assert "settings" in refusal(tmp_path, "settings = 5\n" + GOOD)


def test_digest_ignores_party_settings(tmp_path: Path) -> None:
    plain, complete = read(tmp_path).agreement, read(tmp_path, GOOD + SETTINGS).agreement
    assert agreement_digest(plain) == agreement_digest(complete)


def test_digest_ignores_the_order_of_keys_and_defaults_written_out(tmp_path: Path) -> None:
    blocks = GOOD.strip().split("\n\n")
    turned = "\n\n".join([blocks[0], *reversed(blocks[1:])])
    turned = turned.replace('federation = "trial"\nseed = 3', 'seed = 3\nfederation = "trial"')
    written = turned.replace("epochs = 2", "batch = 64\nepochs = 2")
    first = agreement_digest(read(tmp_path).agreement)
    assert turned != GOOD
    assert agreement_digest(read(tmp_path, turned).agreement) == first
    assert agreement_digest(read(tmp_path, written).agreement) == first


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("absent", 'requests.absent="fallback"'),
        ("continued", "training.continued.joint_epochs=2.0"),
        ("since", 'parties.shop.since="2026-11-26"'),
    ],
)
def test_key_of_a_later_version_is_canonical_only_where_it_is_set(
    tmp_path: Path, key: str, change: str
) -> None:
    """Also in a table inside the agreement, so that versions one apart have the same digest."""
    assert f'"{key}":' not in canonical_agreement(read(tmp_path).agreement)
    assert f'"{key}":' in canonical_agreement(read(tmp_path, GOOD, change).agreement)


@pytest.mark.parametrize(
    "change", ["seed=4", "training.epochs=3", "parties.shop.width=5", "dtype=float64"]
)
def test_digest_sees_every_setting(tmp_path: Path, change: str) -> None:
    assert agreement_digest(read(tmp_path).agreement) != agreement_digest(
        read(tmp_path, GOOD, change).agreement
    )


def test_differences_name_the_field(tmp_path: Path) -> None:
    ours = canonical_agreement(read(tmp_path).agreement)
    theirs = canonical_agreement(read(tmp_path, GOOD, "training.epochs=3", "seed=4").agreement)
    assert agreement_differences(ours, ours) == []
    assert agreement_differences(ours, theirs) == [("seed", 3, 4), ("training.epochs", 2, 3)]


def test_differences_name_a_party_that_only_one_side_has(tmp_path: Path) -> None:
    third = GOOD + '[parties.post]\nrole = "passive"\nwidth = 2\n'
    ours, theirs = (
        canonical_agreement(read(tmp_path).agreement),
        canonical_agreement(read(tmp_path, third).agreement),
    )
    [(field, here, there)] = agreement_differences(ours, theirs)
    assert (field, here, there["width"]) == ("parties.post", None, 2)


@pytest.mark.parametrize("theirs", ["", "{", "nonsense"])
def test_peer_agreement_that_is_no_json_is_refused(tmp_path: Path, theirs: str) -> None:
    with pytest.raises(ConfigError, match="not JSON"):
        agreement_differences(canonical_agreement(read(tmp_path).agreement), theirs)


@pytest.mark.parametrize("theirs", ["5", "[]", "[" * 100_000])
def test_peer_agreement_that_is_no_object_is_refused(tmp_path: Path, theirs: str) -> None:
    with pytest.raises(ConfigError):
        agreement_differences(canonical_agreement(read(tmp_path).agreement), theirs)


def test_invalid_agreement_and_invalid_settings_are_reported_together(tmp_path: Path) -> None:
    text = edited("epochs = 2", "epochs = 0") + SETTINGS.replace("features", "feature")
    error = refusal(tmp_path, text)
    assert "training.epochs: " in error
    assert "settings.bank.data.sklearn.feature" in error


def test_config_of_another_mode_is_refused(tmp_path: Path) -> None:
    assert "mode must be 'vertical' (got 'llm')" in refusal(tmp_path, 'mode = "llm"\n' + GOOD)
