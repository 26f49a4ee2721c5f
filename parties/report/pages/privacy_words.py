"""Privacy of a run in words: the claimed ε, and the leak of labels at the worst party."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from parties.report.comparison import chosen_method
from parties.report.quantities import (
    format_count,
    format_epsilon,
    format_number,
    format_percent,
    join_words,
)
from parties.report.record import Request, RunFacts
from parties.report.sentences import NO_FORMAL_PRIVACY, privacy_claims_of

_CHANCE: Final = 0.5  # AUC of an attack that guesses
# Distances from chance up to which a leak has a name; above the last one, it has ``_ALL``.
_LEAKS: Final = ((0.05, "close to guessing"), (0.15, "a weak leak"), (0.35, "a clear leak"))
_ALL: Final = "a strong leak"


@dataclass(frozen=True, slots=True)
class PrivacyLine:
    """One line about privacy in the head of a page."""

    name: str  # what the line is about
    text: str  # the claim, or why there is none


def privacy_lines(run: RunFacts, requests: Sequence[Request]) -> list[PrivacyLine]:
    """Return the privacy claims of a run with their ε, then the leak of labels by request."""
    leaks = [(each, text) for each in requests if (text := label_leak(each))]
    several = len(leaks) > 1
    named = [
        PrivacyLine(f"Leak of labels, {each.name}" if several else "Leak of labels", text)
        for each, text in leaks
    ]
    return [*_claims(run), *named]


def _claims(run: RunFacts) -> list[PrivacyLine]:
    privacy = privacy_claims_of(run)
    if privacy is None:
        return [PrivacyLine("Privacy", f"{NO_FORMAL_PRIVACY}; no ε is claimed.")]
    bounded = [
        PrivacyLine(
            f"Privacy of the {each['covers']} of {each['party']}",
            f"(ε, δ) = ({format_epsilon(each['epsilon'])}, {each['delta']:g}).",
        )
        for each in privacy.claims
        if each["epsilon"] is not None
    ]
    open_ones = [
        f"the {each['covers']} of {each['party']}"
        for each in privacy.claims
        if each["epsilon"] is None
    ]
    if open_ones:
        text = f"{NO_FORMAL_PRIVACY}, no ε is claimed."
        bounded.append(PrivacyLine(f"Privacy of {join_words(open_ones)}", text))
    return bounded or [PrivacyLine("Privacy", f"{privacy.summary}; no ε is claimed.")]


def label_leak(request: Request) -> str:
    """Return how well the party to which most leaks infers labels of forgotten rows, in words.

    The text is empty in the federated modes, where labels stay at the clients, and if no method
    ran.
    """
    if request.rows is None or chosen_method(request) is None:
        return ""
    attack = request.audits.label_attack if request.audits else None
    if attack is None:
        return "not measured. On fitted rows the gradients usually reveal the labels."
    parties = attack.get("parties") or {"": attack}
    aucs = {
        name: max((each["cosine_auc"], each["norm_auc"]), key=_distance)
        for name, each in parties.items()
    }
    worst = max(aucs, key=lambda name: _distance(aucs[name]))
    away = _distance(aucs[worst])
    word = next((name for most, name in _LEAKS if away < most), _ALL)
    who = f"{worst}, the worst party" if worst else "the worst party"
    return (
        f"{word} to {who}. With one known label, the gradients of the request order two rows of "
        f"different labels rightly in {format_percent(_CHANCE + away, 0)} of all pairs: "
        f"{format_number(away, 2)} from guessing, where 0 is no leak and 0.5 reveals all "
        f"({format_count(attack['rows'])} rows)."
    )


def _distance(auc: float) -> float:
    """Return the distance of an AUC from chance; below chance an attack is inverted."""
    return abs(auc - _CHANCE)
