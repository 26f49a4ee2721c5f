"""Tests of feature noise: equal in every run, of the given width, inside the legal range."""

from pathlib import Path

import numpy as np
import pytest
from reading import held, refusal

from parties.common.shared_randomness import derive_key, normal_draws
from parties.data.sources.feature_noise import add_feature_noise
from parties.data.sources.images import FeatureNoise
from parties.data.sources.records import Records
from parties.data.sources.sklearn_source import SklearnData
from parties.data.sources.source import SampleSettings

DIGITS = SklearnData(kind="sklearn", name="digits")
HERE = Path()
PINNED = [-1.347512473614073, -1.3937343662717683, 0.9135852612080453]


def noisy(sigma: float = 0.2, seed: int = 1, **changes: object) -> SklearnData:
    return DIGITS.model_copy(update={"noise": FeatureNoise(sigma=sigma, seed=seed), **changes})


def test_noise_is_the_same_at_every_start() -> None:
    first, second = held(HERE, noisy()), held(HERE, noisy())
    np.testing.assert_equal(first.images, second.images)
    assert first.digest == second.digest


def test_noise_depends_on_the_row_and_not_on_its_position() -> None:
    whole, some = (
        held(HERE, noisy()),
        held(HERE, noisy(sample=SampleSettings(fraction=0.1, seed=4))),
    )
    place = {identity: at for at, identity in enumerate(whole.ids)}
    assert whole.images is not None
    assert some.images is not None
    same = whole.images[[place[identity] for identity in some.ids]]
    np.testing.assert_equal(some.images, same)


def test_pixels_stay_legal_and_ids_stay_the_same() -> None:
    clean, noised = held(HERE, DIGITS), held(HERE, noisy(sigma=1.0))
    assert noised.images is not None
    assert (noised.images.min(), noised.images.max()) == (0.0, 1.0)
    assert list(noised.ids) == list(clean.ids)
    assert noised.digest != clean.digest


@pytest.mark.parametrize("other", [noisy(sigma=0.1), noisy(seed=2)])
def test_other_noise_is_other_data(other: SklearnData) -> None:
    one, two = held(HERE, noisy()), held(HERE, other)
    assert one.digest != two.digest
    assert not np.array_equal(one.images, two.images)  # type: ignore[arg-type]


def test_noise_has_the_configured_width_where_nothing_is_clipped() -> None:
    grey = np.full((400, 1, 5, 5), 0.5, np.float32)
    ids = [b"%d" % at for at in range(400)]
    records = Records(files=(("x", 400),), unit="row", numbers=np.arange(400), ids=ids, images=grey)
    images = add_feature_noise(records, FeatureNoise(sigma=0.05)).images
    assert images is not None
    assert images.dtype == np.float32
    # 10,000 draws: mean and deviation of the deviations are 0.0005 and 0.00035.
    assert abs(images.mean() - 0.5) < 0.0025
    assert abs(images.std() - 0.05) < 0.0018
    assert abs(np.corrcoef(images[:-1].ravel(), images[1:].ravel())[0, 1]) < 0.05


def test_noise_on_a_table_is_refused() -> None:
    wine = noisy(name="wine")
    assert "data.noise is set, but the data has no images" in refusal(HERE, wine)


def test_normal_draws_have_a_normal_distribution() -> None:
    drawn = np.sort(normal_draws(derive_key(3, "test"), 20_001))
    # Quantiles of the standard normal distribution; five standard errors of each.
    for share, quantile, error in (
        (0.5, 0.0, 0.045),
        (0.8413447, 1.0, 0.054),
        (0.0227501, -2.0, 0.1),
    ):
        assert abs(drawn[int(share * 20_001)] - quantile) < error
    assert np.isfinite(drawn).all()


def test_normal_draws_depend_on_the_key_only() -> None:
    one, two = normal_draws(derive_key(3, "test"), 5), normal_draws(derive_key(3, "test"), 5)
    np.testing.assert_equal(one, two)
    assert one.shape == (5,)
    np.testing.assert_allclose(one[:3], PINNED, rtol=1e-12)
