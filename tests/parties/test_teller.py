"""What the command line shows of words that others chose: one line, escaped, and not too long."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import HUB, SPOKE
from seats import AGREED, Attendance, party

from parties.errors import PolicyError
from parties.join import greet, welcome
from parties.memory_port import MemoryPort
from parties.printable import LONGEST, printable, printable_event
from parties.teller import Teller

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
def test_evil_text_is_one_short_harmless_line(name: str) -> None:
    shown = printable(EVIL[name])
    assert not FORBIDDEN & set(shown)
    assert shown.isprintable()
    assert len(shown) < LONGEST + 40


def test_harmless_text_is_left_as_it_is() -> None:
    for text in ("", "left runs 'vfl 0.1'", "Größe ≤ 5 (ε, δ)", "地址"):
        assert printable(text) == text


def test_every_text_of_an_event_is_made_harmless() -> None:
    event = {"event": "warning", "text": EVIL["colour"], "deep": {"a\nb": [EVIL["new line"], 5]}}
    shown = printable_event(event)
    assert not FORBIDDEN & set(json.dumps(shown, ensure_ascii=False))
    assert shown["deep"]["a\\nb"][1] == 5


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", EVIL)
def test_evil_words_forge_no_line_of_output(
    capsys: pytest.CaptureFixture[str], name: str, form: str
) -> None:
    told = Teller("bank", json_lines=form == "json", debug=True)

    def work() -> None:
        with told.view({"bank": "active"}) as show:
            show({"event": "warning", "party": "bank", "text": EVIL[name]})
            told.warn(EVIL[name])
        raise PolicyError(EVIL[name], EVIL[name])

    with pytest.raises(SystemExit):
        told.guard(work)
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
def test_field_names_of_a_peer_are_harmless_in_our_refusal(
    keys: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The peer chooses the keys of the agreement that it says it has."""
    evil = json.dumps({**AGREED, EVIL[name]: 1})
    port, events = MemoryPort(), list[Any]()
    shop = party(keys, SPOKE, [], Attendance(said=evil))
    told = Teller("bank", json_lines=False, debug=False)

    def lead() -> None:
        welcome(party(keys, HUB, events), port)

    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(greet, shop, lambda: port.connect(SPOKE))
        with pytest.raises(SystemExit) as ended:
            told.guard(lead)
        assert isinstance(joining.exception(5), Exception)
    assert ended.value.code == 6
    output = capsys.readouterr().err
    assert "the agreements differ" in output
    assert not (FORBIDDEN - {"\n"}) & set(output)
    assert len(output.splitlines()) == 2  # the error and its hint
