"""The documentation: generated pages are fresh, links resolve, and what pages name exists."""

import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from generate import pages
from generator.commands import command_page, commands, programs
from generator.configuration import configuration_page
from generator.markdown import slug
from generator.schemas import agreements, party_settings, tables_in

from configs.experiments import ExperimentList
from parties.common.errors import EXIT_CODES, UNEXPECTED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HIDDEN = {".venv", ".git", ".pytest_cache", "runs", "build", "dist", "node_modules"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in HIDDEN for part in path.relative_to(ROOT).parts)
)
# Pages that describe the present state. The others record the past, or are written by commands.
CURRENT = [
    path
    for path in PAGES
    if path.parent in (ROOT, DOCS)
    and path.name not in ("CHANGELOG.md", "decisions.md", "forgetting-study.md")
]
# Pages with blocks of commands, and the test that types them.
TYPED = {
    "README.md": "tests/test_readme.py",
    "docs/data-scientist.md": "tests/test_readme.py",
    "docs/deploy.md": "tests/deploy/test_two_machines.py",  # not those of systemd
    "docs/horizontal.md": "tests/test_horizontal_page.py",
    "docs/llm.md": "tests/test_llm_page.py",  # not those marked with a duration
    "docs/operator.md": "tests/test_operator_page.py",
    "docs/privacy-officer.md": "tests/test_operator_page.py",
}
USAGE = 2  # the exit code of a wrong command line
PROGRAM = re.compile(r"(/opt/vfl/bin/)?vfl(-party|-sim|-verify)?")
# Tables that a file of a simulation has beside the agreement's.
SIMULATION_KEYS = {"settings", "settings.client"}
# Spans of the pages with the form of a key that are none.
OTHER_NAMES = {
    "adult.test", "math.fsum", "run.unlearn", "vfl.simulate", "parties.bank",
    "parties.shop", "party.env", "requests.sqlite", "master.cred",
}  # fmt: skip
# Options in the pages that belong to other programs.
FOREIGN_OPTIONS = {
    "--constraint", "--extra-index-url", "--system", "--home-dir", "--shell", "--follow",
    "--unit", "--help",
}  # fmt: skip


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def without_code(text: str) -> str:
    """The text of a page without its code blocks and code spans."""
    return re.sub(r"`[^`\n]*`", "code", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def spans(text: str) -> list[str]:
    """The code spans of a page, outside of its code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def anchors(text: str) -> list[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [slug(each) for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]


# --- generated pages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    [
        "docs/configuration.md", "docs/cli.md", "docs/errors.md", "docs/forgetting-study.md",
        "docs/python.md", "protocol/README.md",
    ],
)  # fmt: skip
def test_generated_pages_are_fresh(page: str) -> None:
    path = ROOT / page
    assert path.read_text() == pages()[path], "run make docs"


def test_every_configuration_key_has_a_meaning() -> None:
    """The meaning is the comment at the key's definition."""
    empty, section = [], ""
    for line in configuration_page().splitlines():
        section = line if line.startswith("#") else section
        if line.startswith("| `") and line.endswith("|  |"):
            empty.append(f"{section}: {line.split('`')[1]}")
    assert not empty


def test_every_command_and_option_has_a_meaning() -> None:
    lines = command_page().splitlines()
    assert not [line for line in lines if line.startswith("| `") and line.endswith("|  |")]


def test_the_reference_has_every_mode_and_every_table() -> None:
    text = configuration_page()
    headings = re.findall(r"^### `\[+([a-zA-Z_.]+)\]+`", text, re.MULTILINE)
    assert {"training", "psi", "unlearning", "parties.NAME", "data"} <= set(headings)
    for mode in ("vertical", "horizontal", "LLM"):
        assert f"## The agreement, {mode} mode" in text


def test_the_page_of_errors_has_the_exit_codes_of_the_program() -> None:
    page = (DOCS / "errors.md").read_text()
    rows = {int(code) for code in re.findall(r"^\| (\d) \|", page, re.MULTILINE)}
    assert rows == {0, UNEXPECTED, USAGE, *EXIT_CODES.values()}


# --- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        known = anchors(target.read_text()) if target.suffix == ".md" and target.exists() else []
        if not target.exists() or (anchor and anchor not in known):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", CURRENT, ids=name_of)
def test_no_two_headings_have_one_anchor(page: Path) -> None:
    counts = Counter(anchors(page.read_text()))
    assert not [anchor for anchor, count in counts.items() if count > 1]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", without_code(page.read_text()))
        targets = {(page.parent / link).resolve() for link in links if ":" not in link}
        waiting += [each for each in targets - reached if each.suffix == ".md" and each.exists()]
    assert not {name_of(page) for page in PAGES} - {name_of(page) for page in reached}


def test_the_drawing_is_well_formed_and_described() -> None:
    drawing = ElementTree.parse(DOCS / "architecture.svg").getroot()
    tags = [each.tag.rpartition("}")[2] for each in drawing]
    assert {"title", "desc"} <= set(tags)
    assert "script" not in tags
    assert "docs/architecture.svg" in (ROOT / "README.md").read_text()


# --- what pages name exists --------------------------------------------------------------------


def shell_lines(text: str) -> Iterator[list[str]]:
    """Every ``vfl`` command of the shell blocks, as words."""
    blocks = re.findall(r"```sh[^\n]*\n(.*?)```", text, re.DOTALL)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        starts = (n for n, word in enumerate(words) if n == 0 or words[n - 1] == "--")
        at = next((n for n in starts if PROGRAM.fullmatch(words[n])), None)
        if at is not None:
            yield [words[at].rpartition("/")[2], *words[at + 1 :]]


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that a command line names, and the words after its name.

    Raises:
        LookupError: the program has no such command.
    """
    command: Any = programs()[words[0]]
    rest = words[1:]
    while known := getattr(command, "commands", None):
        if rest and rest[0] in known:
            command, rest = known[rest[0]], rest[1:]
        elif rest and "all" in known:  # `vfl certs CONFIG` is `vfl certs all CONFIG`
            command = known["all"]
        elif rest and rest[0] not in {opt for each in command.params for opt in each.opts}:
            raise LookupError(f"no command {rest[0]}")
        else:
            break
    return command, rest


@pytest.mark.parametrize("page", CURRENT, ids=name_of)
def test_every_command_of_a_page_can_be_parsed(page: Path) -> None:
    for words in shell_lines(page.read_text()):
        command, rest = command_of(words)
        try:
            command.make_context("vfl", rest)
        except BaseException as error:  # noqa: BLE001  Typer exits where an option is wrong
            pytest.fail(f"{' '.join(words)}: {error!r}")


@pytest.mark.parametrize("page", CURRENT, ids=name_of)
def test_every_command_that_a_sentence_names_exists(page: Path) -> None:
    for span in spans(page.read_text()):
        if PROGRAM.match(span):
            words = [word for word in span.split() if word != "…"]
            if PROGRAM.fullmatch(words[0]):
                command_of(words)


def known_options() -> set[str]:
    """All options of all commands."""
    options: set[str] = set()
    for name, program in programs().items():
        for _, command in commands(name, program):
            options |= {word for each in command.params for word in getattr(each, "opts", ())}
    return options


@pytest.mark.parametrize("page", CURRENT, ids=name_of)
def test_every_option_that_a_page_names_exists(page: Path) -> None:
    named = {
        word for span in spans(page.read_text()) for word in re.findall(r"(?<!\S)--[a-z-]+", span)
    }
    assert not named - known_options() - FOREIGN_OPTIONS


def known_keys() -> set[str]:
    """All keys of all tables, by their last two names: ``training.epochs``, and by the last one."""
    keys: set[str] = set()
    waiting, seen = [*agreements().values(), *party_settings()], set[Any]()
    waiting.append(ExperimentList)
    while waiting:
        table = waiting.pop()
        if table in seen:
            continue
        seen.add(table)
        for key, info in table.model_fields.items():
            keys.add(key)
            for inner in tables_in(info.annotation):
                keys |= {f"{key}.{each}" for each in inner.model_fields}
                waiting.append(inner)
    return keys


def named_keys(span: str) -> list[str]:
    """The keys that a code span names: ``training.overlap``, ``start = "rewind"``, ``[psi]``."""
    match = re.match(r"^\[*((?:[a-z_]+\.)*(?:[a-z_]+|NAME))\]*( = .+)?$", span)
    if not match or re.search(r"\.(toml|md|json|jsonl|py|html|csv|pem|key|csr|npz)$", span):
        return []
    names = [name for name in match[1].split(".") if name != "NAME"]
    if len(names) == 1:
        return names if match[2] or span.startswith("[") else []
    return [f"{one}.{two}" for one, two in pairwise(names)]


@pytest.mark.parametrize("page", CURRENT, ids=name_of)
def test_every_configuration_key_that_a_page_names_exists(page: Path) -> None:
    keys = known_keys() | SIMULATION_KEYS
    named = [key for span in spans(page.read_text()) for key in named_keys(span)]
    assert not {key for key in named if key not in keys and key not in OTHER_NAMES}


@pytest.mark.parametrize("page", CURRENT, ids=name_of)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """Spans such as ``psi/README.md`` and ``parties/vertical/methods/``."""
    folders = "configs|docs|models|parties|protocol|psi|tests|unlearning"
    named = {span for span in spans(page.read_text()) if re.match(rf"({folders})/[\w./-]*$", span)}
    assert not {path for path in named if not (ROOT / path).exists()}
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert (
        not {span for span in spans(page.read_text()) if re.fullmatch(r"test_\w+\.py", span)}
        - tests
    )


@pytest.mark.parametrize("name", ["vfl-party@.service", "vfl-serve@.service"])
def test_every_option_of_the_units_for_systemd_exists(name: str) -> None:
    unit = (DOCS / name).read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert set(re.findall(r"--[a-z-]+", line)) <= known_options()


@pytest.mark.slow
def test_the_generator_runs_as_a_script(tmp_path: Path) -> None:
    """``make docs`` calls the file, from any folder."""
    check = f"import runpy; runpy.run_path({str(DOCS / 'generate.py')!r}, run_name='looked at')"
    subprocess.run([sys.executable, "-c", check], cwd=tmp_path, check=True)


def test_a_test_types_the_commands_of_every_page() -> None:
    blocks = {path.relative_to(ROOT).as_posix() for path in CURRENT if "```sh" in path.read_text()}
    assert blocks == TYPED.keys()
    assert all((ROOT / test).exists() for test in TYPED.values())
