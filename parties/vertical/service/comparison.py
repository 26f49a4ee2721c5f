"""Comparison of the model after a batch of requests with Retrains: the audit level ``full``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from configs.agreement import RowRequest
from parties.common.atomic_file import make_folder, write_atomically
from parties.common.errors import PolicyError
from parties.common.json_files import canonical_json
from parties.report import METRICS, REPORT
from parties.report.columns import FORGOTTEN_RATIO, ratio_column
from parties.report.comparison import largest_ratio, method_value, retrain_reference
from parties.report.pages.write import write_pages
from parties.report.record import Figure, Request
from parties.vertical.engine.requests import RequestRows
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.compare import compare_methods
from parties.vertical.evaluation.metrics import request_record
from parties.vertical.evaluation.outcomes import Comparison
from parties.vertical.evaluation.row_groups import select_row_groups
from parties.vertical.run_record import FinishedParts, finished_record

FOLDER = "comparisons"  # in the active party's folder
# Figures of utility whose mean over the Retrains the receipt needs: its key, and the figure.
_UTILITY = {"test_retrain": "test_accuracy", "test_r2_retrain": "test_r2"}


def compare_batch(split_model: SplitModel, receipt: str) -> tuple[Comparison, Request]:
    """Run the agreed method, the other methods and the Retrains; restore the agreed method's model.

    Call ``SplitModel.forget`` or ``SplitModel.correct`` before.

    Args:
        split_model: the model, with D_u in the row sets.
        receipt: ID of the batch's receipt.

    Raises:
        PolicyError: the agreement has no Retrains.
    """
    if not split_model.agreement.unlearning.retrains:
        raise PolicyError(
            "a comparison needs Retrains, but the agreement has unlearning.retrains = 0",
            "set unlearning.retrains to 2 or more at all parties",
        )
    nothing, rows = np.empty(0, np.int64), split_model.rows
    corrected = rows.forgotten if rows.corrects else nothing
    chosen = RequestRows(
        RowRequest(name=f"r-{receipt.lower()}", corrects=rows.corrects),
        rows.forgotten,
        canaries=nothing,
        poisoned=nothing,
        mislabelled=corrected,
        own_labels=split_model.labels[corrected].numpy(),
    )
    groups = select_row_groups(split_model, chosen, nothing)
    comparison = compare_methods(split_model, chosen.request)
    split_model.party.progress.phase("audit")
    measured = split_model.once(
        f"figures of {receipt}",
        dict,
        lambda: request_record(split_model, chosen, groups, comparison),
    )
    return comparison, Request(**measured)


def write_comparison(split_model: SplitModel, receipt: str, request: Request) -> Path:
    """Write figures and pages of a comparison; return the path of the scientist's page."""
    party = split_model.party
    now = party.now()
    parts = FinishedParts(requests=[request])
    metrics: dict[str, Any] = finished_record(split_model, now, parts, {}).plain()
    folder = party.state / FOLDER / receipt
    make_folder(folder)
    write_atomically(folder / METRICS, canonical_json(metrics))
    write_pages(folder, metrics)
    return folder / REPORT


def comparison_figures(request: Request) -> Mapping[str, str]:
    """Return the figures of a comparison for the receipt, as texts.

    The JS ratio is on the forgotten rows; ``js_ratio_limit`` is the upper end of the interval in
    which a further Retrain would lie. A number has a ratio of differences in place of the JS ratio.
    """
    ratio = method_value(request, request.chosen, FORGOTTEN_RATIO)
    at_retrain = retrain_reference(request, FORGOTTEN_RATIO)
    kind = "js_ratio" if ratio_column(request) is FORGOTTEN_RATIO else "difference_ratio"
    found = {key: _retrain_mean(request, name) for key, name in _UTILITY.items()}
    found |= {kind: ratio, f"{kind}_limit": largest_ratio(request)}
    texts = {name: f"{value:.4f}" for name, value in found.items() if value is not None}
    return texts | {"retrains": str(0 if at_retrain is None else at_retrain.seeds)}


def _retrain_mean(request: Request, name: str) -> float | None:
    """The mean of a figure over the Retrains; None if the models do not have the figure."""
    figures: tuple[Figure, ...] = next(
        each.figures for each in request.methods if each.name == request.chosen
    )
    return next((each.retrain_mean for each in figures if each.name == name), None)
