"""Console output of untrusted text: one line, escaped, of limited length."""

import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from handshake_parties import AGREED, PartyVariant, party

from parties.cli.console import Console, RedactingFormatter, _thread_failed
from parties.common.errors import PolicyError
from parties.common.printable import LONGEST, printable, printable_event
from parties.session.handshake import accept_spokes, join_hub
from parties.session.memory_port import MemoryPort
from tests.conftest import HUB, SPOKE

ROOT = Path(__file__).parents[3]
EVIL = {
    "new line": "shop\nbank: error: all is lost",
    "colour": "shop\x1b[31m\x1b]0;title\x07",
    "turned": "shop\u202etxt.exe",
    "carriage return": "shop\rbank: all is well",
    "invisible": "sh\u200bop\ufeff",
    "nul": "sh\0op",
    "surrogate": "sh\ud800op",
    "C1": "shop\x9b31m",
    "megabyte": "x" * 2**20,
}
FORBIDDEN = set("\n\r\x1b\x07\0\x9b\u202e\u200b\ufeff\ud800")


@pytest.mark.parametrize("name", EVIL)
def test_control_characters_are_escaped_in_one_short_line(name: str) -> None:
    shown = printable(EVIL[name])
    assert not FORBIDDEN & set(shown)
    assert shown.isprintable()
    assert len(shown) < LONGEST + 40


def test_harmless_text_is_unchanged() -> None:
    for text in ("", "left runs 'vfl 0.1'", "Größe ≤ 5 (ε, δ)", "地址"):
        assert printable(text) == text


def test_every_text_of_an_event_is_escaped() -> None:
    event = {"event": "warning", "text": EVIL["colour"], "deep": {"a\nb": [EVIL["new line"], 5]}}
    shown = printable_event(event)
    assert not FORBIDDEN & set(json.dumps(shown, ensure_ascii=False))
    assert shown["deep"]["a\\nb"][1] == 5


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", EVIL)
def test_untrusted_text_cannot_forge_output_lines(
    capsys: pytest.CaptureFixture[str], name: str, form: str
) -> None:
    console = Console("bank", json_lines=form == "json", debug=True)

    def work() -> None:
        with console.progress({"bank": "active"}) as show:
            show({"event": "warning", "party": "bank", "text": EVIL[name]})
            console.warn(EVIL[name])
        raise PolicyError(EVIL[name], EVIL[name])

    with pytest.raises(SystemExit):
        console.run(work)
    captured = capsys.readouterr()
    output = captured.out + captured.err
    assert not (FORBIDDEN - {"\n"}) & set(output)
    assert len(output) < 30_000
    for line in output.splitlines():
        assert line.startswith(("bank: ", "  /", "PolicyError: ", "{")) or form == "text"
        assert not line.startswith("bank: error: all is lost")
    if form == "json":
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        assert [event["event"] for event in events] == ["warning", "warning", "error"]


@pytest.mark.parametrize("name", ["new line", "colour", "turned"])
def test_field_names_of_a_peer_are_escaped_in_errors(
    keys: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A peer chooses the keys of the agreement that it sends."""
    evil = json.dumps({**AGREED, EVIL[name]: 1})
    port, events = MemoryPort(), list[Any]()
    shop = party(keys, SPOKE, [], PartyVariant(agreement_text=evil))
    console = Console("bank", json_lines=False, debug=False)

    def lead() -> None:
        accept_spokes(party(keys, HUB, events), port)

    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(join_hub, shop, lambda: port.connect(SPOKE))
        with pytest.raises(SystemExit) as ended:
            console.run(lead)
        assert isinstance(joining.exception(5), Exception)
    assert ended.value.code == 6
    output = capsys.readouterr().err
    assert "the agreements differ" in output
    assert not (FORBIDDEN - {"\n"}) & set(output)
    assert len(output.splitlines()) == 2  # the error and its hint


def test_crash_in_a_thread_shows_no_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash() -> None:
        raise KeyError("canary 4711")

    monkeypatch.setattr(threading, "excepthook", _thread_failed)
    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
    output = capsys.readouterr().err
    assert "test_console.py" in output
    assert "KeyError: " in output
    assert "4711" not in output


def test_log_of_a_library_shows_no_values() -> None:
    try:
        raise KeyError("canary 4711")
    except KeyError:
        record = logging.LogRecord(
            "grpc._server", logging.ERROR, "/lib/_server.py", 9, "calling %s", ("canary 4711",),
            sys.exc_info(),
        )  # fmt: skip
    assert RedactingFormatter().format(record) == "grpc._server: error at _server.py:9 KeyError"


@pytest.mark.slow
def test_every_program_installs_the_output_hooks() -> None:
    """Each entry point sets the hooks before it parses options."""
    for entry in ("main", "party_main", "simulate_main"):
        check = "import sys, threading, logging, parties.cli.main as c, parties.cli.console as t\n"
        check += f"sys.argv = ['vfl', '--help']\ntry:\n    c.{entry}()\nexcept SystemExit:\n"
        check += "    assert threading.excepthook is t._thread_failed\n"
        check += "    assert isinstance(logging.root.handlers[0].formatter, t.RedactingFormatter)\n"
        subprocess.run([sys.executable, "-c", check], check=True, cwd=ROOT, capture_output=True)
