"""Extraction of table figures from the metrics record of a horizontal run.

Superscripts in the headings: ¹ = after the unlearning rounds, ² = after the recovery rounds.
"""

from collections.abc import Mapping
from typing import Any

from parties.experiments.bench.extract import extract_federated
from parties.experiments.bench.plan import PlannedRun, Values

MEASURES = {  # name in the blocks: heading, and name of the figure in the record
    "asr1": ("ASR¹", "unlearned_planted"),
    "right1": ("R-Acc¹", "unlearned_client_accuracy"),
    "asr2": ("ASR²", "planted"),
    "right2": ("R-Acc²", "client_accuracy"),
    "asr3": ("ASR after fine-tuning", "reverted_planted"),
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
AFTER = {"asr1": "asr2", "right1": "right2"}  # for a model without recovery stage


def extract_horizontal(_run: PlannedRun, metrics: Mapping[str, Any]) -> dict[str, Values]:
    """Return the values of each method; ``retrain`` has means over all Retrain models.

    The accuracy of a model that diverged is recorded as 0.
    """
    found = extract_federated(metrics, MEASURES)
    for each in metrics["requests"][0]["methods"]:
        if each.get("diverged"):
            found[each["name"]]["right2"] = 0.0
    for values in found.values():
        for first, second in AFTER.items():
            if first not in values and second in values:
                values[first] = values[second]
    return found
