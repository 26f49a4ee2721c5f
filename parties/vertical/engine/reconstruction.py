"""The inversion of one party's change: does its first layer give the only forgotten row away."""

from torch import Tensor

from parties.vertical.engine.local_model import Half
from parties.vertical.engine.rows import RowSets
from protocol import vfl_pb2
from unlearning.audit.inversion import reconstruction

OTHERS = 1000  # rows that stay, with which the forgotten one is compared


def inverted(half: Half, parts: RowSets, slot: str) -> vfl_pb2.Report:
    """Compare the change from a copy with the row of D_u and with rows that stay.

    Absent figures: D_u is not one row, or the first layer does not take a whole row.
    """
    inputs = half.model.inputs
    change = _change(half, slot)
    if change is None or inputs is None or len(parts.forgotten) != 1:
        return half.report()
    rows = inputs.values.flatten(start_dim=1)
    if rows.shape[1] != change.shape[1]:
        return half.report()
    others = rows[parts.retain[:OTHERS]]
    found = reconstruction(change, rows[parts.forgotten[0]], others)
    report = half.report()
    report.cosine, report.rank = found.cosine, found.rank
    return report


def _change(half: Half, slot: str) -> Tensor | None:
    """The change of the first layer's weights, [out, in]; None for other layers and shapes."""
    pairs = zip(half.model.block, half.copy(slot), strict=True)
    found = next(((now, then) for now, then in pairs if now.dim() > 1), None)
    if found is None or found[0].dim() != 2 or found[0].shape != found[1].shape:
        return None
    return found[0].detach() - found[1]
