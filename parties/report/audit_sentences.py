"""Audits of a request as a whole, in sentences: what was not run, the backdoor, what remains."""

from collections.abc import Iterator

from parties.report.comparison import Record
from parties.report.quantities import NOT_RUN, share


def audit_sentences(request: Record) -> list[str]:
    """Return what was found, and what was not run."""
    audits = request.get("audits")
    if not audits:
        return []
    return [
        *_backdoor(audits),
        *_not_run(audits),
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


def _not_run(audits: Record) -> Iterator[str]:
    if not audits["completeness"]:
        yield f"Completeness of parties: {NOT_RUN}."
    if audits["relearn"] is None:
        yield f"Relearn time: {NOT_RUN}."


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
