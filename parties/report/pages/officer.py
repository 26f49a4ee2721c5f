"""The page of a run for the officer: verdict, meaning, evidence, and what was not shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parties.report import REPORT
from parties.report.columns import is_vertical, proving_columns
from parties.report.comparison import chosen_method, original_meets
from parties.report.method_names import is_independent_retrain
from parties.report.pages.privacy_words import privacy_lines
from parties.report.pages.templates import render
from parties.report.quantities import join_words
from parties.report.record import Audits, Request, read_record
from parties.report.sentences import (
    audit_sentence,
    page_headline,
    request_sentence,
    run_sentence,
)
from parties.report.verdict import Verdict, figure_name, request_verdict
from unlearning.guarantee import Guarantee

_PROVEN = (Guarantee.EXACT, Guarantee.CERTIFIED, Guarantee.DISTANCE_CERTIFIED)
# Audits of the vertical mode that a configuration can leave out, in words.
_OPTIONAL_AUDITS = {
    "label_attack": "the label attack",
    "canaries": "planted rows with wrong labels",
    "backdoor": "a planted trigger",
    "relearn": "the relearning attack",
    "reconstruction": "the reconstruction of rows",
}


@dataclass(frozen=True, slots=True)
class OfficerSection:
    """One request on the officer's page."""

    name: str  # name of the request
    rows_sentence: str  # which rows were to be forgotten
    verdict: Verdict  # the verdict in plain words
    method: str  # title and guarantee of the delivered method; empty if none was delivered
    not_shown: Sequence[str]  # what the run does not show, as sentences
    purged: dict[str, tuple[str, ...]]  # by party or client, what it deleted


def officer_page(metrics: Any, scientist: str = REPORT) -> str:
    """Return the page of a run for the officer, as one HTML page without other files.

    ``metrics`` is the record of the run as JSON values; ``scientist`` is the name of the
    scientist's page, beside this one.

    Raises:
        DataError: ``metrics`` is no record of a run.
    """
    record = read_record(metrics)
    run = record.run
    sections = [
        OfficerSection(
            each.name,
            request_sentence(each, run),
            request_verdict(each),
            _method(each),
            not_shown(each),
            {name: items for name, items in each.purged.items() if items},
        )
        for each in record.requests
    ]
    return render(
        "officer.html",
        headline=page_headline(record),
        other_page=scientist,
        run=run,
        run_sentence=run_sentence(record),
        failure=record.failure,
        sections=sections,
        privacy_lines=privacy_lines(run, record.requests),
    )


def not_shown(request: Request) -> list[str]:
    """Return what the record of a request does not show, as sentences; most important first."""
    method = chosen_method(request)
    if method is None or (method.diverged and not method.figures):
        return ["No model of this request was examined."]
    sentences = [audit_sentence(request)]
    guarantee = method.guarantee or "none stated"
    if not any(guarantee == each.value for each in _PROVEN):
        sentences.append(
            f"The guarantee of {method.title} is “{guarantee}”: no theorem bounds the influence "
            "that the rows still have."
        )
    sentences += [*_retrain_limits(request), *_figures_without_proof(request)]
    if is_vertical(request):
        sentences.append(_audits_not_run(request.audits))
        sentences.append(_search(request))
    sentences += [f"Still depends on the forgotten rows: {each}." for each in request.kept]
    sentences.append("Backups, and copies outside the folders of the run, were not searched.")
    return [each for each in sentences if each]


def _method(request: Request) -> str:
    method = chosen_method(request)
    if method is None:
        return ""
    return f"{method.title} ({method.guarantee or 'no guarantee stated'})"


def _retrain_limits(request: Request) -> list[str]:
    """Return why the intervals are rough: they rest on a few Retrains of one run."""
    count = sum(is_independent_retrain(each.name) for each in request.methods)
    if not 2 <= count < 10:
        return []
    return [f"The intervals rest on {count} Retrains in one run; with so few they are rough."]


def _figures_without_proof(request: Request) -> list[str]:
    """Return which figures cannot show forgetting in this run."""
    columns = proving_columns(request)
    met = [figure_name(each) for each in columns if original_meets(request, each) is True]
    if not met:
        return []
    return [
        "These figures say nothing about forgetting here, because the model before the request "
        f"already had the values of a Retrain: {join_words(met)}."
    ]


def _audits_not_run(audits: Audits | None) -> str:
    missing = [
        words for name, words in _OPTIONAL_AUDITS.items() if getattr(audits, name, None) is None
    ]
    return f"Not run: {join_words(missing)}." if missing else ""


def _search(request: Request) -> str:
    """Return what the search for forgotten rows after the purge found."""
    if not request.remains:
        return "No party searched its data for the forgotten rows after the purge."
    found = [name for name, places in request.remains.items() if places]
    if not found:
        return ""
    return f"After the purge a search still found forgotten rows at {join_words(found)}."
