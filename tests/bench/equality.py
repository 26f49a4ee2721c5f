"""Figures: the split model against the same model in one process, in float64."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.ledger import Row, at_most
from monolith_difference import fedora_difference, gradient_difference, training_difference


def equality() -> Iterator[Row]:
    """Compare gradients, training and FedORA."""
    with TemporaryDirectory() as folder:
        worst = gradient_difference(Path(folder))
        yield at_most("gradients of L_r and S_u, split against one process", worst, 1e-10, "")
    with TemporaryDirectory() as folder:
        steps, worst = training_difference(Path(folder))
        yield at_most(f"parameters after {steps} training steps", worst, 1e-8, "")
    with TemporaryDirectory() as folder:
        *_, worst = fedora_difference(Path(folder))
        yield at_most("parameters after 20 FedORA iterations", worst, 1e-8, "")
