"""Declaration of torchvision's operators for a torch build that cannot load them.

A torchvision wheel built for CUDA cannot load its compiled operators with a CPU build of torch.
Then ``import torchvision`` fails, because torchvision registers shape functions for two operators
without checking that these operators exist. Declaring the operators' names and types is enough for
the import; no network of this project calls the operators.
"""

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_ABSENT = "operator torchvision::"
DECLARED: list[torch.library.Library] = []  # keeps the declarations alive


def declare_missing_operators() -> None:
    """Declare the operators' schemas if importing torchvision fails because of missing operators.

    Raises:
        RuntimeError: the import of torchvision fails for another reason.
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
