"""Generator of images from noise, for data-free distillation.

The architecture is that of ZSKT and GKT (Micaelli and Storkey 2019; Chundawat et al. 2023). A
linear layer gives an image whose sides are a quarter of the final sides. Each of two upsampling
layers doubles the sides; the convolutions after these layers have 128 and 64 channels. The last
convolution gives the channels of the image. BatchNorm is allowed in the generator, because
BatchNorm here uses only the statistics of the batch, and because the generator is deleted after the
distillation.
"""

from collections.abc import Sequence

from torch import nn

NOISE = 100  # width of the noise z


def image_generator(shape: Sequence[int]) -> nn.Module:
    """Return a generator ``[batch, NOISE] -> [batch, *shape]`` with pixels from 0 to 1.

    Raises:
        ValueError: ``shape`` is not ``[channels, height, width]`` with sides that are multiples of
            4.
    """
    if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
        raise ValueError(
            "the generator needs images [channels, height, width] whose sides are multiples of "
            f"four (got {tuple(shape)})"
        )
    channels, height, width = shape[0], shape[1] // 4, shape[2] // 4
    return nn.Sequential(
        nn.Linear(NOISE, 128 * height * width), nn.Unflatten(1, (128, height, width)),
        nn.BatchNorm2d(128, track_running_stats=False), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 128, 3, padding=1), nn.BatchNorm2d(128, track_running_stats=False),
        nn.LeakyReLU(0.2), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 64, 3, padding=1), nn.BatchNorm2d(64, track_running_stats=False),
        nn.LeakyReLU(0.2), nn.Conv2d(64, channels, 7, padding=3), nn.Sigmoid(),
    )  # fmt: skip
