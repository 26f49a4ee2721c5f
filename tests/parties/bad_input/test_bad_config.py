"""Wrong configs: each is refused with the path of the key and a hint, without its value."""

import json
import os
from pathlib import Path

import pytest
from command_trial import (
    AGREEMENT,
    CANARIES,
    SETTINGS,
    Trial,
    command,
    edited_config,
    make_trial,
    process,
)

from tests.conftest import SPOKE


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> Trial:
    return make_trial(tmp_path, keys)


def test_unchanged_trial_is_valid(trial: Trial) -> None:
    """The party gets as far as the network, so each refusal below has its own reason."""
    result = trial.start().expect(6, "no process listens at localhost:1", "hint: start bank, or")
    assert "error" in result


# --- the file -----------------------------------------------------------------------------------


def test_missing_file_is_refused(trial: Trial) -> None:
    trial.config.unlink()
    trial.start().expect(3, "cannot read", "trial.toml: No such file", "hint: give a TOML file")


def test_folder_in_place_of_a_config_is_refused(trial: Trial) -> None:
    trial.config.unlink()
    trial.config.mkdir()
    trial.start().expect(3, "trial.toml: Is a directory")


def test_device_in_place_of_a_config_is_refused(trial: Trial) -> None:
    words = ["--role", "passive", "--party", SPOKE, "--config", "/dev/zero"]
    command("vfl-party", *words).expect(3, "/dev/zero: the path is not a regular file")


def as_unprivileged_user() -> list[str]:
    """Drop root's right to read all files, if the tests run as root."""
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", rights] if os.geteuid() == 0 else []


@pytest.mark.slow
def test_unreadable_file_is_refused_with_its_permissions(trial: Trial) -> None:
    trial.config.chmod(0o200)
    result = process("vfl-party", *trial.words(), through=as_unprivileged_user())
    result.expect(
        3, "trial.toml: Permission denied; its mode is --w-------", "hint: make the file read"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# \xff\n", "not UTF-8 at byte 2 (line 1)"),
        (AGREEMENT.encode("utf-16"), "not UTF-8 at byte 0"),
        (b"a = 1\nb = '\0'\n", "NUL character at byte 11 (line 2)"),
        (b'a = "x\\u0000"\n', "a: the text contains a NUL character"),
    ],
    ids=["latin", "utf-16", "nul", "escaped nul"],
)
def test_bytes_that_are_not_utf8_are_refused_with_their_offset(
    trial: Trial, content: bytes, message: str
) -> None:
    trial.reads(content).expect(3, message, "hint:")


def test_byte_order_mark_is_accepted_with_a_notice(trial: Trial) -> None:
    result = trial.reads(b"\xef\xbb\xbf" + (AGREEMENT + SETTINGS).encode())
    result.expect(6, "warning:", "begins with a byte order mark", "no process listens")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("seed = = 3\n", "line 1, column 8"),
        ("[training\nepochs = 2\n", "line 1, column 10"),
        ("a = 'x\n", "the end, line 1"),
        ("training:\n\tepochs: 2\n", "line 1, column 9"),
    ],
    ids=["sign", "table", "text", "YAML with tabs"],
)
def test_bad_syntax_is_refused_with_line_and_column(trial: Trial, text: str, place: str) -> None:
    trial.reads(text).expect(3, f"(at {place})", "hint: give a TOML file")


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("epochs = 2", "epochs = 2\nepochs = 3", (16, 15)),
        ("[training]", '[parties.shop]\nrole = "passive"\n[training]', (14, 10)),
        ("[training]", "[training]\nepochs = 1\n[limits]\n[training]", (17, 14)),
        ('federation = "trial"', 'federation = "trial"\nfederation = "other"', (3, 2)),
    ],
    ids=["key", "party", "table", "top"],
)
def test_duplicate_key_is_refused_with_both_lines(
    trial: Trial, old: str, new: str, lines: tuple[int, int]
) -> None:
    result = trial.reads(edited_config(old, new)).expect(
        3, f"the first definition is at line {lines[1]}"
    )
    assert f"at line {lines[0]}, " in result


@pytest.mark.parametrize("name", ["trial.yaml", "trial.yml", "trial.json"])
def test_other_formats_are_refused_with_the_expected_format(trial: Trial, name: str) -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: !!python/object/apply:os.system [id]\non: no\n"
    path = trial.write(bomb, name)
    words = ["--role", "passive", "--party", SPOKE, "--config", str(path)]
    command("vfl-party", *words).expect(
        3, f"{name} has the extension of a", "hint: give a TOML file"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "{a = " * 50_000, "nested too deeply"),
        (".".join("a" * 300_000) + " = 1", "more than 32 levels deep"),
        ("a = " + "[" * 40 + "]" * 40, "more than 32 levels deep"),
        ("# " + "x" * 2**20, "a config may have at most 1048576"),
        ("a = " + "9" * 5_000, "more than 4300 digits"),
    ],
    ids=["lists", "tables", "chain", "forty", "huge", "number"],
)
def test_deeply_nested_or_large_config_is_refused(trial: Trial, text: str, message: str) -> None:
    trial.reads(text).expect(3, message)


