"""A metrics record with realistic figures: one request on digits, with every optional part."""

import math
from typing import Any

from parties.report.record import VERSION
from parties.vertical.methods.registry import METHODS

PHASES = {
    "psi": (0.9, 214_000, 12),
    "forward": (9.8, 41_300_000, 2_040),
    "backward": (8.1, 41_300_000, 2_040),
    "unlearning": (5.2, 14_900_000, 960),
    "control": (0.3, 61_000, 480),
}


def sample() -> dict[str, Any]:
    """Return a new metrics record that a test may change."""
    traffic = [
        {"phase": phase, "seconds": seconds, "bytes": size, "messages": messages}
        for phase, (seconds, size, messages) in PHASES.items()
    ]
    return {
        "version": VERSION,
        "run": _run(),
        "training": {"stream": "original", "unit": "epoch", "steps": _epochs(), "kept": 17},
        "model": _model(),
        "requests": [_request()],
        "traffic": traffic,
        "peers": [_peer("left", 48_800_000), _peer("right", 48_975_000)],
        "failure": None,
    }


def _run() -> dict[str, Any]:
    parties = [("clinic", "active", None), ("left", "passive", 32), ("right", "passive", 32)]
    return {
        "mode": "vertical",
        "federation": "digits",
        "session": "5f0c9a41e2b74d0e",
        "agreement": "sha256:8d3b0f6f2a9e4c1d7b5a60f3e8c2d194a7b6c5d4e3f2019a8b7c6d5e4f302112",
        "seed": 1,
        "software": {"vfl": "0.1.0", "torch": "2.13.0", "numpy": "2.1.3", "python": "3.11.9"},
        "parties": [{"name": n, "role": r, "width": w, "threads": 1} for n, r, w in parties],
        "common_rows": 1534,
        "psi": {"security": "semi_honest"},
        "rows": {"learn": 1064, "validation": 163, "test": 307},
        "began": "2026-11-23T10:00:00Z",
        "ended": "2026-11-23T10:00:31Z",
        "seconds": 31.2,
        "guarantee": "heuristic",
        "privacy": {"summary": "no formal privacy", "claims": []},
    }


def _model() -> dict[str, Any]:
    classes = [str(digit) for digit in range(10)]
    right = [30, 31, 30, 28, 31, 30, 30, 29, 28, 31]
    return {
        "rows": 307,
        "auc": 0.998,
        "average_precision": 0.991,
        "log_loss": 0.112,
        "calibration_error": 0.014,
        "brier": 0.047,
        "accuracy": 0.971,
        "majority_class": "1",
        "majority_accuracy": 0.104,
        "absent": dict.fromkeys(("ks", "gini"), "defined for two classes only"),
        "confusion": {
            "classes": classes,
            "rule": "most probable",
            "threshold": None,
            "counts": [
                [count if a == b else int(b == a + 1) for b in range(10)]
                for a, count in enumerate(right)
            ],
        },
    }


def two_class_model() -> dict[str, Any]:
    """Return the figures of a model of two classes."""
    return {
        "rows": 6000,
        "auc": 0.776,
        "average_precision": 0.532,
        "ks": 0.431,
        "gini": 0.552,
        "log_loss": 0.437,
        "calibration_error": 0.011,
        "brier": 0.136,
        "accuracy": 0.818,
        "majority_class": "paid",
        "majority_accuracy": 0.779,
        "absent": {},
        "confusion": {
            "classes": ["paid", "defaulted"],
            "rule": "youden",
            "threshold": 0.2345,
            "counts": [[3717, 955], [498, 830]],
        },
        "alone": {
            "party": "bank",
            "columns": True,
            "seconds": 2.5,
            "auc": 0.741,
            "accuracy": 0.804,
            "gain_auc": {"value": 0.035, "ci95": [0.024, 0.046]},
            "gain_accuracy": {"value": 0.014, "ci95": [-0.001, 0.021]},
            "absent": None,
        },
    }


def _epochs() -> list[dict[str, float]]:
    return [
        {
            "number": k,
            "loss": 2.25 * math.exp(-k / 3.2) + 0.012 + 0.01 * math.sin(k * 2.1),
            "validation_loss": 2.2 * math.exp(-k / 3.0) + 0.11 + 0.0006 * k * k / 3,
            "validation_accuracy": 0.972 - 0.75 * math.exp(-k / 2.4) + 0.004 * math.sin(k * 1.7),
        }
        for k in range(1, 21)
    ]


