"""The record of a vertical run, from which the metrics and the report are written."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from parties.common.libraries import library_versions
from parties.report.pages.passive import PassiveFacts
from parties.report.pages.privacy_words import PrivacyLine
from parties.report.record import (
    ModelFigures,
    Party,
    PeerTraffic,
    PhaseTraffic,
    Privacy,
    Request,
    RunFacts,
    RunRecord,
    Training,
    run_record,
)
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
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


def passive_facts(
    party: VerticalParty,
    state: PartyState,
    run: bytes,
    spent: PrivacySpending | None,
    purged: Sequence[str],
) -> PassiveFacts:
    """What a passive party's report shows of a run that ends now.

    Args:
        party: the party.
        state: its rows, features and part of the model.
        run: 16 bytes that identify the run.
        spent: privacy spending of embeddings that are released once; None for other embeddings.
        purged: what the party deleted at requests to forget.
    """
    agreement, traffic, ended = party.agreement, party.traffic, party.now()
    rows, model, held = state.rows, state.local_model.model, party.holding
    spending = {} if spent is None else {party.name: spent}
    claims = [each for each in privacy_claims(agreement, spending) if each.party == party.name]
    return PassiveFacts(
        party=party.name,
        active=agreement.active,
        federation=agreement.federation,
        session=run.hex(),
        agreement=party.digest.hex(),
        began=ended - timedelta(seconds=traffic.elapsed),
        ended=ended,
        seconds=traffic.elapsed,
        held_rows=len(held.ids),
        common_rows=len(state.features.rows),
        present_rows=int((state.features.rows >= 0).sum()),
        row_sets={
            "learn": len(rows.train),
            "validate": len(rows.validation),
            "test": len(rows.test),
        },
        columns=() if held.table is None else (*held.numeric, *held.categorical),
        width=agreement.parties[party.name].width or 0,
        parameters=sum(each.numel() for each in model.network.parameters()),
        embeddings=traffic.total("Embedding").rows,
        privacy=[PrivacyLine(f"Privacy of the {each.covers}", each.text) for each in claims],
        purged=purged,
        phases=[PhaseTraffic(**each) for each in traffic.by_phase()],
        peers=[PeerTraffic(**each) for each in traffic.by_peer()],
        software=library_versions(LIBRARIES) | {"python": platform.python_version()},
    )