# --- keys and values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 2", "learnig_rate = 0.1", "'training.learnig_rate'; did you mean 'learning_"),
        ("width = 4", "widht = 4", "'parties.shop.widht'; did you mean 'width'?"),
        ("[labels]", "[lables]", "unknown key 'lables'; did you mean 'labels'?"),
        ("hub = ", "hubb = ", "'settings.shop.hubb'; did you mean 'hub'?"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest(
    trial: Trial, old: str, new: str, message: str
) -> None:
    trial.reads(edited_config(old, new)).expect(3, message, "hint: docs/configuration.md")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"ten"', "valid integer, not text"),
        ("true", "valid integer, not true or false"),
        ("1.5", "valid integer"),
        ("[1]", "valid integer, not a list"),
        ("2026-11-21", "no setting is a date or a time"),
    ],
)
def test_wrong_type_is_refused_without_a_cast(trial: Trial, value: str, message: str) -> None:
    trial.reads(edited_config("epochs = 2", f"epochs = {value}")).expect(
        3, "training.epochs", message
    )


def test_date_in_place_of_text_is_refused(trial: Trial) -> None:
    text = edited_config('classes = ["no", "yes"]', "classes = [2026-11-21, 2026-11-22]")
    trial.reads(text).expect(3, "labels.classes.0: no setting is a date")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learning_rate = 0.0", "greater than 0"),
        ("learning_rate = -0.1", "greater than 0"),
        ("learning_rate = nan", "finite number"),
        ("learning_rate = inf", "finite number"),
        ("learning_rate = 1e999", "finite number"),
        ("momentum = 1.0", "less than 1"),
        ("weight_decay = inf", "finite number"),
        ("patience = 0", "greater than or equal to 1"),
        ("optimiser = 'lion'", "'adam', 'sgd' or 'newton-cg'"),
    ],
)
def test_number_out_of_range_is_refused_with_the_range(
    trial: Trial, setting: str, message: str
) -> None:
    result = trial.reads(edited_config("epochs = 2", setting))
    result.expect(3, f"training.{setting.partition(' ')[0]}: ", message)


@pytest.mark.parametrize("key", ["epochs", "batch"])
@pytest.mark.parametrize("value", ["0", "-3", "9999999999"])
def test_count_out_of_range_is_refused(trial: Trial, key: str, value: str) -> None:
    old = f"{key} = {2 if key == 'epochs' else 16}"
    trial.reads(edited_config(old, f"{key} = {value}")).expect(3, f"training.{key}: ", "than")


@pytest.mark.parametrize("value", ["0.0", "-1.0", "1e9", "inf"])
def test_timeout_out_of_range_is_refused(trial: Trial, value: str) -> None:
    text = edited_config("join_seconds = 0.5", f"join_seconds = {value}")
    trial.reads(text).expect(3, "limits.join_seconds: ")


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_infinite_numbers_are_refused_everywhere(trial: Trial, value: str) -> None:
    text = edited_config("[limits]", f"[unlearning.fedora]\nproximal = {value}\n[limits]")
    trial.reads(text).expect(3, "unlearning.fedora.proximal: ", "finite number")


def test_batch_larger_than_the_data_is_refused(trial: Trial) -> None:
    result = trial.reads(edited_config("batch = 16", "batch = 41"))
    result.expect(
        4, "training.batch = 41, but this party has only 40 rows", "hint: choose a batch from 1"
    )
    trial.reads(edited_config("batch = 16", "batch = 40")).expect(6, "no process listens")


def test_at_most_twenty_problems_are_reported_together(trial: Trial) -> None:
    text = edited_config("epochs = 2", "epochs = 0\nbatsch = 4").replace(
        '"localhost:1"', '"localhost"'
    )
    result = trial.reads(text).expect(3, "training.epochs", "training.batsch", "settings.shop.hub")
    assert result.count("trial.toml: ") == 3
    unknown_keys = "\n".join(f"wrong{at} = 1" for at in range(30))
    assert (
        trial.reads(edited_config("epochs = 2", unknown_keys)).expect(3).count("unknown key") == 20
    )


