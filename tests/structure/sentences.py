"""Sentences drawn at random: of docstrings, of error messages, of help texts and pages.

``python tests/structure/sentences.py --seed 1`` prints 60 sentences without their neighbours;
``--places`` adds the file and the line of each.
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from structure.source import ROOT, Culprit, Source, read_source

EACH = 20  # sentences of docstrings, of errors, and of help texts and pages
READING = Path("docs", "house-sentences.json")  # {"seed": 1, "second_reading": ["...", ...]}
GAP = "{…}"  # a value that is known only at run time
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"])")
_ENTRY = re.compile(r"\n(?= {4}\S)")
_NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->|<[^>]+>|!\[[^\]]*\]\([^)]*\)", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*|^\s*(?:[-*>]|\d+\.)\s+")
_LIST_ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.)\s)")


def docstring_sentences(source: Source) -> Iterator[Culprit]:
    """Sentences of the docstrings of all public classes, functions and modules."""
    documented = [(path, 1, ast.get_docstring(tree)) for path, tree in source.trees.items()]
    documented += [(each.path, each.node.lineno, each.docstring) for each in source.definitions]
    for path, line, docstring in documented:
        for paragraph in (docstring or "").split("\n\n"):
            entries = _ENTRY.split(re.sub(r"^[A-Z]\w+:$", "", paragraph, flags=re.MULTILINE))
            for entry in entries:
                yield from (Culprit(path, line, "docstring", each) for each in _sentences(entry))


def error_messages(source: Source) -> Iterator[Culprit]:
    """Messages of raised exceptions, with a gap for each value; a hint follows its message."""
    for path, tree in source.trees.items():
        constants = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                texts = [_text(each, constants) for each in node.exc.args]
                if texts and texts[0] not in ("", GAP):
                    shown = " | hint: ".join(filter(None, texts))
                    yield Culprit(path, node.lineno, "error", " ".join(shown.split()))


def _constants(tree: ast.Module) -> dict[str, str]:
    """Strings that stand under a name at the top level of a module."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }


def _text(node: ast.expr, constants: Mapping[str, str] = MappingProxyType({})) -> str:
    """A string with gaps for its values; a gap alone for any other expression."""
    if isinstance(node, ast.Constant):
        return str(node.value or "")
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, constants) for part in node.values)
    return constants.get(node.id, GAP) if isinstance(node, ast.Name) else GAP


def help_texts(source: Source) -> Iterator[Culprit]:
    """Help texts of command line options and commands."""
    for path, tree in source.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "help":
                text = " ".join(_text(node.value).split())
                if text not in ("", GAP):
                    yield Culprit(path, node.value.lineno, "help", text)


def page_sentences(root: Path = ROOT) -> Iterator[Culprit]:
    """Sentences of the README and of the pages in ``docs``, without code, tables and headings."""
    for file in sorted([root / "README.md", *(root / "docs").rglob("*.md")]):
        text = _NOT_PROSE.sub(lambda found: "\n" * found[0].count("\n"), file.read_text())
        line = 1
        for paragraph in text.split("\n\n"):
            for item in _LIST_ITEM.split(paragraph):
                if not item.lstrip().startswith(("#", "|", "    ")):
                    prose = _MARKS.sub("", _LINK.sub(r"\1", item))
                    path = file.relative_to(root).as_posix()
                    yield from (Culprit(path, line, "page", each) for each in _sentences(prose))
            line += paragraph.count("\n") + 2


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a paragraph that have at least three words."""
    for sentence in _SENTENCE_END.split(" ".join(text.split())):
        if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 3:
            yield sentence


def draw(source: Source, seed: int) -> dict[str, list[Culprit]]:
    """Twenty sentences of each kind; half of the third kind are help texts, half are of pages."""
    chance = random.Random(seed)
    third = chance.sample([*help_texts(source)], EACH // 2)
    return {
        "docstrings": chance.sample([*docstring_sentences(source)], EACH),
        "errors": chance.sample([*error_messages(source)], EACH),
        "help and pages": third + chance.sample([*page_sentences()], EACH - len(third)),
    }


def main() -> None:
    """Print the sentences, numbered."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, required=True, help="number that decides the draw")
    options.add_argument("--places", action="store_true", help="add the file and the line")
    given = options.parse_args()
    number = 0
    for kind, drawn in draw(read_source(), given.seed).items():
        print(f"\n{kind}")
        for each in drawn:
            number += 1
            place = f"  ({each.path}:{each.line})" if given.places else ""
            print(f"{number:2}. {each.reason}{place}")


if __name__ == "__main__":
    main()
