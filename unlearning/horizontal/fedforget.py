"""FedForget: two-teacher distillation at the leaving client, and the weight of this client.

Notation of FedForget (paper 002): s = the student, A = the global model before unlearning, B = the
second teacher, τ = ``temperature``, λ = factor on the leaving client's weight. All loss terms are
computed on D_u; only the remaining clients, which train as usual, preserve the other knowledge.

In the modes "literal" and "repel", B is the leaving client's own old model. In mode "literal", as
in the paper, minimising the loss makes s similar to B. In mode "repel", as in the authors' code,
minimising the loss makes s dissimilar to B. The other modes use a clean teacher, a bad teacher, or
gradient ascent.
"""

from math import exp, log
from typing import Literal, TypeAlias

from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

TeacherMode: TypeAlias = Literal["literal", "repel", "clean_teacher", "bad_teacher", "ga"]


def kl_student_teacher(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Return KL(s ‖ t) of each row, the direction that the paper uses, ``[rows]``.

    ``student`` and ``teacher`` are logits, ``[rows, classes]``.
    """
    log_s, log_t = (log_softmax(logits / temperature, dim=1) for logits in (student, teacher))
    return (log_s.exp() * (log_s - log_t)).sum(dim=1)


def kl_teacher_student(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """Return KL(t ‖ s) of each row, the usual direction of distillation, ``[rows]``.

    ``student`` and ``teacher`` are logits, ``[rows, classes]``.
    """
    return kl_student_teacher(teacher, student, temperature)


def second_teacher_loss(
    mode: TeacherMode,
    student: Tensor,
    teacher: Tensor,
    temperature: float = 1.0,
    margin: float = 1.0,
) -> Tensor:
    """Return the loss term of teacher B for each row, to be added to the loss, ``[rows]``.

    ``student`` and ``teacher`` are logits, ``[rows, classes]``. In mode "repel" the loss of a row
    is 0 once the divergence reaches ``margin`` nats, because without this margin the loss would
    have no lower bound.

    Raises:
        ValueError: the mode is "ga", which has no second teacher.
    """
    if mode == "ga":
        raise ValueError(
            'mode "ga" (gradient ascent) has no second teacher; use capped_ascent_loss'
        )
    # Paper 002, §3.2.1, Case 1: L_neg = KL(p_s ‖ p_B).
    divergence = kl_student_teacher(student, teacher, temperature)
    return (margin - divergence).clamp_min(0.0) if mode == "repel" else divergence


def capped_ascent_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return minus the cross entropy of each row, but at least −log C, ``[rows]``.

    ``logits`` are ``[rows, classes]`` and ``labels`` are ``[rows]``. A row that the model predicts
    no better than a uniform guess gets no gradient.
    """
    # Paper 002, §3.2.1, Case 2: L_neg = −L_CE; the cap at log C is our addition.
    loss = cross_entropy(logits, labels, reduction="none")
    return -loss.clamp_max(log(logits.shape[1]))


def client_weights(
    rows: list[int], leaving: int, factor: float, max_weight: float = 1.0
) -> list[float]:
    """Return the weights of the clients' models in the mean; the weights sum to 1.

    A client's weight is its number of ``rows``, multiplied by ``factor`` for the client at position
    ``leaving``; the weight of this client in the mean is at most ``max_weight``.
    """
    # Paper 002, §3.2.2: θ_g = (λ n_u θ_u + Σ_{i≠u} n_i θ_i) / (λ n_u + Σ_{i≠u} n_i).
    raw = [float(n) * (factor if k == leaving else 1.0) for k, n in enumerate(rows)]
    own, others = raw[leaving], sum(raw) - raw[leaving]
    if own > max_weight * (own + others):
        raw[leaving] = others * max_weight / (1 - max_weight)
    return [weight / sum(raw) for weight in raw]


def leaving_client_factor(round_: int, first: float, decay: float) -> float:
    """Return λ, the factor on the leaving client's weight in a round; ``first`` is λ in round 0."""
    # Paper 002, §3.2.2: λ(t) = 1 + (λ₀ − 1) e^(−β t), β = ``decay``.
    return 1 + (first - 1) * exp(-decay * round_)