# --- parties ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('role = "passive"', 'role = "active"', "one active party and at least one passive party "
         "(active parties: bank, shop)"),
        ('role = "active"', 'role = "passive"\nwidth = 2', "(active parties: none)"),
        ("[parties.shop]", '[parties."The Shop"]',
         "'The Shop' is not a valid name; a name is a lower-case"),
        ('role = "passive"', 'role = "pasive"', "parties.shop.role: ", ),
    ],
    ids=["two active", "none", "name", "role"],
)  # fmt: skip
def test_invalid_set_of_parties_is_refused(trial: Trial, old: str, new: str, message: str) -> None:
    trial.reads(edited_config(old, new)).expect(3, message)


def test_unknown_own_name_is_refused_with_the_parties(trial: Trial) -> None:
    trial.start("passive", "shoop").expect(
        3, "no party 'shoop'", "hint: the parties are bank, shop"
    )


def test_settings_of_no_party_are_refused_with_the_parties(trial: Trial) -> None:
    text = (AGREEMENT + SETTINGS).replace("settings.shop", "settings.shp")
    trial.reads(text).expect(
        3, "[settings.shp]: no party has this name; the parties are bank, shop"
    )


@pytest.mark.parametrize(
    ("name", "role", "old", "new"),
    [
        ("shop", "passive", "[settings.shop]", '[settings.shop]\nlisten = "localhost:1"'),
        ("shop", "passive", "[settings.shop]", '[settings.shop]\nunlearn = { some = "ids.txt" }'),
        (
            "bank",
            "active",
            "[settings.bank.data]",
            '[settings.bank]\nhub = "a:1"\n[settings.bank.data]',
        ),
    ],
)
def test_settings_of_the_other_role_are_refused(
    trial: Trial, name: str, role: str, old: str, new: str
) -> None:
    trial.write(edited_config(old, new))
    trial.start(role, name).expect(
        3, f"in the settings of the {role} party {name}", "hint: remove the key"
    )


# --- addresses, secrets, unsupported features ---------------------------------------------------

ADDRESSES = {
    "bank": "host:port with a port from 1 to 65535",
    "bank:0": "host:port with a port from 1 to 65535",
    "bank:70000": "host:port with a port from 1 to 65535",
    "bank:٧٧": "host:port with a port from 1 to 65535",
    ":7700": "host:port",
    "::1:7700": "in brackets, like [::1]:7700",
    "[::g]:7700": "not an IPv6 address",
    "https://bank:7700": "without http://",
    f"user:{CANARIES[2]}@bank:7700": "in brackets",
    f"{CANARIES[2]}@bank:7700": "letters, digits, dots and hyphens",
    "bank 2:7700": "letters, digits, dots and hyphens",
    "0.0.0.0:7700": "but no party can connect to it: give the host name of the hub",
    "[::]:7700": "no party can connect to it",
    "unix:": "where PATH has 1 to 107 bytes",
    "unix:/" + "x" * 120: "where PATH has 1 to 107 bytes",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_invalid_address_in_the_settings_is_refused(trial: Trial, address: str) -> None:
    text = edited_config('"localhost:1"', json.dumps(address))
    trial.reads(text).expect(3, f"settings.shop.hub: {_start(address)}", ADDRESSES[address])


@pytest.mark.parametrize("address", ADDRESSES)
def test_invalid_address_on_the_command_line_is_refused(trial: Trial, address: str) -> None:
    result = trial.start("passive", SPOKE, "--hub", address)
    result.expect(2, "--hub: ", ADDRESSES[address], "hint: give --hub HOST:PORT")


def _start(address: str) -> str:
    return "the address of a Unix socket must" if address.startswith("unix:") else ""


@pytest.mark.parametrize(
    "line",
    [
        f'password = "{CANARIES[3]}"',
        f'key_password = "{CANARIES[3]}"',
        f'api_key = "{CANARIES[3]}"',
        f'auth_token = "{CANARIES[3]}"',
        f'private_key = """-----BEGIN PRIVATE KEY-----\n{CANARIES[3]}"""',
        f'module = """-----BEGIN EC PRIVATE KEY-----\n{CANARIES[3]}"""',
    ],
)
def test_secret_in_the_config_is_refused_and_not_repeated(trial: Trial, line: str) -> None:
    result = trial.reads(edited_config("[settings.shop]", f"[settings.shop]\n{line}"))
    assert "file" in result.expect(3, "settings.shop." + line.partition(" ")[0])


@pytest.mark.parametrize("table", ["[he]\ndegree = 1024", "[ckks]\ndepth = 1", "[homomorphic]"])
def test_homomorphic_encryption_is_refused_with_the_reason(trial: Trial, table: str) -> None:
    result = trial.reads(edited_config("[limits]", f"{table}\n[limits]"))
    result.expect(3, "the vertical mode has no homomorphic encryption", "TLS protects")
