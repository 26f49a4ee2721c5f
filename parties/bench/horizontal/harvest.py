"""What a horizontal run says of every method: the few figures that the tables read.

Letters of FedOSD: ¹ = after the rounds that unlearn, ² = after those that recover.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from parties.bench.harvest import Values
from parties.bench.plan import Run
from parties.horizontal.evaluation.figures import RETRAIN, is_retrain

MEASURES = {  # words of the blocks: heading, and the figure that it is
    "asr1": ("ASR¹", "unlearned_planted"),
    "right1": ("R-Acc¹", "unlearned_client_accuracy"),
    "asr2": ("ASR²", "planted"),
    "right2": ("R-Acc²", "client_accuracy"),
    "asr3": ("ASR after going on", "reverted_planted"),
    "worst": ("worst client", "worst_client"),
    "conflicts": ("NC", "conflicts"),
    "stamped": ("backdoor, test rows", "stamped"),
    "test": ("test accuracy, by rows", "test_accuracy"),
    "forgotten": ("accuracy on D_u", "forgotten_accuracy"),
    "by_retained": ("D_r, by C_r", "by_client_retained"),
    "by_forgotten": ("D_f, by C_r", "by_client_forgotten"),
    "mia": ("membership AUC", "membership_auc"),
    "odds": ("distance to Retrain", "odds_to_retrain"),
    "seconds": ("seconds", ""),
}
AFTER = {"asr1": "asr2", "right1": "right2"}  # of a model that has no such stage


def harvest(_run: Run, metrics: Mapping[str, Any]) -> dict[str, Values]:
    """By method, what this run says of it; ``retrain`` is the mean of all Retrains."""
    found = {each["name"]: _values(each) for each in metrics["requests"][0]["methods"]}
    anew = [found.pop(name) for name in list(found) if is_retrain(name)]
    words = {word for each in anew for word in each}
    mean = {word: fmean(each[word] for each in anew if word in each) for word in sorted(words)}
    return found | {RETRAIN: mean}


def _values(method: Mapping[str, Any]) -> Values:
    figures = {each["name"]: each["value"] for each in method["figures"]}
    known = {word: figures.get(name) for word, (_, name) in MEASURES.items()}
    found = {word: float(value) for word, value in known.items() if value is not None}
    for first, second in AFTER.items():
        if first not in found and second in found:
            found[first] = found[second]
    if method["name"] != "original":
        found["seconds"] = float(method["seconds"])
    return found
