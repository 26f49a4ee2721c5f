"""The Jinja templates of all pages, and the script that sorts tables.

Jinja escapes every text from a record. The content security policy of a page allows one script,
named by its digest, so a script that reached the page by another way would not run.
"""

import hashlib
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parties.report.comparison import method_title
from parties.report.model_table import (
    IMPORTANCE_TITLES,
    MOST_CLASSES,
    alone_sentence,
    confusion_caption,
    importance_rows,
    importance_sentence,
    model_lines,
    model_sentence,
)
from parties.report.quantities import (
    format_count,
    format_day,
    format_moment,
    format_number,
    format_percent,
    format_seconds,
    format_size,
)
from parties.report.sentences import left_out_sentence

_FOLDER = Path(__file__).parent


def render(template: str, **values: Any) -> str:
    """Return the page that ``template`` makes of ``values``, as one HTML document."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=format_count,
        day=format_day,
        moment=format_moment,
        number=format_number,
        seconds=format_seconds,
        share=format_percent,
        size=format_size,
    )
    script = (_FOLDER / "sort.js").read_text()
    environment.globals.update(
        alone_sentence=alone_sentence,
        confusion_caption=confusion_caption,
        importance_rows=importance_rows,
        importance_sentence=importance_sentence,
        importance_titles=IMPORTANCE_TITLES,
        left_out_sentence=left_out_sentence,
        method_title=method_title,
        model_lines=model_lines,
        model_sentence=model_sentence,
        most_classes=MOST_CLASSES,
        script=script,
        script_digest=_digest(script),
    )
    return environment


def _digest(script: str) -> str:
    """Return a script's digest in the form of a content security policy."""
    return f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
