"""Audits of a request as a whole, in sentences: parties, relearning, the backdoor, what remains."""

from collections.abc import Iterator

from parties.report.comparison import Record, look
from parties.report.quantities import NOT_RUN, number, share


def audit_sentences(request: Record) -> list[str]:
    """Return what was found, and what was not run."""
    audits = request.get("audits")
    if not audits:
        return []
    return [
        *_backdoor(audits),
        *_completeness(audits),
        *_relearn(audits),
        *_inverted(audits),
        *_remains(request),
    ]


def _backdoor(audits: Record) -> Iterator[str]:
    found = audits["backdoor"]
    if found is None:
        return
    success = share(found["original_success"])
    if found["status"] == "ok":
        yield f"The original obeys the trigger on {success} of the rows: the audit is valid."
    else:
        yield f"The original obeys the trigger on {success} of the rows only: the audit is invalid."


def _completeness(audits: Record) -> Iterator[str]:
    """How much D_u is known again when one party goes back to the original's half."""
    for party, figures in (audits["completeness"] or {}).items():
        known, attack = (
            next((each["value"] for each in figures if each["name"] == name), None)
            for name in ("forgotten_accuracy", "mia_auc")
        )
        yield (
            f"With {party}’s half of the original put back: {share(known)} of the forgotten rows "
            f"right, membership attack {number(attack, 2)}."
        )
    if not audits["completeness"]:
        yield f"Completeness of parties: {NOT_RUN}."


def _relearn(audits: Record) -> Iterator[str]:
    found = audits["relearn"]
    if found is None:
        yield f"Relearn time: {NOT_RUN}."
        return
    ratio = look(found, "ratio")
    said = "undefined, as Retrain needs no step" if ratio is None else number(ratio, 2)
    yield f"Relearn time, of Retrain’s: {said} (given up after {found['cap']} steps)."


def _inverted(audits: Record) -> Iterator[str]:
    for party, found in (audits.get("reconstruction") or {}).items():
        ours, theirs = (share(found[which]["rank"], 0) for which in ("unlearned", "retrain"))
        yield (
            f"The change of {party}’s first layer fits {ours} of other rows better than the "
            f"forgotten one (chance is 50 %, 0 % gives it away); after a Retrain {theirs}."
        )


def _remains(request: Record) -> Iterator[str]:
    left = {party: places for party, places in (request.get("remains") or {}).items() if places}
    for party, places in left.items():
        yield f"After the purge {party} still finds forgotten rows in: {', '.join(places)}."
    if request.get("remains") and not left:
        yield "After the purge no party finds a forgotten row in its memory or its files."
