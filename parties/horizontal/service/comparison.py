"""Comparison of the model after a request with Retrains: the audit level ``full``."""

from pathlib import Path

from parties.common.atomic_file import make_folder, write_atomically
from parties.common.json_files import canonical_json
from parties.horizontal.party import FederatedParty
from parties.horizontal.server import federated_run_facts
from parties.horizontal.service.quick_audit import utility_means
from parties.horizontal.task import ServerTask
from parties.report import METRICS, REPORT
from parties.report.columns import Column, Unit, find_figure
from parties.report.comparison import chosen_method, method_value, retrain_reference
from parties.report.method_names import ORIGINAL, is_retrain
from parties.report.pages.write import write_pages
from parties.report.record import MethodRecord, Request, run_record

_FOLDER = "comparisons"  # folder of the server, with a folder for each receipt
# The mean distance of a model's scores of the forgotten rows from those of the Retrains.
_DISTANCE = Column("", "", ("figure", "odds_to_retrain"), unit=Unit.NUMBER, distance=True)


def retrain_figures(request: Request) -> dict[str, str]:
    """Return the figures of a comparison that the journal and the receipt get, as texts.

    ``odds_distance`` is the mean distance of the model from the Retrains on the forgotten rows,
    ``odds_distance_before`` that of the model before the request, ``odds_distance_retrain`` that of
    a Retrain from the others, and ``odds_ratio`` the quotient of the first and the last, which is
    absent if the Retrains do not differ. ``odds_ratio_limit`` is the upper end of the interval in
    which a further Retrain would lie, and needs three Retrains. The other figures are means over
    the Retrains. The result is empty if no Retrain was trained, or if all diverged.
    """
    retrains = [each for each in request.methods if _is_usable_retrain(each)]
    if not retrains or chosen_method(request) is None:
        return {}
    found = utility_means(retrains) | _attack(retrains)
    distance = method_value(request, request.chosen, _DISTANCE)
    before = method_value(request, ORIGINAL, _DISTANCE)
    reference = retrain_reference(request, _DISTANCE)
    if distance is not None and reference is not None:
        found |= {"odds_distance": distance, "odds_distance_retrain": reference.mean}
        if reference.mean > 0:
            found["odds_ratio"] = distance / reference.mean
            if reference.margin is not None:
                found["odds_ratio_limit"] = 1 + reference.margin / reference.mean
    if before is not None:
        found["odds_distance_before"] = before
    texts = {name: f"{value:.4f}" for name, value in found.items()}
    return texts | {"retrains": str(len(retrains))}


def write_retrain_comparison(
    party: FederatedParty, task: ServerTask, run: bytes, receipt: str, request: Request
) -> Path:
    """Write figures and pages of a comparison; return the path of the scientist's page.

    The histograms of single clients, which can show the scores of single forgotten rows, are not
    written: these rows are deleted.

    Args:
        party: the server.
        task: the task of the run.
        run: ID of the run, 16 bytes.
        receipt: ID of the receipt.
        request: the record of the request.

    Raises:
        StorageError: a file cannot be written.
    """
    facts = federated_run_facts(party, task, run, party.now())
    nothing = {"scores": None, "stages": None}
    methods = tuple(each.model_copy(update=nothing) for each in request.methods)
    written = request.model_copy(update={"methods": methods})
    metrics = run_record(facts, None, [written], party.traffic).plain()
    folder = party.state / _FOLDER / receipt
    make_folder(folder)
    write_atomically(folder / METRICS, canonical_json(metrics))
    write_pages(folder, metrics)
    return folder / REPORT


def _is_usable_retrain(method: MethodRecord) -> bool:
    return is_retrain(method.name) and method.diverged is None


def _attack(retrains: list[MethodRecord]) -> dict[str, float]:
    """The mean AUC over the Retrains of the attack on rows to forget and test rows."""
    figures = [find_figure(each, "membership_auc") for each in retrains]
    values = [each.value for each in figures if each is not None and each.value is not None]
    return {"membership_auc_retrain": sum(values) / len(values)} if values else {}
