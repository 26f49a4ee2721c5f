"""Functions that recognise a Retrain by the name of the model in a run's record."""

RETRAIN = "retrain"


def is_independent_retrain(name: str) -> bool:
    """Return whether ``name`` is a Retrain with its own random initialisation."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


def is_retrain(name: str) -> bool:
    """Return whether ``name`` is any Retrain, a model trained without the forgotten rows."""
    return name == RETRAIN or name.startswith(f"{RETRAIN}-")
