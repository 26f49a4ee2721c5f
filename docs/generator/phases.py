"""The diagrams of protocol/README.md, which show the phase table."""

from collections.abc import Mapping, Sequence
from typing import Any

from generator.markdown import with_generated
from protocol.phases import TRANSITIONS, Phase

DIAGRAMS = {  # title of each diagram, and the phase from which its phases are reached
    "Handshake and intersection": "JOINING",
    "Vertical learning": "READY",
    "Horizontal learning": "LOADED",
}


def protocol_page(text: str) -> str:
    """The text of protocol/README.md with its generated diagrams as they should be."""
    starts = {title: Phase[name] for title, name in DIAGRAMS.items()}
    owner = {}  # a phase belongs to the last diagram whose start leads to it
    for title, start in starts.items():
        owner.update(dict.fromkeys(reachable(TRANSITIONS, start), title))
    lines = []
    for title in starts:
        edges = [
            (phase, after, kinds)
            for phase, moves in TRANSITIONS.items()
            for after, kinds in edges_of(moves).items()
            if title == owner[phase if after is Phase.CLOSED else after]
        ]
        lines += [f"**{title}**\n", "```mermaid", *state_diagram(edges), "```\n"]
    return with_generated(text, [*lines[:-1], "```"])


def reachable(table: Mapping[Any, Mapping[Any, Any]], start: Any) -> set[Any]:
    """The phases to which a phase leads, itself included."""
    found, fresh = {start}, [start]
    while fresh:
        new = set(table[fresh.pop()].values()) - found
        found |= new
        fresh += new
    return found


def edges_of(moves: Mapping[Any, Any]) -> dict[Any, list[str]]:
    """The messages that lead to each next phase, without Abort, with their senders."""
    found: dict[Any, list[str]] = {}
    for (side, kind), after in moves.items():
        if kind.__name__ != "Abort":
            found.setdefault(after, []).append(f"{side.value} {kind.__name__}")
    return found


def state_diagram(edges: Sequence[tuple[Any, Any, Sequence[str]]]) -> list[str]:
    """A state diagram in Mermaid; an edge is a phase, the next phase and the messages between."""
    shown = dict.fromkeys(each for before, after, _ in edges for each in (before, after))
    return [
        "stateDiagram-v2",
        *(f'    state "{each.value}" as {each.name}' for each in shown),
        *(f"    {a.name} --> {b.name}: {'<br>'.join(kinds)}" for a, b, kinds in edges),
    ]
