"""What messages must cost: bytes by formula.

What they do cost is counted at the codec; tests hold the two together.
"""

from collections.abc import Mapping


def pass_payload(rows: int, width: int, itemsize: int = 4) -> int:
    """Bytes of the embeddings of ``rows`` that one party of this ``width`` sends."""
    return rows * width * itemsize


def step_payload(rows: int, width: int, itemsize: int = 4) -> int:
    """Bytes of embeddings and of their gradients, to and fro."""
    return 2 * pass_payload(rows, width, itemsize)


def fedora_payload(
    widths: Mapping[str, int], forgotten: int, retained: int, itemsize: int = 4
) -> dict[str, int]:
    """Bytes of one outer iteration by passive party: 2 · 4 · d_h (n_u + R B) (FedORA, Table II).

    ``retained`` is R B, the rows of all batches of D_r in the iteration.
    """
    return {
        name: step_payload(forgotten + retained, width, itemsize) for name, width in widths.items()
    }
