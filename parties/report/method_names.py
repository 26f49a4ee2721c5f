"""How the original and the Retrain models are named in the report and recognised by name."""

RETRAIN, ORIGINAL = "retrain", "original"
REFERENCES = {
    ORIGINAL: ("Original", "the trained model, before unlearning"),
    RETRAIN: ("Retrain", "trained from scratch, without the forgotten rows"),
    "retrain-paired": ("Retrain, paired", "the original’s seed"),
}


def is_independent_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model with its own random initialisation."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


def is_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model (trained without the forgotten rows)."""
    return name == RETRAIN or name.startswith(f"{RETRAIN}-")


def reference_label(name: str) -> tuple[str, str]:
    """Return the title and the meaning of the original or of a Retrain; else the name itself."""
    if name not in REFERENCES and is_retrain(name):
        return f"Retrain, {name.removeprefix(f'{RETRAIN}-')}", "another seed"
    return REFERENCES.get(name, (name, "the same method with other settings"))
