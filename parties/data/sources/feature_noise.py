"""Feature noise: Gaussian noise on one party's pixels, with the same values in every run.

In FedORA's experiments, Gaussian noise on the images of one passive party makes the data of the
parties heterogeneous. Feature noise changes pixels; it does not move rows or columns between
parties.
"""

from dataclasses import replace
from hashlib import sha256

import numpy as np

from parties.common.errors import DataError
from parties.common.shared_randomness import derive_key, normal_draws
from parties.data.sources.arrays import Array
from parties.data.sources.images import FeatureNoise
from parties.data.sources.records import Records


def add_feature_noise(records: Records, noise: FeatureNoise) -> Records:
    """Return the records with noisy pixels: x becomes min(1, max(0, x + sigma · z)).

    z is standard normal. The noise of a row depends only on the seed and the ID of the row, so the
    order and the selection of rows do not change the noise. The digest of the returned records also
    depends on the noise settings.

    Raises:
        DataError: the records have no images.
    """
    if records.images is None:
        raise DataError(
            "data.noise is set, but the data has no images",
            "remove data.noise, or use a data source with images",
        )
    shape = records.images.shape[1:]
    images = np.empty_like(records.images)
    for row, image in enumerate(records.images):
        z = _row_noise(noise.seed, records.ids[row], image.size).reshape(shape)
        images[row] = np.clip(image + noise.sigma * z, 0.0, 1.0)
    settings = f"noise {noise.sigma!r} {noise.seed}".encode()
    return replace(records, images=images, digest=sha256(records.digest + settings).digest())


def _row_noise(seed: int, identity: bytes, count: int) -> Array:
    return normal_draws(derive_key(seed, "feature noise", sha256(identity).hexdigest()), count)
