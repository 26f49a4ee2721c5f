"""The record of a vertical run, from which the metrics and the report are written."""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from parties.common.libraries import library_versions
from parties.report.record import (
    ModelFigures,
    Party,
    Privacy,
    Request,
    RunFacts,
    RunRecord,
    Training,
    run_record,
)
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods.registry import vertical_method
from parties.vertical.privacy.claims import claims_summary, privacy_claims
from parties.vertical.privacy.ledger import PrivacySpending

LIBRARIES = ("vfl", "torch", "numpy", "scikit-learn", "grpcio", "protobuf", "cryptography")


@dataclass(slots=True)
class FinishedParts:
    """The parts of a run that are finished."""

    training: Training | None = None  # the record of the training
    model: ModelFigures | None = None  # figures of the trained model on test rows
    requests: list[Request] = field(default_factory=list)  # the records of the finished requests


def finished_record(
    split_model: SplitModel,
    began: datetime,
    parts: FinishedParts,
    spent: Mapping[str, PrivacySpending],
    failure: str | None = None,
) -> RunRecord:
    """The record of a run that ends now."""
    accuracy = parts.model.accuracy if parts.model else None
    run = _run_facts(split_model, began, accuracy, spent)
    traffic = split_model.party.traffic
    return run_record(run, parts.training, parts.requests, traffic, failure, parts.model)


def _run_facts(
    split_model: SplitModel,
    began: datetime,
    test_accuracy: float | None,
    spent: Mapping[str, PrivacySpending],
) -> RunFacts:
    party, rows = split_model.party, split_model.start
    agreement = party.agreement
    sizes = {"learn": rows.train, "validation": rows.validation, "test": rows.test}
    threads = {party.name: party.settings.threads}
    return RunFacts(
        mode="vertical",
        federation=agreement.federation,
        session=split_model.run.hex(),
        agreement=party.digest.hex(),
        settings=agreement.canonical(),
        seed=agreement.seed,
        software=library_versions(LIBRARIES) | {"python": platform.python_version()},
        began=began,
        ended=party.now(),
        seconds=party.traffic.elapsed,
        guarantee=vertical_method(agreement.unlearning.method).guarantee.value,
        privacy=_privacy_record(split_model, spent),
        parties=tuple(
            Party(name=name, role=each.role, width=each.width, threads=threads.get(name))
            for name, each in agreement.parties.items()
        ),
        common_rows=len(split_model.labels),
        rows={name: len(each) for name, each in sizes.items()},
        test_accuracy=test_accuracy,
        psi={"security": agreement.psi.security},
        overlap=agreement.training.overlap,
    )


def _privacy_record(split_model: SplitModel, spent: Mapping[str, PrivacySpending]) -> Privacy:
    """Privacy claims per party, with reasons."""
    claims = privacy_claims(split_model.agreement, spent)
    return Privacy(summary=claims_summary(claims), claims=tuple(asdict(each) for each in claims))
