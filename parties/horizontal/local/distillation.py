"""How a student is distilled without data (Mimir, GKT): what is weighed, and how fast."""

from dataclasses import dataclass

from unlearning.horizontal.data_free import Sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """The losses.

    Attributes:
        inner: T_k, steps of the student on one batch of images.
        divergence: β, of L_K.
        attention: γ, of L_att.
        behind: whether L_F compares features behind the prompt, or before it.
        sign: which way L_F pulls.
    """

    inner: int = 10
    temperature: float = 2.0
    divergence: float = 5.0
    attention: float = 2.0
    behind: bool = True
    sign: Sign = "align"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """GKT's losses, and which images the student is shown.

    Attributes:
        inner: steps of the student on one batch of images.
        attention: weight of L_att beside L_K.
        most: the largest probability of ``classes``, or likeness of features, that passes.
        classes: to be forgotten; none: the features of the leaving client decide.
    """

    inner: int = 10
    temperature: float = 1.0
    attention: float = 250.0
    most: float = 0.01
    classes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long: T_u ``rounds`` of ``batch`` images each, student and generator with Adam."""

    rounds: int
    batch: int = 128
    learning_rate: float = 1e-3
    clip: float = 5.0
