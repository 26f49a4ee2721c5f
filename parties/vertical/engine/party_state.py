"""The state of one party after alignment: rows, features and local model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from configs.agreement import BackboneBottom, CnnBottom, PartyEntry, VerticalAgreement
from configs.local_start import LocalStartSettings
from models.codes import patch_codes, projection_codes, svd_codes
from parties.common.device import embed
from parties.common.errors import DataError, PolicyError
from parties.common.json_codec import Tensors
from parties.common.shared_randomness import Index, Words, torch_seed
from parties.data.preprocess import read_statistics
from parties.session.checkpoint import CheckpointContent
from parties.vertical.engine.features import (
    BackdoorTrigger,
    ModelInputs,
    PartyFeatures,
    make_trigger,
    planned_backdoor,
)
from parties.vertical.engine.local_model import (
    EARLY_CHECKPOINT,
    ORIGINAL,
    LocalModel,
    PartyNetwork,
)
from parties.vertical.engine.networks import ActiveNetwork, KeptPart
from parties.vertical.engine.optimiser import UpdateRule, flat_then_cosine
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.rows import Batches, RowSets, Sample
from protocol import vfl_pb2
from protocol.dataclass_codec import decode
from protocol.errors import RemoteProtocolError
from unlearning.audit.reconstruction import reconstruction_quality
from unlearning.sharding import shard_of

# Builds a fresh network for a random stream and features.
NetworkBuilder = Callable[[str, ModelInputs | None], nn.Module]
COMPARED_ROWS = 1000  # rows of D_r with which the forgotten row is compared
READ_ROWS = 1024  # rows of a batch in which a copy computes embeddings
# Steps of one command of a local fit: a party answers after at most so many steps. A step of a
# perceptron takes milliseconds.
FIT_STEPS, PERCEPTRON_STEPS = 16, 64


@dataclass(frozen=True, slots=True)
class LocalFit:
    """The fit of a bottom model to codes."""

    # Kind of the codes. trained: the embeddings of the original model.
    codes: Literal["auto", "svd", "patches", "projection", "trained"]
    epochs: int  # epochs over the rows of the fit
    batch: int  # rows of a step

    @classmethod
    def agreed(
        cls, plan: LocalStartSettings, agreement: VerticalAgreement, rows: int
    ) -> "LocalFit | None":
        """The fit on ``rows`` rows by these settings; None if the bottom models are fixed."""
        if plan.codes == "fixed":
            return None
        return cls(plan.codes, plan.epochs_of_fit(rows), agreement.training.batch)

    def steps_of_epoch(self, rows: int) -> int:
        """The number of steps of one epoch over ``rows`` rows."""
        return ceil(rows / self.batch)

    def steps(self, rows: int) -> int:
        """The number of steps of the whole fit on ``rows`` rows."""
        return self.epochs * self.steps_of_epoch(rows)

    def code(self, features: Tensor, party: PartyEntry, seed: int) -> Tensor:
        """The codes of ``features``, [rows, ...], of ``party``: [rows, width of the party]."""
        width = party.width or 0
        if self.codes == "projection":
            return projection_codes(features, width, seed)
        convolutional = isinstance(party.bottom, CnnBottom | BackboneBottom)
        patches = self.codes == "patches" or (self.codes == "auto" and convolutional)
        return (patch_codes if patches else svd_codes)(features, width, seed)


def fit_steps(agreement: VerticalAgreement) -> int:
    """The largest number of steps of one command of a local fit, equal for all parties."""
    return PERCEPTRON_STEPS if agreement.only_perceptrons else FIT_STEPS


def code_seed(agreement: VerticalAgreement, stream: str, party: str) -> int:
    """The seed of a party's codes, for the random stream of the model's weights."""
    return torch_seed(agreement.seed, "codes", stream, party)


class PartyState:
    """Everything that a run changes at one party: row numbers, row sets, features and local model.

    All parties apply the same changes to their states.

    Attributes:
        features: the features of the common rows.
        batches: divides each row set into batches.
        local_model: the party's part of the model.
        requested_rows: [rows], the common rows of the current request.
        unpurged: whether the current request has not been purged.
        uses_kept: whether the training started from this party's part of a kept version.
    """

    def __init__(
        self,
        party: VerticalParty,
        rows: Index,
        build: NetworkBuilder,
        sets: RowSets | None,
        parts: NDArray[np.uint8] | None = None,
    ) -> None:
        """Create the state for the common ``rows``, [common_rows], the party's own row numbers.

        ``build`` builds a fresh network for a random stream and features. The row sets are
        ``sets``, or are computed from the row IDs if ``sets`` is None. ``parts``, [common_rows],
        are the parts of a split by time; None for other splits.
        """
        self._party, self._build = party, build
        self.features = PartyFeatures(party, rows)
        self._rows = sets or self.features.split(parts)
        self._words: Words | None = None
        self._shard: int | None = None
        self.batches = Batches(self._rows, "")
        self.local_model = LocalModel(party.agreement, party.name, party.entropy)
        self.requested_rows = np.empty(0, np.int64)
        self.unpurged = False
        self.uses_kept = False

    @property
    def rows(self) -> RowSets:
        """The training, validation, test and forgotten rows of this party."""
        return self._rows

    @property
    def shards(self) -> Index:
        """For each common row, the number of its shard: [common_rows]."""
        return shard_of(self._row_words(), self._party.agreement.sharding.shards)

    def execute(
        self, command: vfl_pb2.ModelCommand, task: vfl_pb2.Task
    ) -> vfl_pb2.BlockReport | None:
        """Carry out a command of the active party.

        Raises ``NoCopy``, ``LookupError`` and ``RemoteProtocolError`` for the reasons that
        ``LocalModel.execute`` lists.
        """
        match command.WhichOneof("command"):
            case "initialise":
                self._initialise(command.initialise, task)
                return None
            case "shrink":
                self._shrink(command.shrink)
                return None
            case "fit_bottom":
                self._fit_bottom(command.fit_bottom)
                return None
            case "test_reconstruction":
                return reconstruction_report(
                    self.local_model, self.rows, command.test_reconstruction.slot
                )
            case "restore_copy":
                restored = command.restore_copy
                self.use_stream(restored.stream, sample=_sample(restored))
        return self.local_model.execute(command, task)

    def plant_trigger(self, rows: Index) -> None:
        """Plant the agreed trigger in training ``rows``, [rows].

        Features that are computed later contain the trigger.

        Raises:
            RemoteProtocolError: the party plants no backdoor, or a row is not a training row.
            DataError: the agreed columns are not numeric columns of this party.
        """
        if not np.isin(rows, self.rows.train).all():
            raise RemoteProtocolError(
                "the active party requests a trigger in rows that are not training rows"
            )
        holding, learn = self._party.holding, self.features.rows[self.rows.train]
        plan = planned_backdoor(self._party.agreement, self._party.name)
        self.features.trigger = make_trigger(plan, holding, learn, rows)

    @property
    def trigger(self) -> BackdoorTrigger | None:
        """The trigger that this party plants; None if this party plants no trigger."""
        return self.features.trigger

    def batch_features(self, request: vfl_pb2.BatchRequest) -> torch.Tensor:
        """The features of one batch, [batch, ...].

        Raises:
            LookupError: the party has no features.
            RemoteProtocolError: the batch is beyond the end of the row set.
        """
        (batch,) = self.batch_parts(request, request.size)
        return batch

    def batch_parts(self, request: vfl_pb2.BatchRequest, most: int) -> Iterator[torch.Tensor]:
        """The features of one batch in parts of at most ``most`` rows, [part, ...] each.

        Raises:
            LookupError: the party has no features.
            RemoteProtocolError: the batch is beyond the end of the row set.
        """
        for rows in torch.split(torch.from_numpy(self.batches.rows_of(request)), most):
            yield self._features(request, rows)

    def _features(self, request: vfl_pb2.BatchRequest, rows: torch.Tensor) -> torch.Tensor:
        """The features, [rows, ...], of some ``rows``, [rows], of a batch."""
        model = self.local_model.model
        if model.inputs is None:
            raise LookupError("this party has no features")
        batch = model.inputs.values.index_select(0, rows)
        if request.rows == vfl_pb2.TRIGGERED and self.trigger is not None:
            return self.trigger.stamp(batch, model.inputs.fitted)
        return batch

    @property
    def batch_order(self) -> tuple[str, int | None, Sample | None]:
        """The arguments of the last ``use_stream``."""
        return self.batches.stream, self._shard, self._rows.sample

    def use_stream(
        self, stream: str, shard: int | None = None, sample: Sample | None = None
    ) -> None:
        """Use the random stream ``stream`` for the row order of later batches.

        Args:
            stream: random stream of the batch order.
            shard: later batches contain only rows of this shard; None for all rows.
            sample: the row set ``SAMPLE``; None: it has no rows.
        """
        self._rows, self._shard = replace(self._rows, stream=stream, sample=sample), shard
        if shard is None:
            self.batches = Batches(self._rows, stream)
            return
        members = np.flatnonzero(self.shards == shard)
        self.batches = Batches(self._rows.restricted(members), stream, self._row_words())

    def reset_rows(self, start: RowSets) -> None:
        """Reset the row sets to ``start``, the run's initial sets, before results are replayed."""
        self._set_rows(start, "")

    def forget(self, requested: Index, *, corrects: bool = False) -> None:
        """Start a request: the training rows among ``requested``, [rows], become D_u.

        If the request ``corrects`` labels, D_u stays in D_r.
        """
        self.requested_rows, self.unpurged = requested, True
        self._set_rows(self.rows.forget(requested, corrects=corrects), self.batches.stream)

    def without_forgotten(self) -> None:
        """End a request: D_u leaves the row sets, or D_r if its labels were corrected."""
        self.unpurged = False
        self._set_rows(self.rows.without_forgotten(), self.batches.stream)
        self._words = None

    def purge(self) -> list[str]:
        """Delete all state that depends on forgotten rows, except for the current model.

        Rows whose labels were corrected stay.

        Returns:
            Descriptions of the deleted state, for the report.
        """
        # The early checkpoint depends on no row outside training.
        gone = self.local_model.purge(() if len(self.rows.forgotten) else (EARLY_CHECKPOINT,))
        if self.rows.corrects:
            self.requested_rows = np.empty(0, np.int64)  # they stay
        else:
            gone += ["rows that bore the trigger"] if self.trigger else []
            self.features.forget(self.requested_rows, self.inputs_in_use)
        self.without_forgotten()
        return gone

    @property
    def inputs_in_use(self) -> list[ModelInputs]:
        """The input features that belong to the current model and to the kept copies of models."""
        return [model.inputs for model in self.local_model.models if model.inputs]

    def content(self, *, identified: bool = False) -> CheckpointContent:
        """The state of this party as the content of a checkpoint.

        If ``identified`` is true, the content has the IDs of the rows, so that it can be loaded
        when the party's data has rows in other places, or more rows.
        """
        model = self.local_model.content()
        rows = {name: _tensor(part) for name, part in self.rows.arrays().items()}
        rows |= {"map": _tensor(self.features.rows), "dropped": _tensor(self.requested_rows)}
        values = model.values | {"stream": self.batches.stream, "shard": self._shard}
        values |= {"uses kept": self.uses_kept, "corrects": self.rows.corrects}
        values["unpurged"] = self.unpurged
        sample = self.rows.sample
        values["sample"] = sample and [sample.stream, sample.share]
        values["trigger"] = None
        if self.trigger is not None:
            rows["stamped"] = _tensor(self.trigger.rows)
            values["trigger"] = self.trigger.values()
        ids = {"ids": pack_ids(self.features.ids())} if identified else {}
        return CheckpointContent(values, model.tensors | {"rows": rows} | ids)

    @classmethod
    def from_content(
        cls, party: VerticalParty, content: CheckpointContent, build: NetworkBuilder
    ) -> "PartyState":
        """The state of ``party``, restored from the content of a checkpoint.

        Raises:
            DataError: the content has the IDs of its rows, and the party's data lacks some.
        """
        rows = content.tensors["rows"]
        arrays = {name: part.numpy() for name, part in rows.items()}
        row_map, requested = arrays.pop("map"), arrays.pop("dropped")
        if "ids" in content.tensors:
            row_map = _rows_of(party, unpack_ids(content.tensors["ids"]))
        stamped = arrays.pop("stamped", None)
        sets = RowSets(seed=party.agreement.seed, stream="", **arrays)  # type: ignore[arg-type]
        sets = replace(sets, corrects=content.values.get("corrects", False))
        state = cls(party, row_map, build, sets)
        state.requested_rows = requested
        state.unpurged = content.values.get("unpurged", bool(len(sets.forgotten)))
        state.uses_kept = content.values.get("uses kept", False)
        if stamped is not None:
            state.features.trigger = BackdoorTrigger(stamped, **content.values["trigger"])
        sample = content.values["sample"] and Sample(*content.values["sample"])
        state.use_stream(content.values["stream"], content.values["shard"], sample)
        state.local_model.load(content, state._build_model)
        return state

    def _initialise(self, fresh: vfl_pb2.Initialise, task: vfl_pb2.Task) -> None:
        shard = fresh.shard if fresh.HasField("shard") else None
        # The stream draws the rows of a shadow model.
        self.use_stream(fresh.stream, shard, _sample(fresh))
        rule = decode(fresh.rule, UpdateRule) if fresh.HasField("rule") else None
        base = self._party.base
        uses_kept = fresh.from_kept and base is not None and base.used(self.features.ids())
        if fresh.preprocessing_rows == vfl_pb2.TRAIN_ROWS:
            self.uses_kept = uses_kept
        if uses_kept and base is not None:
            network = self._kept_network(base)
        else:
            inputs = (
                self.features.fit(self.rows, fresh.preprocessing_rows)
                if self.features.present
                else None
            )
            network = PartyNetwork(self._build(fresh.stream, inputs), inputs)
        self.local_model.initialise(network, task, rule, fresh=not uses_kept)

    def _refuse_other_ranks(self, base: KeptPart, found: PartyNetwork) -> None:
        party = self._party
        if found.inputs is None or party.settings.statistics or not party.holding.numeric:
            return
        ranks = found.inputs.fitted.has_ranks
        if ranks != party.holding.ranks:
            raise PolicyError(
                f"{base} has {'' if ranks else 'no '}ranks of numbers, but the party settings have "
                f"ranks = {str(not ranks).lower()}",
                f"set ranks = {str(ranks).lower()} in [data], or train again without --from",
            )

    def _kept_network(self, base: KeptPart) -> PartyNetwork:
        """The network and the preprocessing of a kept version.

        Raises:
            PolicyError: the split or the declared preprocessing is another one.
        """
        ids, learns = self.features.ids(), set(self.rows.train.tolist())
        if any(each in base.trained for row, each in enumerate(ids) if row not in learns):
            raise PolicyError(
                f"rows that {base} was trained with are not training rows any more",
                "use the split and the seed of that version, or train again without --from",
            )
        found = self._build_model(base.statistics)
        self._refuse_other_ranks(base, found)
        if self._party.agreement.preprocessing == "declared" and found.inputs is not None:
            declared = self.features.fit(self.rows, vfl_pb2.TRAIN_ROWS).fitted.statistics()
            if declared != base.statistics:
                raise PolicyError(
                    f"the declared ranges or categories are not those of {base}",
                    "declare those of that version, or train again without --from",
                )
        plan = self._party.agreement.feature_parties
        widths = {name: each.width or 0 for name, each in plan.items()}
        found.network.load_state_dict(base.fitted_to(widths))
        return found

    def _fit_bottom(self, order: vfl_pb2.FitBottom) -> None:
        """Take the next steps of the local fit.

        A party without features has no bottom model. In a training that goes on from a kept
        version, only a new party fits one.
        """
        if self.uses_kept and order.rows == vfl_pb2.TRAIN_ROWS:
            return
        model, fit = self.local_model, decode(order.fit, LocalFit)
        inputs, network = model.model.inputs, model.model.network
        bottom = bottom_of(network)
        if inputs is None or bottom is None:
            return
        rows = self.rows.select(order.rows)
        codes = model.codes(lambda: self._codes(inputs, rows, fit))
        per_epoch, whole = fit.steps_of_epoch(len(rows)), fit.steps(len(rows))
        for step in range(model.task.fitted, model.task.fitted + order.steps):
            request = vfl_pb2.BatchRequest(
                rows=order.rows,
                order=vfl_pb2.SHUFFLED,
                epoch=1 + step // per_epoch,
                size=fit.batch,
                index=step % per_epoch,
            )
            targets = codes[np.searchsorted(rows, self.batches.rows_of(request))]
            embeddings = embed(bottom, self.batch_features(request))
            model.fit_step(embeddings, targets, flat_then_cosine(step, whole))

    def _codes(self, inputs: ModelInputs, rows: Index, fit: LocalFit) -> Tensor:
        """The codes, [rows, width], of this party's ``rows``, [rows]."""
        if fit.codes == "trained":
            return self.local_model.read_copy(ORIGINAL, partial(_embeddings, rows=rows))
        agreement, name = self._party.agreement, self._party.name
        seed = code_seed(agreement, self.batches.stream, name)
        return fit.code(inputs.values[torch.from_numpy(rows)], agreement.parties[name], seed)

    def _set_rows(self, rows: RowSets, stream: str) -> None:
        self._rows = rows
        self.use_stream(stream, self._shard, rows.sample)

    def _row_words(self) -> Words:
        """64 random bits for each row ID, [common_rows]."""
        if self._words is None:
            self._words = self.features.row_words()
        return self._words

    def _shrink(self, shrink: vfl_pb2.Shrink) -> None:
        """Move the local model towards a fresh one; only the active party has a top model."""
        model = self.local_model.model
        fresh = PartyNetwork(self._build(shrink.stream, model.inputs), model.inputs)
        names = [name for name, each in model.network.named_parameters() if each.requires_grad]
        shares = {False: shrink.bottom, True: shrink.top}
        top = isinstance(model.network, ActiveNetwork)
        self.local_model.shrink(
            fresh.block, [shares[top and name.startswith("top.")] for name in names]
        )

    def _build_model(self, statistics: object) -> PartyNetwork:
        """A network with given statistics; its weights will be loaded from a checkpoint."""
        inputs = None if statistics is None else self.features.inputs(read_statistics(statistics))
        return PartyNetwork(self._build("", inputs), inputs)


