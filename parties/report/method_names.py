"""How the original and the Retrain models are named in the report and recognised by name."""

from typing import NamedTuple


class Label(NamedTuple):
    """What the report shows of a method."""

    title: str  # name in the report
    meaning: str  # what the method does, in a few words


RETRAIN, ORIGINAL = "retrain", "original"
REFERENCES = {
    ORIGINAL: Label("Original", "the trained model, before unlearning"),
    RETRAIN: Label("Retrain", "trained from scratch, without the forgotten rows"),
    "retrain-paired": Label("Retrain, paired", "the original’s seed"),
}


def retrain_names(count: int) -> list[str]:
    """Return the names of ``count`` Retrain models with random initialisations of their own."""
    return [RETRAIN if number == 1 else f"{RETRAIN}-{number}" for number in range(1, count + 1)]


def is_independent_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model with its own random initialisation."""
    return name == RETRAIN or name.removeprefix(f"{RETRAIN}-").isdigit()


def is_retrain(name: str) -> bool:
    """Return whether ``name`` names a Retrain model (trained without the forgotten rows)."""
    return name != ORIGINAL and (name in REFERENCES or is_independent_retrain(name))


def method_label(name: str, own: Label | None = None) -> Label:
    """Return what the report shows of the model ``name``, made by a method with the label ``own``.

    The original and the Retrain models have the same labels in all modes. Without ``own``, the
    model was made by a method with other settings, whose name the config gives.
    """
    if name not in REFERENCES and is_retrain(name):
        return Label(f"Retrain, {name.removeprefix(f'{RETRAIN}-')}", "another seed")
    return REFERENCES.get(name) or own or Label(name, "the same method with other settings")
