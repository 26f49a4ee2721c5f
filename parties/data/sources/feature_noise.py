"""Feature-noise heterogeneity: Gaussian noise on the pixels of one party, the same at every start.

FedORA's experiments make the parties' data unlike each other by Gaussian noise on the images of one
passive party. It is neither label nor feature skew, hence the name.
"""

from dataclasses import replace
from hashlib import sha256

import numpy as np

from configs.party_settings import FeatureNoise
from parties.common.errors import DataError
from parties.common.shared_randomness import derive_key, normal_draws
from parties.data.sources.records import Array, Records


def add_feature_noise(records: Records, noise: FeatureNoise) -> Records:
    """The same records with pixels x → min(1, max(0, x + sigma · z)), z standard normal.

    The noise of a row comes from the seed and the row's ID, so neither the order of rows nor a
    sample of them changes it. The digest covers it.

    Raises:
        DataError: there are no images.
    """
    if records.images is None:
        raise DataError("noise on data without images", "noise goes with the images of a party")
    shape = records.images.shape[1:]
    images = np.empty_like(records.images)
    for row, image in enumerate(records.images):
        drawn = _drawn(noise.seed, records.ids[row], image.size).reshape(shape)
        images[row] = np.clip(image + noise.sigma * drawn, 0.0, 1.0)
    told = f"noise {noise.sigma!r} {noise.seed}".encode()
    return replace(records, images=images, digest=sha256(records.digest + told).digest())


def _drawn(seed: int, identity: bytes, count: int) -> Array:
    return normal_draws(derive_key(seed, "feature noise", sha256(identity).hexdigest()), count)
