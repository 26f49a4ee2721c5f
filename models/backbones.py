"""Backbones: the image networks of the literature as bottom models of one party's part of images.

ResNet (He et al., arXiv 1512.03385) and DenseNet (Huang et al., arXiv 1608.06993) as torchvision
builds them, without its weights, and with three changes:

* GroupNorm (Wu and He, arXiv 1803.08494) in place of BatchNorm, whose running statistics would
  remember forgotten rows. So there are no buffers, and no dropout either.
* A stem for small images: a 3x3 convolution and no pooling, with stride 1 up to 32 pixels and 2
  above. A party often holds only a strip of each image, and a stem made for 224 pixels would leave
  nothing of it.
* The last layer is linear and as wide as the party's embeddings.
"""

from collections.abc import Callable
from math import gcd

from torch import nn

from models.torchvision_ops import declare_absent

declare_absent()

from torchvision.models.densenet import DenseNet  # noqa: E402  needs the declarations
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet  # noqa: E402

GROUPS = 32
SMALL = 32  # pixels of the longer side up to which the stem keeps the size
_HALVINGS = 3  # of a DenseNet after its stem, each of which needs two pixels

Shape = tuple[int, int, int]  # channels, height, width


def resnet18(shape: Shape, width: int) -> nn.Module:
    """Build ``[batch, *shape] -> [batch, width]``: 18 layers in basic blocks."""
    return _resnet(ResNet(BasicBlock, [2, 2, 2, 2], num_classes=width, norm_layer=_norm), shape)


def resnet50(shape: Shape, width: int) -> nn.Module:
    """Build ``[batch, *shape] -> [batch, width]``: 50 layers in bottleneck blocks."""
    return _resnet(ResNet(Bottleneck, [3, 4, 6, 3], num_classes=width, norm_layer=_norm), shape)


def densenet121(shape: Shape, width: int) -> nn.Module:
    """Build ``[batch, *shape] -> [batch, width]``: 121 layers in four dense blocks.

    Raises:
        ValueError: a side is too short for the network's halvings.
    """
    shortest = _stride(shape) * 2**_HALVINGS
    if min(shape[1:]) < shortest:
        raise ValueError(
            f"densenet121 needs {shortest} pixels a side, and this part of the images has "
            f"{shape[1]} x {shape[2]}"
        )
    network: nn.Module = DenseNet(growth_rate=32, block_config=(6, 12, 24, 16), num_classes=width)
    features = network.get_submodule("features")
    features.conv0, features.pool0 = _stem(shape), nn.Identity()
    _replace_norms(network)
    return network


BACKBONES: dict[str, Callable[[Shape, int], nn.Module]] = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "densenet121": densenet121,
}


def _resnet(network: nn.Module, shape: Shape) -> nn.Module:
    network.conv1, network.maxpool = _stem(shape), nn.Identity()
    return network


def _stem(shape: Shape) -> nn.Module:
    """[batch, channels, h, w] → [batch, 64, h / stride, w / stride], drawn as torchvision does."""
    stem = nn.Conv2d(shape[0], 64, kernel_size=3, stride=_stride(shape), padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    return stem


def _stride(shape: Shape) -> int:
    return 1 if max(shape[1:]) <= SMALL else 2


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(gcd(GROUPS, channels), channels)


def _replace_norms(module: nn.Module) -> None:
    """Torchvision's DenseNet names BatchNorm itself, so it is exchanged where it stands."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, _norm(child.num_features))
        else:
            _replace_norms(child)
