"""Wrong settings of privacy noise: refused with the key and the legal range."""

from pathlib import Path

import pytest
from command_trial import Trial, edited_config, make_trial


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> Trial:
    return make_trial(tmp_path, keys)


@pytest.mark.parametrize(
    "table",
    [
        "[dp]\nnoise_multiplier = 0.0",
        "[privacy]\nepsilon = 1.0\ndelta = 0.5",
        "[differential_privacy]\ndelta = 0.0",
        "[parties.shop.dp]\nepsilon = 8.0",
    ],
)
def test_unsupported_differential_privacy_is_refused_with_the_reason(
    trial: Trial, table: str
) -> None:
    result = trial.reads(edited_config("[limits]", f"{table}\n[limits]"))
    result.expect(3, "not a setting of differential privacy", "other modes have no (ε, δ)")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("embed_once = {}", "'privacy.embed_once.noise_multiplier' is missing"),
        ("embed_once = { noise_multiplier = 0.0 }", "greater than or equal to 0.05"),
        ("embed_once = { noise_multiplier = 4.0, clip = 0.0 }", "greater than 0"),
        ("embed_once = { noise_multiplier = 4.0, delta = 1.0 }", "less than 1"),
        ("embed_train = { sigma = 0.0 }", "greater than 0"),
        ("grad_noise = { sigma = 0.0 }", "greater than 0"),
        ("label_dp = { epsilon = 0.0 }", "greater than 0"),
        ("embed_once = { noise_multiplier = 4.0, sampling = 0.1 }", "unknown key"),
        (
            "embed_once = { noise_multiplier = 4.0 }\ngrad_noise = { sigma = 1.0 }",
            "remove grad_noise",
        ),
        (
            "embed_once = { noise_multiplier = 4.0 }\nembed_train = { sigma = 1.0 }",
            "remove embed_train",
        ),
    ],
)
def test_invalid_noise_settings_are_refused(trial: Trial, table: str, message: str) -> None:
    trial.reads(edited_config("[limits]", f"[privacy]\n{table}\n[limits]")).expect(3, message)
