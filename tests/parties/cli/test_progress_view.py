"""Output of progress without a terminal: one line per phase, with times."""

import re
from io import StringIO

from rich.console import Console

from parties.cli.progress_view import PhaseLog
from parties.common.progress import Progress, ProgressReporter

ROLES = {"bank": "active", "shop": "passive"}


def logged(roles: dict[str, str]) -> str:
    """Return the output for two phases of two parties and a warning."""
    out = StringIO()
    with PhaseLog(Console(file=out, width=40), roles) as log:
        for party in roles:
            reporter = ProgressReporter(party, log.show)
            reporter.phase("train, epoch 1", 5)
            reporter.phase("train, epoch 2", 5)
            reporter.phase("audit [red]")
        reporter.warn("a long warning that does not fit into a line of forty characters")
    return out.getvalue()


def test_each_phase_of_the_hub_has_one_line_with_times() -> None:
    lines = logged(ROLES).splitlines()
    expected = [
        r"0:00:00 bank: train",
        r"0:00:00 bank: audit \[red\] \(train took 0\.\d s\)",
        r"shop: warning: a long warning that does not fit into a line of forty characters",
        r"0:00:00 bank: ended \(audit \[red\] took 0\.\d s\)",
    ]
    assert len(lines) == len(expected), lines
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line)


def test_party_that_runs_alone_logs_its_own_phases() -> None:
    assert "0:00:00 shop: train\n" in logged({"shop": "passive"})


def test_step_within_a_phase_prints_nothing() -> None:
    out = StringIO()
    log = PhaseLog(Console(file=out), ROLES)
    for done in range(5):
        fields = {name: getattr(Progress("bank"), name) for name in Progress.__slots__}
        log.show({"event": "progress"} | fields | {"phase": "train", "done": done})
    assert out.getvalue() == "0:00:00 bank: train\n"


def test_log_has_no_control_character() -> None:
    assert not {each for each in logged(ROLES) if not each.isprintable()} - {"\n"}
