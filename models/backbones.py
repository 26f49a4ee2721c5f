"""Backbones: ResNet and DenseNet as bottom models for one party's part of the images.

ResNet (He et al., arXiv 1512.03385) and DenseNet (Huang et al., arXiv 1608.06993) are built by
torchvision, without torchvision's trained weights, and with three changes:

* GroupNorm (Wu and He, arXiv 1803.08494) replaces BatchNorm, because after unlearning the running
  statistics of BatchNorm would still depend on the forgotten rows. The networks have neither
  buffers nor dropout.
* The first layers (the stem) are for small images: a 3x3 convolution without pooling, with stride 1
  for images of up to 32 pixels and stride 2 for larger ones. A party often holds only a strip of
  each image, and a stem for images of 224 pixels would leave too few pixels of such a strip.
* The last layer is linear; its width is the width of the party's embeddings.
"""

from collections.abc import Callable
from math import gcd

from torch import nn

from models.torchvision_ops import declare_missing_operators

declare_missing_operators()

from torchvision.models.densenet import DenseNet  # noqa: E402  needs the declarations
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet  # noqa: E402

GROUPS = 32
SMALL_IMAGE = 32  # pixels of the longer side; up to this size the stem has stride 1
_HALVINGS = 3  # of a DenseNet after its stem; each halving needs two pixels

Shape = tuple[int, int, int]  # channels, height, width


def resnet18(shape: Shape, width: int) -> nn.Module:
    """Return a ResNet of 18 layers in basic blocks, ``[batch, *shape] -> [batch, width]``."""
    return _resnet(ResNet(BasicBlock, [2, 2, 2, 2], num_classes=width, norm_layer=_norm), shape)


def resnet50(shape: Shape, width: int) -> nn.Module:
    """Return a ResNet of 50 layers in bottleneck blocks, ``[batch, *shape] -> [batch, width]``."""
    return _resnet(ResNet(Bottleneck, [3, 4, 6, 3], num_classes=width, norm_layer=_norm), shape)


def densenet121(shape: Shape, width: int) -> nn.Module:
    """Return a DenseNet of 121 layers in four dense blocks, ``[batch, *shape] -> [batch, width]``.

    Raises:
        ValueError: a side of the images is too short to be halved by every stage of the network.
    """
    shortest = _stride(shape) * 2**_HALVINGS
    if min(shape[1:]) < shortest:
        raise ValueError(
            f"densenet121 needs images with at least {shortest} pixels per side (this party's "
            f"images have {shape[1]} x {shape[2]} pixels); use a ResNet"
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
    """Return the first convolution, initialised as in torchvision, to 64 channels."""
    stem = nn.Conv2d(shape[0], 64, kernel_size=3, stride=_stride(shape), padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    return stem


def _stride(shape: Shape) -> int:
    return 1 if max(shape[1:]) <= SMALL_IMAGE else 2


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(gcd(GROUPS, channels), channels)


def _replace_norms(module: nn.Module) -> None:
    """Replace BatchNorm by GroupNorm in place: torchvision's DenseNet takes no norm argument."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, _norm(child.num_features))
        else:
            _replace_norms(child)
