"""Matplotlib figures as inline SVG whose colours are the page's: light, dark or on paper."""

import hashlib
import html
import io
import re
from collections.abc import Callable
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colour-blind-safe palette; on the page each is a CSS variable.
BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
INK, FAINT, RULE = "#1b1e23", "#6b7178", "#d9dce0"
VARIABLES = {
    BLUE: "blue",
    VERMILLION: "vermillion",
    GREEN: "green",
    INK: "ink",
    FAINT: "faint",
    RULE: "rule",
}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "vfl",  # one document gives one page
    "text.parse_math": False,  # a name may hold a dollar sign
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": RULE,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "lines.linewidth": 2,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.borderpad": 0,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
}
NOTHING: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def drawn(
    draw: Callable[[Axes], object], description: str, left: float = 0.15, right: float = 0.03
) -> str:
    """Return what ``draw`` puts on fresh axes as an ``<svg>``; ``description`` is read aloud.

    Matplotlib knows its style only as process-wide settings; they are lent and given back.
    ``left`` and ``right`` are margins, as parts of the width.
    """
    text = io.StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.8))
        axes = figure.add_axes((left, 0.0, 1 - left - right, 1.0))
        draw(axes)
        bottom = 0.19 if axes.xaxis.get_visible() else 0.02
        top = 0.97 if axes.get_legend() is None else 0.86
        axes.set_position((left, bottom, 1 - left - right, top - bottom))
        figure.savefig(text, format="svg", metadata=NOTHING)
    return _inline(text.getvalue(), description)


def _inline(document: str, description: str) -> str:
    """Strip what only a file of its own needs, and let the page choose the colours."""
    box = re.search(r'viewBox="([^"]*)"', document)
    body = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", document, flags=re.DOTALL)
    body = body[body.index(">", body.index("<svg")) + 1 :]
    body = body.replace("xlink:href", "href").replace("<defs>\n  </defs>", "")
    for colour, name in VARIABLES.items():
        body = body.replace(colour, f"var(--{name})")
    opening = f'<svg role="img" aria-label="{html.escape(description)}" viewBox="{box and box[1]}">'
    return opening + _own_names(re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL))


def _own_names(body: str) -> str:
    """Drop names that nothing refers to, and make the others this figure's own on the page."""
    used = set(re.findall(r"#(\w+)[\")]", body))
    own = "f" + hashlib.sha256(body.encode()).hexdigest()[:8]
    body = re.sub(
        r'(?:\s)id="([\w.]+)"', lambda m: f' id="{own}-{m[1]}"' if m[1] in used else "", body
    )
    return re.sub(
        r"#(\w+)([\")])", lambda m: f"#{own}-{m[1]}{m[2]}" if m[1] in used else m[0], body
    )