def _embeddings(model: PartyNetwork, rows: Index) -> Tensor:
    """The embeddings of ``rows``, [rows]: [rows, width].

    Raises:
        LookupError: the model has no bottom model.
    """
    bottom = bottom_of(model.network)
    if model.inputs is None or bottom is None:
        raise LookupError("the model has no bottom model")
    parts = torch.split(torch.from_numpy(rows), READ_ROWS)
    return torch.cat([embed(bottom, model.inputs.values.index_select(0, part)) for part in parts])


def bottom_of(network: nn.Module) -> nn.Module | None:
    """The bottom model in a party's network; None if the active party has no features."""
    return network.bottom if isinstance(network, ActiveNetwork) else network


def pack_ids(ids: Sequence[bytes]) -> Tensors:
    """IDs as tensors: the bytes of all IDs, [bytes], and the size of each ID, [ids]."""
    joined = np.frombuffer(b"".join(ids), np.uint8).copy()
    sizes = torch.tensor([len(each) for each in ids], dtype=torch.int64)
    return {"bytes": torch.from_numpy(joined), "sizes": sizes}


def unpack_ids(packed: Tensors) -> list[bytes]:
    """The IDs in ``packed``, from ``pack_ids``: [bytes] and [ids]; empty for erased rows."""
    joined, ends = packed["bytes"].numpy().tobytes(), packed["sizes"].cumsum(0).tolist()
    return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _rows_of(party: VerticalParty, ids: Sequence[bytes]) -> Index:
    """The party's own row number of each ID, [common_rows]; -1 for erased rows."""
    place = {each: row for row, each in enumerate(party.holding.ids)}
    missing = sum(1 for each in ids if each and each not in place)
    if missing:
        raise DataError(
            f"{missing} of the rows that the kept model knows are not in the data any more",
            "keep a row in the data until a request to forget it is carried out: restore the rows, "
            "and request that they are forgotten with vfl unlearn request",
        )
    return np.array([place[each] if each else -1 for each in ids], np.int64)


