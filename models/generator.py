"""A generator of images from noise, for distillation without data.

Of the lineage of ZSKT and GKT (Micaelli and Storkey 2019; Chundawat et al. 2023): a linear layer to
a quarter of the side, two doublings with convolutions of 128 and 64, and one to the channels. The
statistics of its batches are its own: it is thrown away with the distillation that it served.
"""

from collections.abc import Sequence

from torch import nn

NOISE = 100  # width of z


def generator(shape: Sequence[int]) -> nn.Module:
    """``[batch, NOISE] -> [batch, *shape]``, pixels from 0 to 1; sides are multiples of four.

    Raises:
        ValueError: they are not.
    """
    if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
        raise ValueError(f"needs images with sides of multiples of four, not {tuple(shape)}")
    channels, height, width = shape[0], shape[1] // 4, shape[2] // 4
    return nn.Sequential(
        nn.Linear(NOISE, 128 * height * width), nn.Unflatten(1, (128, height, width)),
        nn.BatchNorm2d(128, track_running_stats=False), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 128, 3, padding=1), nn.BatchNorm2d(128, track_running_stats=False),
        nn.LeakyReLU(0.2), nn.Upsample(scale_factor=2),
        nn.Conv2d(128, 64, 3, padding=1), nn.BatchNorm2d(64, track_running_stats=False),
        nn.LeakyReLU(0.2), nn.Conv2d(64, channels, 7, padding=3), nn.Sigmoid(),
    )  # fmt: skip
