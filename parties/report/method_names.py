"""Functions that recognise a Retrain model by its name in the record of a run."""

RETRAIN = "retrain"


def is_independent_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model with its own random initialisation."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


def is_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model (trained without the forgotten rows)."""
    return name == RETRAIN or name.startswith(f"{RETRAIN}-")
