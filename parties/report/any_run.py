"""Report of a run in any mode: HTML page, terminal tables, and version of the metrics format."""

from typing import Any

from rich.console import RenderableType

from parties.report import page, terminal
from parties.report.horizontal import VERSION as HORIZONTAL_VERSION
from parties.report.horizontal.page import horizontal_page
from parties.report.horizontal.terminal import horizontal_table
from parties.report.record import VERSION


def report_page(metrics: dict[str, Any]) -> str:
    """Return the report as HTML."""
    return horizontal_page(metrics) if _federated(metrics) else page.report_page(metrics)


def report_tables(metrics: dict[str, Any], width: int) -> RenderableType:
    """Return the tables for a terminal of ``width`` characters."""
    return (
        horizontal_table(metrics) if _federated(metrics) else terminal.report_tables(metrics, width)
    )


def supported_version(metrics: dict[str, Any]) -> int:
    """Return the version of the metrics format that the report of this run's mode can read."""
    return HORIZONTAL_VERSION if _federated(metrics) else VERSION


def _federated(metrics: dict[str, Any]) -> bool:
    run = metrics["run"]
    return isinstance(run, dict) and run.get("mode") in ("horizontal", "llm")
