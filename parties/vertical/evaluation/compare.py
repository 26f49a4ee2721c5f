"""Carry out a request: run the chosen method, and the baselines and Retrains if any are agreed."""

from dataclasses import replace
from functools import partial

from configs.agreement import RowRequest
from parties.requests.driver import Cost, carry_out
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.extra_audits import run_extra_audits
from parties.vertical.evaluation.outcomes import Comparison, MethodOutcome, ModelReadout
from parties.vertical.methods.method import PAIRED, MethodResult
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import AnyMethod, independent_retrains, vertical_method
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee

ROW_SETS = {
    "forgotten": vfl_pb2.FORGOTTEN,
    "retained": vfl_pb2.RETAIN,
    "validation": vfl_pb2.VALIDATION,
    "test": vfl_pb2.TEST,
}


def compare_methods(split_model: SplitModel, request: RowRequest) -> Comparison:
    """Run all methods for one request; then restore the model of the chosen method.

    With ``retrains = 0`` in the agreement, only the chosen method runs, and no model is trained
    beside it.

    Before this call, the caller must train the original model and call ``SplitModel.forget`` or
    ``SplitModel.correct`` with the rows of the request.
    """
    chosen = vertical_method(split_model.agreement.unlearning.method)
    comparison = Comparison(request, chosen.name)
    split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
    comparison.outcomes.append(_outcome(split_model, None, request))
    comparison.outcomes.append(_outcome(split_model, chosen, request))
    split_model.keep_copy(chosen.name, vfl_pb2.UNLEARN)
    others = _others(split_model, chosen)
    for other in others:
        comparison.outcomes.append(_outcome(split_model, other, request))
    if others and others[-1].name == PAIRED:
        split_model.keep_copy(PAIRED, vfl_pb2.UNLEARN)
    comparison.extra_audits = run_extra_audits(split_model, chosen.name)
    split_model.restore_copy(chosen.name, ORIGINAL, vfl_pb2.UNLEARN)
    return comparison


def _others(split_model: SplitModel, chosen: AnyMethod) -> list[AnyMethod]:
    """The methods to compare the chosen one with, in the order of the report: the paired last.

    A method that cannot correct labels is left out if the request does.
    """
    plan = split_model.agreement.unlearning
    if not plan.retrains:
        return []
    baselines = [vertical_method(name) for name in plan.compare]
    others = [*baselines, *independent_retrains(plan.retrains), vertical_method(PAIRED)]
    able = [other for other in others if other.corrects or not split_model.rows.corrects]
    return [other for other in able if other.name != chosen.name]


def _outcome(
    split_model: SplitModel, method: AnyMethod | None, request: RowRequest
) -> MethodOutcome:
    """Run a method and measure its cost; then read its model's outputs, which costs nothing.

    Without a method, measure the original model.
    """
    name = ORIGINAL if method is None else method.name
    cost_so_far = partial(_cost_so_far, split_model)
    start = split_model.once(f"{name} begins", Cost, cost_so_far, durable=False)
    result = MethodResult() if method is None else carry_out(method, NetworkRun(split_model))
    end = split_model.once(f"{name} ends", Cost, cost_so_far, durable=False)
    if result.audit is not None:
        audit = split_model.once(f"{name} audited", dict, result.audit)
        result = replace(result, figures={**result.figures, **audit})
    read = partial(_read, split_model, name, request)
    readout = split_model.once(f"{name} read out", ModelReadout, read)
    cost = end.since(start)
    guarantee = None if method is None else _guarantee(method, result)
    return MethodOutcome(name, readout.logits, cost, guarantee, result, readout.embeddings)


def _guarantee(method: AnyMethod, result: MethodResult) -> Guarantee:
    """The guarantee of this run; a converged KKT report raises a heuristic's guarantee."""
    solved = (result.figures.get("kkt") or {}).get("converged")
    return result.guarantee or (Guarantee.KKT_REPORT if solved else method.guarantee)


def _cost_so_far(split_model: SplitModel) -> Cost:
    """The cost of the whole run until now."""
    traffic = split_model.party.traffic
    rows, whole = traffic.total("Embedding").rows, traffic.total()
    return Cost(traffic.elapsed, rows, whole.size, whole.payload, whole.messages)


def _read(split_model: SplitModel, name: str, request: RowRequest) -> ModelReadout:
    wanted = ROW_SETS | ({"triggered": vfl_pb2.TRIGGERED} if request.backdoor else {})
    parts = sum(len(list(split_model.loop.reading_requests(rows))) for rows in wanted.values())
    split_model.party.progress.phase(f"reading out {name}", parts)
    outputs = {part: split_model.read(rows) for part, rows in wanted.items()}
    # Neighbours of D_u are found in the original model's embeddings.
    embedded = ["forgotten", "test", *(["retained"] if name == ORIGINAL else [])]
    embeddings = {part: outputs[part].embeddings for part in embedded}
    return ModelReadout(
        {part: each.logits for part, each in outputs.items()},
        {part: each for part, each in embeddings.items() if each.dim() == 2},
    )