def _sample(command: vfl_pb2.Initialise | vfl_pb2.RestoreCopy) -> Sample | None:
    return decode(command.sample, Sample) if command.HasField("sample") else None


def _tensor(rows: Index) -> torch.Tensor:
    return torch.from_numpy(rows.copy())


def reconstruction_report(model: LocalModel, sets: RowSets, slot: str) -> vfl_pb2.BlockReport:
    """Test whether the difference between model and copy ``slot`` reveals the only row of D_u.

    The test compares the change of the first layer's weights with the row of D_u and with rows of
    D_r. If D_u does not have exactly one row, or if the input of the first layer is not a whole
    row, the test is not possible: the report then lacks the test results ``cosine`` and ``rank``.
    """
    inputs = model.model.inputs
    change = _change(model, slot)
    if change is None or inputs is None or len(sets.forgotten) != 1:
        return model.report()
    rows = inputs.values.flatten(start_dim=1)
    if rows.shape[1] != change.shape[1]:
        return model.report()
    others = rows[sets.retain[:COMPARED_ROWS]]
    found = reconstruction_quality(change, rows[sets.forgotten[0]], others)
    report = model.report()
    report.cosine, report.rank = found.cosine, found.rank
    return report


def _change(model: LocalModel, slot: str) -> Tensor | None:
    """The change of the first layer's weights, [out, in].

    None for layers that are not dense, and if the shape of the copy differs.
    """
    pairs = zip(model.model.block, model.copy(slot), strict=True)
    found = next(((now, then) for now, then in pairs if now.dim() > 1), None)
    if found is None or found[0].dim() != 2 or found[0].shape != found[1].shape:
        return None
    return found[0].detach() - found[1]
