"""A search over settings: one training per combination, judged on validation rows.

All trainings have the agreement's own seed, so that they have the same validation rows, and no test
row of the agreement trains or validates a model.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, Final, TypeAlias

import tomlkit
from tomlkit.exceptions import ParseError

from configs.agreement import VerticalAgreement
from configs.errors import ConfigError
from parties.common.errors import PartyError
from parties.report import METRICS
from parties.report.record import Training, read_record
from protocol.errors import ProtocolError

RATE: Final = "training.learning_rate"
# Settings that leave the rows as they are, so that all trainings have the same validation rows.
SEARCHED: Final = ("training.", "top.", "parties.")
# Settings that change what the validation loss measures, so that values under them do not compare.
MEASURES: Final = ("training.class_weights", "training.monitor", "training.sample_weights")
# Trainings with other values of these never watch the AUC.
_WITHOUT_AUC: Final = ("training.optimiser", "training.start")
# What a training alone needs. Requests and the models of single parties are left out.
_ALONE: Final = ("unlearn=[]", 'requests.keep="nothing"', "evaluation.alone=false")
# The number of a training, and the record of the run, or the error if the training failed.
Trained: TypeAlias = tuple[int, dict[str, Any] | PartyError | ProtocolError]
# Trains with each of several changes, given with a folder; yields the trainings as they end.
TrainAll: TypeAlias = Callable[[Sequence[tuple[Sequence[str], Path]]], Iterator[Trained]]


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """One combination of settings.

    Attributes:
        changes: the settings, in the form of ``--set``.
        value: validation loss of the model, or 1 - AUC (see ``watches_auc``); infinite if the
            training failed.
        failure: why the training failed; empty if it did not.
    """

    changes: tuple[str, ...]
    value: float
    failure: str = ""


def combinations(agreement: VerticalAgreement, tried: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all combinations of the settings to try, in the form of ``--set``.

    Args:
        agreement: gives the learning rate, of which a third and the triple are tried by default.
        tried: settings with a list of values each, such as ``training.batch=[64, 128]``.

    Raises:
        ConfigError: the agreement has shards; or an entry has another form, occurs twice, is no
            setting of the training, or changes what is measured on validation rows.
    """
    if agreement.sharding.shards > 1:
        raise ConfigError(
            "vfl tune compares trainings by the loss on validation rows, but sharding.shards = "
            f"{agreement.sharding.shards}, and the models of shards are not validated",
            "search without shards: set sharding.shards = 1, unlearning.retrains = 0 and another "
            "unlearning.method",
        )
    rate = agreement.training.learning_rate
    tried = tried or [f"{RATE}=[{rate / 3:.3g}, {rate:.3g}, {rate * 3:.3g}]"]
    choices = dict[str, list[str]]()
    for entry in tried:
        key, values = _entry(entry)
        _refuse_measures(agreement, key)
        if key in choices:
            raise ConfigError(f"--try names {key} twice", "write all its values into one list")
        choices[key] = [f"{key}={value}" for value in values]
    return [*product(*choices.values())]


def watches_auc(agreement: VerticalAgreement) -> bool:
    """Return whether a training watches the AUC, so that settings are ranked by 1 - AUC.

    A local start and newton-cg never stop early, whatever ``training.monitor`` says.
    """
    plan = agreement.training
    return plan.monitor == "auc" and plan.start == "random" and plan.optimiser != "newton-cg"


def _entry(entry: str) -> tuple[str, list[str]]:
    key, _, text = entry.partition("=")
    key = key.strip()
    if not key.startswith(SEARCHED):
        raise ConfigError(
            f"--try {entry}: {key or 'nothing'} is no setting of the training or the networks",
            f"name a key that begins with {', '.join(SEARCHED)}",
        )
    try:
        values = tomlkit.parse(f"values = {text}")["values"]
    except ParseError as error:
        raise ConfigError(f"--try {entry}: {error}", _FORM) from error
    if not isinstance(values, list) or not values:
        raise ConfigError(f"--try {entry}: the value is no list with entries", _FORM)
    return key, [tomlkit.item(value).as_string().strip() for value in values]


def _refuse_measures(agreement: VerticalAgreement, key: str) -> None:
    """Refuse a setting with which the figures of two trainings are not of the same measure.

    Raises:
        ConfigError: ``key`` is such a setting, or a key of its table.
    """
    auc = agreement.training.monitor == "auc"
    measures = MEASURES + (_WITHOUT_AUC if auc else ())
    name = next((each for each in measures if f"{key}.".startswith(f"{each}.")), None)
    if name is None:
        return
    what = "whether the AUC is measured" if name in _WITHOUT_AUC else "what is measured"
    raise ConfigError(
        f"--try {key}: {name} changes {what} on validation rows, so that the trainings cannot be "
        "ranked",
        "keep one value in the agreement, and try other keys"
        + (", or remove training.monitor" if name in _WITHOUT_AUC else ""),
    )


_FORM = f"write a list, such as --try '{RATE}=[0.001, 0.003]'"


def search(
    tried: Sequence[tuple[str, ...]], folder: Path, agreed: str, train: TrainAll
) -> Iterator[TriedSettings]:
    """Train with every combination; finished trainings are read from ``folder``.

    Args:
        tried: the combinations, in the form of ``--set``.
        folder: folder of the trainings.
        agreed: what the trainings depend on beside the combination, as text; part of the name of a
            training's folder.
        train: trains with changed settings, given with the folder of each training, and writes the
            record of each below its folder.

    Yields:
        The finished trainings first, then each other one when it ends.

    Raises:
        ConfigError: the training has no validation rows.
    """
    missing = list[tuple[tuple[str, ...], tuple[str, ...], Path]]()
    for changes in tried:
        wanted = (*changes, *_ALONE)
        place = folder / sha256(repr((agreed, wanted)).encode()).hexdigest()[:16]
        found = _finished(place)
        if found is None:
            missing.append((changes, wanted, place))
        else:
            yield TriedSettings(changes, _value(found))
    for number, result in train([(wanted, place) for _, wanted, place in missing]):
        changes = missing[number][0]
        if isinstance(result, dict):
            yield TriedSettings(changes, _value(result))
        else:  # such as a training that diverged
            yield TriedSettings(changes, inf, str(result))


def train_in_turn(
    train: Callable[[Sequence[str], Path], dict[str, Any]],
    jobs: Sequence[tuple[Sequence[str], Path]],
) -> Iterator[Trained]:
    """Train one after another in this process."""
    for number, (changes, folder) in enumerate(jobs):
        try:
            yield number, train(changes, folder)
        except (PartyError, ProtocolError) as error:
            yield number, error


def _finished(folder: Path) -> dict[str, Any] | None:
    """The record of a finished training; None if there is none."""
    path = next(folder.glob(f"*/{METRICS}"), None)
    return None if path is None else json.loads(path.read_bytes())


def _value(metrics: Mapping[str, Any]) -> float:
    training = read_record(metrics).training
    found = None if training is None else delivered_value(training)
    if found is None:
        raise ConfigError(
            "the training has no validation rows, by which settings could be chosen",
            "set split.validation to a share such as 0.1",
        )
    return found


def delivered_value(training: Training) -> float | None:
    """Return the validation loss, or 1 - AUC, of the model that a training delivers.

    It is that of the kept epoch if the training can stop early, else that of the last one; None
    without validation rows.
    """
    step = training.steps[-1 if training.kept is None else training.kept - 1]
    return step.validation_loss if step.validation_auc is None else 1 - step.validation_auc
