"""Extraction of table figures from the metrics record of a language model run."""

from collections.abc import Mapping
from typing import Any

from parties.experiments.bench.extract import extract_federated
from parties.experiments.bench.plan import PlannedRun, Values

MEASURES = {  # name in the blocks: heading, and name of the figure in the record
    "mu": ("MU", "model_utility"),
    "ftr": ("FTR", "forget_truth_ratio"),
    "distance": ("KS to Retrain", "forget_distance"),
    "quality": ("log10 p of KS", "forget_quality"),
    "known": ("p, forgotten", "text_probability"),
    "kept": ("p, retained", "text_retained_probability"),
    "mia": ("membership AUC", "membership_auc"),
    "nvm": ("NVM", "verbatim_memory"),
    "nkm": ("NKM", "forget_knowledge"),
    "up": ("UP", "retain_knowledge"),
    "rouge_forget": ("forget", "forget_rouge"),
    "rouge_retain": ("retain", "retain_rouge"),
    "rouge_authors": ("real authors", "real_authors_rouge"),
    "rouge_facts": ("world facts", "world_facts_rouge"),
    "p_forget": ("forget", "forget_probability"),
    "p_retain": ("retain", "retain_probability"),
    "p_authors": ("real authors", "real_authors_probability"),
    "p_facts": ("world facts", "world_facts_probability"),
    "seconds": ("seconds", ""),
}


def extract_language(_run: PlannedRun, metrics: Mapping[str, Any]) -> dict[str, Values]:
    """Return the values of each method; a model that diverged gets a model utility of 0."""
    found = extract_federated(metrics, MEASURES)
    for each in metrics["requests"][0]["methods"]:
        if each.get("diverged"):
            found[each["name"]]["mu"] = 0.0
    return found
