"""Local tasks that the server sends to clients, and the results that clients return."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Final, Literal, TypeAlias

from torch import Tensor

from protocol.dataclass_codec import NOT_SENT
from unlearning.horizontal.data_free import FeatureSign
from unlearning.horizontal.error_noise import ErrorNoisePlan
from unlearning.horizontal.fedforget import TeacherMode

# First line: the client trains on its rows. Second line: the client trains on generated images or
# noise and reads no row. Last line: the client trains on nothing and reports something else, except
# for ``text``, which trains a language model.
Aim: TypeAlias = Literal[
    "fit", "unlearning-loss", "ascent", "elastic", "teachers", "pseudo-labels",
    "distil", "gated", "error-maximising-noise", "error-minimising-noise",
    "fisher", "inputs", "personal-model", "classes", "text",
]  # fmt: skip
# Aims that a server may name only together with the rows to forget.
FORGETTING_AIMS: Final = (
    "unlearning-loss", "ascent", "elastic", "teachers", "pseudo-labels", "error-maximising-noise",
)  # fmt: skip
SLOTS: Final = ("anchor", "fisher", "teacher", "second")  # vectors that a task reads beside model
# Vectors that the server sent, by name: model, and those of ``SLOTS``.
Slots = Mapping[str, Tensor]
# During evaluation the client's personal parameters replace those of the model, or the model is
# evaluated as the server sent it.
ParameterSource: TypeAlias = Literal["personal", "sent"]
Objective: TypeAlias = Literal[
    "learn", "grad-ascent", "grad-diff", "npo", "simnpo", "rmu", "primal-dual"
]
TWO_TERMS: Final = ("grad-diff", "npo", "simnpo", "primal-dual")


class LocalTaskError(ValueError):
    """The client cannot execute a local task.

    The server receives the error's text, so the text must not identify any row.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationPlan:
    """Settings of Mimir's data-free distillation."""

    student_steps: int = 10  # T_k, number of the student's steps on one batch of images
    temperature: float = 2.0  # τ
    divergence: float = 5.0  # β, weight of the distillation loss L_K
    attention: float = 2.0  # γ, weight of the attention loss L_att
    # True if the feature loss L_F compares the features after the prompt; False if it compares the
    # features before the prompt.
    after_prompt: bool = True
    # Whether L_F makes the student's features similar to the features of the leaving client's model
    # (``align``), opposite to them (``repel``) or orthogonal to them.
    sign: FeatureSign = "align"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """Settings of gated knowledge transfer (GKT)."""

    student_steps: int = 10  # number of the student's steps on one batch of images
    temperature: float = 1.0  # τ
    # Weight of the attention loss L_att; the weight of the distillation loss L_K is 1.
    attention: float = 250.0
    # Largest score of an image on which the student trains. The score is the probability of the
    # forgotten classes, or the similarity of the features.
    threshold: float = 0.01
    # The forgotten classes; if empty, the gate compares the images' features in the teacher and in
    # the leaving client's model.
    classes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTask:
    """Settings of a local task on texts.

    Clients with forgotten texts minimise the objective; all other clients train with cross entropy.
    Notation as in ``unlearning.llm``.
    """

    # The unlearning objective; ``learn`` is training with cross entropy.
    objective: Objective = "learn"
    optimiser: Literal["adamw", "sgd"] = "adamw"  # the client's optimiser
    gamma: float = 1.0  # γ, weight of the forget term (the loss on forgotten texts)
    alpha: float = 1.0  # α, weight of the retain term (the loss on retained texts)
    beta: float = 0.1  # β of NPO and SimNPO
    delta: float = 0.0  # δ of SimNPO
    # The retain term: cross entropy (``nll``), or the KL divergence from the model before
    # unlearning (``kl``).
    retain: Literal["nll", "kl"] = "nll"
    # Whether gradient ascent stops when the loss is as high as for a uniform distribution over the
    # vocabulary.
    stop_at_uniform: bool = False
    # Number of the layer whose outputs RMU steers, counted from 1; 0 means the middle layer.
    layer: int = 0
    steering: float = 2.0  # c, the norm of RMU's steering vector
    multiplier: float = 0.0  # Ω of the primal-dual objective
    # Upper bound of an answer's score in the primal-dual objective, in nats per token.
    max_loss: float = 10.0

    @property
    def has_retain_term(self) -> bool:
        """Whether each step uses one retained text in addition to each forgotten text."""
        return self.objective in (*TWO_TERMS, "rmu")

    @property
    def needs_reference(self) -> bool:
        """Whether the objective needs the model before unlearning."""
        return self.objective in ("npo", "rmu") or (
            self.retain == "kl" and self.objective in TWO_TERMS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTask:
    """A local task: what a client minimises or reports in one round.

    The aim is one of:

    - ``fit``: minimise cross entropy.
    - ``unlearning-loss``: minimise the bounded unlearning loss of FedOSD.
    - ``ascent``: maximise cross entropy, up to the loss of uniform predictions.
    - ``elastic``: maximise cross entropy without a bound, with an elastic penalty if the server
      sends the vector ``fisher``.
    - ``teachers``: minimise the losses of FedForget.
    - ``pseudo-labels``: minimise KL(t ‖ s), where s are the predictions of the trained model and t
      those of the model that the server sends as ``teacher``.
    - ``distil``: minimise the losses of Mimir on generated images.
    - ``gated``: minimise the losses of gated knowledge transfer on generated images.
    - ``error-maximising-noise``, ``error-minimising-noise``: minimise cross entropy on noise. The
      first aim takes noise with a large loss in the model that the server sends as ``teacher``, the
      second aim noise with a small loss.
    - ``fisher``: report the diagonal Fisher information, ``[d]``.
    - ``inputs``: report the inputs of each layer for one batch.
    - ``personal-model``: report the model with the client's personal parameters minus the model
      that the server sent, ``[d]``.
    - ``classes``: report which classes occur in the rows, ``[classes]`` of 0 and 1.
    - ``text``: train a language model with the settings in ``text``.
    """

    aim: Aim = "fit"
    # Name of the random stream of the row order; each client appends the client's name.
    stream: str
    epochs: int = 1  # number of passes over the rows
    batch: int  # number of rows per batch
    learning_rate: float  # η of the client's optimiser
    momentum: float = 0.0  # momentum of stochastic gradient descent
    weight_decay: float = 0.0  # weight decay of the client's optimiser
    steps: int | None = None  # largest number of steps; None: all steps of all epochs
    proximal: float = 0.0  # weight of the proximal term: μ of FedProx, or λ of ``elastic``
    clip: float | None = None  # largest norm of a step's gradient; None: no bound
    teacher_mode: TeacherMode = "literal"  # mode of FedForget, for the aim ``teachers``
    # Weights of the models ``teacher`` and ``second``, for the aim ``teachers``.
    teacher_weights: tuple[float, float] = (1.0, 0.0)
    temperature: float = 1.0  # τ, for the aim ``teachers``
    distil: DistillationPlan | None = None  # settings for the aim ``distil``
    gate: GatePlan | None = None  # settings for the aim ``gated``
    noise: ErrorNoisePlan | None = None  # settings of the noise, for the two aims that use noise
    text: TextTask | None = None  # settings for the aim ``text``


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """The result of a local task.

    Attributes:
        delta: the update (the trained model minus the model that the server sent), ``[d]``. If the
            aim reports values instead of training, ``delta`` contains these values.
        rows: number of rows that the task used.
        loss: mean loss over all steps.
        steps: number of steps.
        personal: all parameters after training, ``[d]``, if some of them are the client's personal
            parameters; this vector stays at the client.
        tokens: only for texts: number of tokens that the model processed.
    """

    delta: Annotated[Tensor, NOT_SENT]  # sent in parts, as the tensors of messages of their own
    rows: int
    loss: float
    steps: int
    personal: Annotated[Tensor | None, NOT_SENT] = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """Metrics of a model on one client's rows of one kind."""

    rows: int  # number of rows
    correct: int  # number of rows that the model predicts correctly
    loss: float  # sum of the cross entropies
    # Counts of the rows by score (see ``score_histogram``); empty if there are no rows.
    histogram: tuple[int, ...] = ()
    # Only for texts: the sum over the texts of p^(1 / t), where p is the probability of the text's
    # answer and t the number of tokens of this answer.
    probability: float = 0.0


def task_differences(agreed: LocalTask, sent: LocalTask) -> list[str]:
    """Return the settings in which a sent task differs from an agreed one; empty if it is legal.

    The random stream may differ. The learning rate, the multiplier Ω and the bound M of the
    primal-dual objective may be smaller, and the forgotten classes may be a part of those of
    ``agreed``, because rounds change them.
    """
    changing = ("stream", "learning_rate", "text", "gate")
    names = [each.name for each in fields(LocalTask) if each.name not in changing]
    found = [name for name in names if getattr(agreed, name) != getattr(sent, name)]
    found += ["learning_rate"] if sent.learning_rate > agreed.learning_rate else []
    found += [] if _text_is_legal(agreed.text, sent.text) else ["text"]
    return found if _gate_is_legal(agreed.gate, sent.gate) else [*found, "gate"]


def needed_slots(task: LocalTask) -> tuple[str, ...]:
    """Return the names of the vectors that a task cannot do without, beside ``model``."""
    match task.aim:
        case "teachers":
            return ("teacher",) if task.teacher_mode == "ga" else ("teacher", "second")
        case "distil":
            return "teacher", "second"
        case "gated":
            classes = task.gate.classes if task.gate is not None else ()
            return ("teacher",) if classes else ("teacher", "second")
        case "pseudo-labels" | "error-maximising-noise" | "error-minimising-noise":
            return ("teacher",)
        case "text" if task.text is not None and task.text.needs_reference:
            return ("teacher",)
    return ()


def _text_is_legal(agreed: TextTask | None, sent: TextTask | None) -> bool:
    if agreed is None or sent is None:
        return agreed is sent
    same = replace(agreed, multiplier=sent.multiplier, max_loss=sent.max_loss) == sent
    return same and sent.multiplier <= agreed.multiplier and sent.max_loss <= agreed.max_loss


def _gate_is_legal(agreed: GatePlan | None, sent: GatePlan | None) -> bool:
    if agreed is None or sent is None:
        return agreed is sent
    return replace(agreed, classes=sent.classes) == sent and {*sent.classes} <= {*agreed.classes}
