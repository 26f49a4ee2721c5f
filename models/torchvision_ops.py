"""Torchvision made importable: its pure networks beside a torch that lacks its compiled operators.

A wheel of torchvision that was built for CUDA cannot load its operators next to torch's CPU build,
and then ``import torchvision`` fails, because it describes two of them to torch without looking
whether they are there. Their names and types are all it needs; no network here ever calls them.
"""

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_ABSENT = "operator torchvision::"
DECLARED: list[torch.library.Library] = []  # kept alive: with it the declarations would go


def declare_absent() -> None:
    """Declare the operators' schemas, only if importing torchvision fails for want of them.

    Raises:
        RuntimeError: it fails for another reason.
    """
    try:
        import torchvision  # noqa: F401, PLC0415  to see whether it can be imported
    except RuntimeError as error:
        if _ABSENT not in str(error):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for schema in _SCHEMAS:
            library.define(schema)  # type: ignore[no-untyped-call]
        DECLARED.append(library)
