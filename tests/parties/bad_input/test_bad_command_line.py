"""Wrong command lines and environments: refused with a hint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_trial import (
    CANARIES,
    ROOT,
    CommandResult,
    Trial,
    command,
    edited_config,
    make_trial,
    process,
)

from protocol.keyring import read_keyring
from tests.conftest import HUB, SPOKE, Dial, listening

DIGITS = ROOT / "configs" / "vertical" / "digits.toml"


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> Trial:
    return make_trial(tmp_path, keys)


def short(result: CommandResult) -> None:
    """Check that a usage error is a few lines, not the whole help."""
    assert len(result.text.strip().splitlines()) <= 10


# --- commands and flags -------------------------------------------------------------------------


def test_no_command_is_refused_with_the_commands() -> None:
    result = command("vfl")
    result.expect(2, "Usage: ", "Missing command. The commands are", "simulate", "certs")
    short(result)


def test_unknown_command_is_refused_with_the_nearest() -> None:
    result = command("vfl", "simulat", str(DIGITS))
    result.expect(2, "Usage: ", "No such command 'simulat'. Did you mean 'simulate'?")
    short(result)


@pytest.mark.parametrize(
    ("program", "words", "near"),
    [
        ("vfl", ["certs", str(DIGITS), "--dayz", "3"], "--days"),
        ("vfl", ["simulate", str(DIGITS), "--in-proces"], "--in-process"),
        ("vfl-party", ["--rolle", "active"], "--role"),
        ("vfl-sim", [str(DIGITS), "--ouut", "x"], "--out"),
    ],
)
def test_unknown_flag_is_refused_with_the_nearest(
    program: str, words: list[str], near: str
) -> None:
    result = command(program, *words)
    result.expect(2, "Usage: ", "No such option: ", near)
    short(result)


def test_missing_role_is_refused_with_the_roles(trial: Trial) -> None:
    result = command("vfl-party", "--config", str(trial.config), "--party", SPOKE)
    result.expect(2, "Missing option '--role'", "active", "passive")


def test_misspelt_role_is_refused_with_the_roles(trial: Trial) -> None:
    trial.start("pasive").expect(2, "Invalid value for '--role'", "'active', 'passive'")


def test_role_outside_the_agreement_is_refused(trial: Trial) -> None:
    result = trial.start("active")
    result.expect(
        3, "party shop has the role passive in", "trial.toml", "hint: give --role passive"
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--labels", "set label = COLUMN in [data] of the active party's"),
        ("--listen", "listen is a party setting"),
        ("--unlearn", "the agreement, which all parties share"),
    ],
)
def test_flag_that_does_not_fit_the_role_is_refused(trial: Trial, flag: str, message: str) -> None:
    result = trial.start("passive", SPOKE, flag, "x")
    result.expect(3 if flag == "--unlearn" else 2, flag, message, "hint:")


@pytest.mark.parametrize(
    ("flag", "place"),
    [
        ("--epochs", "training.epochs"),
        ("--batch=8", "training.batch"),
        ("--learning-rate", "training.learning_rate"),
        ("--width", "parties.NAME.width"),
        ("--minimum", "psi.minimum"),
    ],
)
def test_flag_for_a_shared_setting_is_refused_with_its_key(
    trial: Trial, flag: str, place: str
) -> None:
    result = trial.start("passive", SPOKE, flag, "8")
    result.expect(3, "the agreement, which all parties share, sets", place, "every party")


def test_own_seed_is_refused_with_the_reason(trial: Trial) -> None:
    result = trial.start("passive", SPOKE, "--seed", "7")
    result.expect(
        3, "there is no option --seed: the agreement", "the parties train different models"
    )


def test_local_flag_wins_over_the_settings(trial: Trial) -> None:
    result = trial.start("passive", SPOKE, "--hub", "localhost:2")
    result.expect(6, "no process listens at localhost:2")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--hub", "a:1", "--hub", "b:1"], "--hub is given twice"),
        (["--hub=a:1", "--hub", "b:1"], "--hub is given twice"),
        (["--party", HUB], "--party is given twice"),
        (["--set", "seed=1", "--set", "seed=2"], "--set seed is given twice"),
    ],
)
def test_one_flag_with_two_values_is_refused(trial: Trial, more: list[str], message: str) -> None:
    trial.start("passive", SPOKE, *more).expect(2, message, "different values", "hint: give --")


def test_one_flag_with_the_same_value_twice_is_accepted(trial: Trial) -> None:
    more = ["--set", "seed=1", "--set", "seed=1", "--set", "split.test=0.3", "--party", SPOKE]
    trial.start("passive", SPOKE, *more).expect(6, "no process listens")


@pytest.mark.parametrize("flag", ["--insecure", "--no-tls", "--plaintext", "--no-verify"])
@pytest.mark.parametrize("address", ["bank.example:7700", "127.0.0.1:7700"])
def test_no_flag_turns_tls_off(trial: Trial, flag: str, address: str) -> None:
    result = trial.start("passive", SPOKE, flag, "--hub", address)
    result.expect(5, f"there is no option {flag}: TLS cannot be switched off", "hint: for a trial")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--days", "0"], "greater than or equal to 1"),
        (["--days", "-5"], "greater than or equal to 1"),
        (["--days", "99999"], "less than or equal to 3650"),
        (["--days", "ten"], "valid integer"),
    ],
)
def test_bad_number_is_refused_with_the_range(trial: Trial, words: list[str], message: str) -> None:
    result = command("vfl", "certs", str(trial.config), "--out", str(trial.folder / "c"), *words)
    result.expect(2, "Invalid value for '--days'", message)


@pytest.mark.parametrize(
    ("flag", "code", "message"),
    [
        ("--port=-1", 2, "from 1 to 65535"),
        ("--timeout=0", 2, "each above 0 seconds, in [limits]"),
        ("--threads=999", 2, "write threads = ..."),
        ("--step-seconds=-1", 3, "limits.step_seconds"),
    ],
)
def test_flag_for_a_number_of_the_config_is_refused_with_its_place(
    trial: Trial, flag: str, code: int, message: str
) -> None:
    trial.start("passive", SPOKE, flag).expect(code, flag.partition("=")[0], message)


@pytest.mark.parametrize("threads", ["0", "-1", "1025", "1.5", "true"])
def test_threads_out_of_range_are_refused(trial: Trial, threads: str) -> None:
    trial.write(edited_config("[settings.shop]", f"[settings.shop]\nthreads = {threads}"))
    trial.start().expect(3, "settings.shop.threads: ")


@pytest.mark.parametrize(
    "words",
    [
        ["--key-password", CANARIES[6]],
        [f"--key-password={CANARIES[6]}"],
        [f"--password={CANARIES[6]}", "--debug"],
        ["--token", CANARIES[6], "--format", "json"],
        ["--api-key", CANARIES[6]],
    ],
)
def test_secret_on_the_command_line_is_refused_and_not_repeated(
    trial: Trial, words: list[str]
) -> None:
    result = trial.start("passive", SPOKE, *words)
    result.expect(2, words[0].partition("=")[0], "secrets are not allowed on a command line")


def test_secret_as_a_setting_is_refused_and_not_repeated(trial: Trial) -> None:
    result = trial.start("passive", SPOKE, "--set", f"training.password={CANARIES[7]}")
    result.expect(3, "'training.password' looks like a secret", "write it into a file")
    trial.start("passive", SPOKE, "--set", CANARIES[7]).expect(3, "a change without '='")


def test_error_before_option_parsing_is_one_json_object(trial: Trial) -> None:
    result = trial.start("passive", SPOKE, "--insecure", "--format", "json")
    message = json.loads(result.text)
    assert (message["event"], message["exit"]) == ("error", 5)


# --- where the output goes ----------------------------------------------------------------------


def into(trial: Trial, out: Path | str, *more: str) -> CommandResult:
    words = [word for word in trial.words("passive", SPOKE, *more) if word != "--out"]
    words.remove(str(trial.folder / "runs"))
    return command("vfl-party", *words, "--out", str(out))


def test_output_that_is_a_file_is_refused(trial: Trial) -> None:
    (trial.folder / "out").write_text("mine")
    into(trial, trial.folder / "out").expect(7, "out is a file", "hint: choose another --out")
    into(trial, trial.folder / "out" / "deeper").expect(7, "out/deeper", "Not a directory")
    assert (trial.folder / "out").read_text() == "mine"


def test_output_that_cannot_be_written_is_refused(trial: Trial) -> None:
    into(trial, "/proc/runs").expect(
        7, "cannot use the folder /proc/runs/trial/shop", "hint: choose another"
    )


def test_output_inside_the_data_is_refused(trial: Trial) -> None:
    inside = trial.folder / "runs"
    result = into(trial, inside, "--data", str(trial.folder))
    result.expect(7, "runs lies inside the data folder", "hint: choose another --out")
    assert not inside.exists()


def test_output_inside_the_folder_that_the_settings_name_is_refused(trial: Trial) -> None:
    trial.write(edited_config("[settings.shop]", '[settings.shop]\nfolder = "."'))
    into(trial, trial.folder / "runs").expect(7, "runs lies inside the data folder")


def test_output_path_with_dots_is_refused_with_its_target(trial: Trial) -> None:
    result = into(trial, trial.folder / "a" / ".." / "runs")
    result.expect(
        7, "contains '..'", f"hint: give the path without '..': --out {trial.folder / 'runs'}"
    )


def test_certificates_are_not_written_over_a_file(trial: Trial) -> None:
    (trial.folder / "certs").write_text("mine")
    words = ["certs", str(trial.config), "--out", str(trial.folder / "certs" / "new")]
    command("vfl", *words).expect(7, "cannot write into", "Not a directory")


@pytest.mark.slow
def test_second_process_of_a_party_is_refused_with_folder_and_process_id(trial: Trial) -> None:
    state = trial.folder / "runs" / "trial" / SPOKE
    hold = (
        "from pathlib import Path; import sys, time\n"
        "from parties.session.run_folder import lock_run_folder\n"
    )
    hold += (
        "with lock_run_folder(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(state)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        trial.start().expect(
            7, f"{state} is in use by process {holder.pid}", "hint: run one process per party"
        )
        assert not (state / "incarnation").exists()
        holder.kill()  # SIGKILL: the process cannot remove its lock
    trial.start().expect(6, "no process listens")
    trial.start().expect(6, "no process listens")
    assert (state / "incarnation").read_text() == "2\n"


# --- the environment ----------------------------------------------------------------------------


@pytest.mark.slow
def test_empty_environment_without_home_or_terminal_is_sufficient(trial: Trial) -> None:
    trial.write(edited_config("[limits]", "[dp]\nepsilon = 1.0\n[limits]"))
    result = process("vfl-party", *trial.words())
    result.expect(3, "differential privacy", "no (ε, δ)")
    assert "\x1b" not in result.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1"])
def test_locale_and_hash_seed_do_not_change_the_output(trial: Trial, seed: str) -> None:
    trial.write(edited_config("[limits]", "[dp]\nepsilon = 1.0\n[limits]"))
    environment = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONHASHSEED": seed,
    }
    result = process("vfl-party", *trial.words(), environment=environment)
    result.expect(3, "differential privacy", r"no (\u03b5, \u03b4)")


@pytest.mark.parametrize("variable", ["https_proxy", "http_proxy", "grpc_proxy"])
def test_proxy_of_the_environment_is_ignored(
    keys: Path, dialled: Dial, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv(variable, "http://127.0.0.1:9")  # no proxy listens there
    with listening(read_keyring(keys, HUB)) as (server, address):
        line = dialled(address.replace("127.0.0.1", "localhost"), SPOKE)
        line.send(b"hello", 5)
        assert server.accept(5).receive(5) == b"hello"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("SSLKEYLOGFILE", "keys.log"), ("GRPC_TRACE", "http"), ("GRPC_VERBOSITY", "DEBUG")],
)
def test_environment_variable_that_logs_keys_or_content_is_refused(
    trial: Trial, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    trial.start().expect(5, f"{variable} is set", f"hint: unset {variable}")
    command("vfl", "simulate", str(DIGITS)).expect(5, f"{variable} is set")
    seen = trial.start("passive", SPOKE, "--debug")
    seen.expect(5 if variable == "SSLKEYLOGFILE" else 6)
    assert not Path("keys.log").exists()


@pytest.mark.parametrize("value", ["NONE", "ERROR", ""])
def test_quiet_grpc_logging_is_accepted(
    trial: Trial, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", value)
    trial.start().expect(6, "no process listens")
    assert os.environ["GRPC_VERBOSITY"] == value
