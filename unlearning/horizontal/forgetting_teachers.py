"""FedForget: distillation with two teachers at the client that leaves, and its weight in the mean.

Letters (paper 002): s = the student, A = the global model before unlearning, B = the second
teacher, α = ``keep``, τ = ``temperature``, λ = the leaving client's extra weight. All terms are on
D_u; what the others know is kept by the others alone. Where the paper attracts to the client's own
old model, its authors' program repels from it; both, and two teachers that make sense, are modes.
"""

from math import exp, log
from typing import Literal, TypeAlias

from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

Mode: TypeAlias = Literal["literal", "repel", "clean_teacher", "bad_teacher", "ga"]


def kl_student_teacher(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(s ‖ t) by row, ``[rows]``, of ``[rows, classes]`` logits: the paper's direction."""
    log_s, log_t = (log_softmax(each / temperature, dim=1) for each in (student, teacher))
    return (log_s.exp() * (log_s - log_t)).sum(dim=1)


def kl_teacher_student(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(t ‖ s) by row, ``[rows]``: the usual direction of distillation."""
    return kl_student_teacher(teacher, student, temperature)


def second_term(
    mode: Mode, student: Tensor, teacher: Tensor, temperature: float = 1.0, margin: float = 1.0
) -> Tensor:
    """What teacher B adds to the loss, ``[rows]``; the printed form has a plus.

    A repelled row is let go once it is ``margin`` nats away: without an end the loss has none.

    Raises:
        ValueError: ``ga`` has no second teacher.
    """
    if mode == "ga":
        raise ValueError("ga climbs the cross entropy and has no second teacher")
    divergence = kl_student_teacher(student, teacher, temperature)
    return (margin - divergence).clamp_min(0.0) if mode == "repel" else divergence


def capped_ascent(logits: Tensor, labels: Tensor) -> Tensor:
    """Minus each row's cross entropy, at least −log C, ``[rows]``, of ``[rows, classes]`` logits.

    That is the paper's case without a teacher B with an end: a row that is no better known than
    by a uniform guess has no gradient any more.
    """
    loss = cross_entropy(logits, labels, reduction="none")
    return -loss.clamp_max(log(logits.shape[1]))


def client_weights(rows: list[int], leaving: int, extra: float, most: float = 1.0) -> list[float]:
    """The clients' weights, which sum to 1: by rows, the leaving one's times ``extra``.

    It has at most the part ``most`` of all.
    """
    raw = [float(n) * (extra if k == leaving else 1.0) for k, n in enumerate(rows)]
    own, others = raw[leaving], sum(raw) - raw[leaving]
    if own > most * (own + others):
        raw[leaving] = others * most / (1 - most)
    return [each / sum(raw) for each in raw]


def extra_weight(round_: int, first: float, decay: float) -> float:
    """λ(t) = 1 + (λ₀ − 1) e^(−β t) (paper 002, Eq 8)."""
    return 1 + (first - 1) * exp(-decay * round_)
