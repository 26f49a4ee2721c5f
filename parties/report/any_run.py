"""The report of a run of any mode."""

from typing import Any

from rich.console import RenderableType

from parties.report import VERSION
from parties.report.horizontal import VERSION as HORIZONTAL_VERSION
from parties.report.horizontal.page import page as horizontal_page
from parties.report.horizontal.terminal import table as horizontal_table
from parties.report.page import page
from parties.report.terminal import table


def page_of(metrics: dict[str, Any]) -> str:
    """The report as HTML."""
    return horizontal_page(metrics) if _federated(metrics) else page(metrics)


def table_of(metrics: dict[str, Any], width: int) -> RenderableType:
    """The tables for a terminal."""
    return horizontal_table(metrics) if _federated(metrics) else table(metrics, width)


def version_of(metrics: dict[str, Any]) -> int:
    """The version of the metrics that this program reads."""
    return HORIZONTAL_VERSION if _federated(metrics) else VERSION


def _federated(metrics: dict[str, Any]) -> bool:
    run = metrics["run"]
    return isinstance(run, dict) and run.get("mode") in ("horizontal", "llm")
