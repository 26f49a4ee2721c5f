"""Names of the models in a run's record, and the tests for Retrain among them."""

RETRAIN = "retrain"


def is_independent_retrain(name: str) -> bool:
    """Return whether ``name`` is a Retrain with a random start of its own."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


def is_retrain(name: str) -> bool:
    """Return whether a model of this name never saw the forgotten rows, in any horizontal mode."""
    return name == RETRAIN or name.startswith(f"{RETRAIN}-")