def _request() -> dict[str, Any]:
    return {
        "name": "half-of-3-and-8",
        "rows": {
            "classes": ["3", "8"],
            "fraction": 0.5,
            "forgotten": 104,
            "retained": 960,
            "dropped": {"validation": 4, "test": 9},
            "canaries": 0,
        },
        "chosen": "fedora",
        "threshold": {
            "policy": "proxy",
            "gamma": -3.02,
            "scores": {"retrain": -2.91, "original": -4.41},
        },
        "methods": _methods(),
        "audit_level": "full",
        "audits": _audits(),
        "remains": {"clinic": [], "left": [], "right": []},
        "purged": {
            "clinic": ["optimiser moments", "embedding cache", "copy 'original' of the model"],
            "left": ["optimiser moments", "copy 'original' of the model"],
            "right": ["optimiser moments", "copy 'original' of the model"],
        },
        "kept": [
            "preprocessing fitted on rows that are now forgotten: retained by FedORA, "
            "refitted by Retrain",
            "the early-stopping choice and the hyper-parameters, chosen with the forgotten rows",
        ],
    }


def _iteration(k: int) -> dict[str, float]:
    rise = 1 - math.exp(-k / 7)
    steepest = 0.9 + 2.4 * min(1.0, k / 6)
    primal = 0.05 * (1.1 ** min(k, 9)) * (0.5 if k > 14 else 1.0)
    bound = 0.9 / (primal * steepest**2)
    return {
        "number": k,
        "score": -4.41 + 1.43 * rise + 0.06 * math.sin(k * 0.9) * math.exp(-k / 14),
        "multiplier": 0.62 * (1 - math.exp(-k / 5)) - 0.004 * max(0, k - 18),
        "threshold": -3.0,
        "primal_step": primal,
        "dual_step": min(0.1 * 1.1 ** min(k, 12), bound),
        "dual_bound": bound,
        "loss": 0.012 + 0.06 * rise * math.exp(-k / 30) + 0.004 * math.sin(k * 1.3),
        "gradient_norm": steepest * (0.8 + 0.15 * math.sin(k)),
        "change": 0.21 * math.exp(-k / 8) + 0.004,
        "validation_accuracy": 0.975 - 0.016 * rise + 0.003 * math.sin(k * 1.1),
    }


def _audits() -> dict[str, Any]:
    return {
        "entropy": _entropy(),
        "label_attack": {"cosine_auc": 0.993, "norm_auc": 0.612, "known_labels": 1, "rows": 104},
        "canaries": {
            "count": 200,
            "auc": {"original": 0.631, "fedora": 0.534, "retrain": 0.502},
            "ratio": {"original": 5.2, "fedora": 1.6},
            "result": "an attack cannot distinguish the planted rows from unseen rows",
        },
        "backdoor": None,
        "completeness": {"left": [_figure("forgotten_accuracy", 0.98), _figure("mia_auc", 0.58)]},
        "parameters": {"left": {"unlearned": 4.2, "original": 4.8, "ratio": 0.875}},
        "reconstruction": None,
        "relearn": {
            "cap": 100,
            "ratio": 0.25,
            "steps": {"fedora": [2, 3, 4], "retrain-paired": [10, 12, 14]},
        },
    }


def _figures(model: str) -> list[dict[str, Any]]:
    """Return the figures of the original and of FedORA; other models have none."""
    names = (
        "test_accuracy",
        "forgotten_loss",
        "mia_auc",
        "js_forgotten",
        "view_auc_left",
        "c2st_p",
    )
    values = {"original": 0.9, "fedora": 0.6}
    value = values.get(model)
    known = names if model in values else ()
    return [_figure(name, None if name == "c2st_p" else value) for name in known]


def _figure(name: str, value: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "ci95": None,
        "retrain_mean": 0.5,
        "retrain_sd": 0.05,
        "gap": None if value is None else value - 0.5,
        "gap_in_sd": None if value is None else (value - 0.5) / 0.05,
        "n": 104,
        "direction": "retrain",
        "status": "not_run" if value is None else "ok",
        "note": "evaluation.classifier_permutations is 0" if value is None else "",
    }


