"""Titles and meanings of all methods, and how a Retrain model is recognised by its name."""

RETRAIN, ORIGINAL = "retrain", "original"
METHODS = {
    ORIGINAL: ("Original", "the trained model, before unlearning"),
    # vertical mode
    "fedora": ("FedORA", "fine-tuned under a forgetting constraint"),
    "newton-cg": ("Newton-CG", "Newton steps to the optimum of the remaining rows"),
    "sharded": ("Sharded", "shards with forgotten rows are retrained"),
    "fine-tune": ("Fine-tune", "training goes on without the forgotten rows"),
    "gradient-ascent": ("Gradient ascent", "on the loss of the forgotten rows"),
    "relabel": ("Relabel", "wrong labels for the forgotten rows"),
    "top-only": ("Top only", "a new top model; the bottom models stay"),
    "shrink-perturb": ("Shrink-perturb", "mixed with new random weights, then fine-tuned"),
    "ico-like": ("ICO-like", "one gradient subtracted; reimplemented from its description"),
    "cvfu": ("CVFU", "gradient steps on a cached sum of votes"),
    "scrub": ("SCRUB", "away from the original on forgotten rows, close to it on the others"),
    # horizontal mode
    "fedosd": ("FedOSD", "steepest direction that conflicts with no remaining client"),
    "fedforget": ("FedForget", "two teachers, with a decaying weight in the mean"),
    "federaser": ("FedEraser", "stored rounds, calibrated without the client"),
    "fedrecovery": ("FedRecovery", "the client’s part of stored rounds subtracted, with noise"),
    "mode": ("MoDe", "a degraded model mixed in, then guidance"),
    "ewc-sga": ("EWC-SGA", "gradient ascent with an elastic penalty"),
    "fu-pga": ("FU-PGA", "gradient ascent within a ball"),
    "sfu": ("SFU", "gradient ascent outside the other clients’ inputs"),
    "adaclipping-like": ("AdaClipping-like", "parameters dampened that the client needs most"),
    "mimir": ("Mimir", "data-free distillation with prompts"),
    "fedmm": ("FedMM", "error-maximising, then error-minimising noise"),
    "fedgkt": ("FedGKT", "data-free distillation with a gate"),
    "knot": ("Knot", "the client’s cluster trains again from a snapshot"),
    "noisy-fine-tune": ("Noisy fine-tune", "training goes on with clipped and noisy updates"),
    # LLM mode
    "grad-ascent": ("GradAscent", "gradient ascent on forgotten texts"),
    "grad-diff": ("GradDiff", "ascent on forgotten texts, descent on retained ones"),
    "npo": ("NPO", "forgotten answers as rejected preferences"),
    "simnpo": ("SimNPO", "NPO by length, without a reference model"),
    "rmu": ("RMU", "activations of forgotten texts steered away"),
    "primal-dual": ("Primal-dual", "forgotten answers kept at the loss of unseen ones"),
    RETRAIN: ("Retrain", "trained from scratch, without the forgotten rows"),
    "retrain-paired": ("Retrain, paired", "the original’s seed"),
}


def method_title(name: str) -> str:
    """Return the title of the method ``name``; an unknown name is returned unchanged."""
    return _title_and_meaning(name)[0]


def method_meaning(name: str) -> str:
    """Return in a few words what the method ``name`` does."""
    return _title_and_meaning(name)[1]


def is_independent_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model with its own random initialisation."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


def is_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model (trained without the forgotten rows)."""
    return name == RETRAIN or name.startswith(f"{RETRAIN}-")


def _title_and_meaning(name: str) -> tuple[str, str]:
    if name not in METHODS and is_retrain(name):
        return f"Retrain, {name.removeprefix(f'{RETRAIN}-')}", "another seed"
    return METHODS.get(name, (name, "the same method with other settings"))