def _methods() -> list[dict[str, Any]]:
    rows = [
        # name, test, forgotten, retained, validation, balanced, auc, js ratios, share of cost
        ("original", (0.971, 1.0, 0.999, 0.975), (0.563, 0.611), (4.1, 1.12, 1.16), None),
        ("fedora", (0.965, 0.942, 0.991, 0.963), (0.514, 0.529), (1.3, 1.21, 1.09), 0.18),
        ("fine-tune", (0.974, 1.0, 1.0, 0.975), (0.567, 0.604), (3.8, 1.18, 1.2), 0.18),
        ("gradient-ascent", (0.821, 0.317, 0.871, 0.816), (0.421, 0.385), (9.4, 6.1, 7.3), 0.02),
        ("relabel", (0.962, 0.571, 0.996, 0.957), (0.402, 0.371), (7.9, 1.4, 1.6), 0.2),
        ("top-only", (0.967, 0.981, 0.999, 0.969), (0.541, 0.567), (2.2, 1.1, 1.05), 0.02),
        ("shrink-perturb", (0.966, 0.971, 0.998, 0.966), (0.533, 0.55), (1.9, 1.2, 1.1), 0.19),
        ("ico-like", (0.968, 0.99, 0.998, 0.97), (0.552, 0.584), (3.1, 1.3, 1.2), 0.06),
        ("retrain", (0.969, 0.933, 0.999, 0.969), (0.505, 0.512), (0.94, 0.97, 1.01), 1.0),
        ("retrain-2", (0.972, 0.942, 1.0, 0.975), (0.495, 0.507), (1.08, 1.06, 1.02), 1.0),
        ("retrain-3", (0.966, 0.923, 0.998, 0.963), (0.519, 0.521), (0.98, 0.97, 0.97), 1.0),
        ("retrain-paired", (0.969, 0.933, 0.999, 0.969), (0.51, 0.514), (0.83, 0.71, 0.78), 1.0),
    ]
    return [_method(*row) for row in rows]


def _method(
    name: str,
    accuracy: tuple[float, float, float, float],
    membership: tuple[float, float],
    ratios: tuple[float, float, float],
    share: float | None,
) -> dict[str, Any]:
    balanced, auc = membership
    known = ("test", "forgotten", "retained", "validation")
    sets, spreads = ("forgotten", "retained", "test"), (0.0094, 0.0031, 0.0058)
    return {
        "name": name,
        **(METHODS[name].label._asdict() if name in METHODS else {}),
        "guarantee": _guarantee(name),
        "figures": _figures(name),
        "steps": [_iteration(k) for k in range(40)] if name == "fedora" else [],
        "stopped": "the constraint holds and the dual has settled" if name == "fedora" else None,
        "accuracy": {**dict(zip(known, accuracy, strict=True)), "test_remaining_classes": None},
        "membership": {
            "balanced_accuracy": balanced,
            "auc": auc,
            "members": 104,
            "others": 62,
            "interval": [round(auc - 0.085, 3), round(auc + 0.083, 3)],
        },
        "divergence": {
            rows: {"js": spread * ratio, "ratio": ratio}
            for rows, spread, ratio in zip(sets, spreads, ratios, strict=True)
        },
        "cost": None if share is None else _cost(share),
    }


def _guarantee(name: str) -> str | None:
    if name == "original":
        return None
    return "exact" if name.startswith("retrain") else "heuristic"


def _cost(share: float) -> dict[str, float]:
    return {
        "seconds": 21.4 * share * 1.2,
        "rows": round(38_400 * share),
        "size": round(81_000_000 * share * 1.04),
        "rows_of_retrain": share,
        "size_of_retrain": share * 1.04 if share < 1 else 1.0,
        "seconds_of_retrain": share * 1.2 if share < 1 else 1.0,
    }


def _entropy() -> dict[str, Any]:
    return {
        "edges": [round(i * 0.115, 4) for i in range(21)],
        "original": {"forgotten": _counts(104, 0.06), "heldout": _counts(62, 0.24)},
        "fedora": {"forgotten": _counts(104, 0.34), "heldout": _counts(62, 0.33)},
        "retrain": {"forgotten": _counts(104, 0.29), "heldout": _counts(62, 0.25)},
    }


def _counts(rows: int, scale: float) -> list[int]:
    """Return 20 bins of about ``rows`` rows; the counts decrease exponentially with the entropy."""
    return [
        round(rows * (1 - math.exp(-0.115 / scale)) * math.exp(-i * 0.115 / scale))
        for i in range(20)
    ]


def _peer(name: str, size: int) -> dict[str, Any]:
    return {"peer": name, "bytes_in": size // 2, "bytes_out": size - size // 2, "messages": 2766}
