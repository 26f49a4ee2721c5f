"""MUSE metrics: verbatim memory, knowledge memory, and the privacy leak of forgotten texts.

Notation (arXiv 2407.06460): AUC_u = the AUC of the unlearned model, AUC_R = the AUC of Retrain on
the same texts.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unlearning.audit.language.rouge import mean_rouge_l
from unlearning.audit.scores import auc

MIN_K_PERCENT = 40  # K of Min-K %


def verbatim_memory(continuations: Sequence[str], truths: Sequence[str]) -> float:
    """Return VerbMem, the mean ROUGE-L F1 of greedy continuations, in [0, 1].

    Continuations have at most 128 tokens. On the forgotten texts a lower VerbMem is better, down to
    Retrain's value.

    Raises:
        ValueError: ``continuations`` and ``truths`` differ in length, or are empty.
    """
    return mean_rouge_l(continuations, truths).f1


def knowledge_memory(answers: Sequence[str], truths: Sequence[str]) -> float:
    """Return KnowMem, the mean ROUGE-L F1 of few-shot answers, in [0, 1].

    Answers have at most 32 tokens. On the forgotten questions a lower KnowMem is better; on the
    retained questions KnowMem measures the preserved utility.

    Raises:
        ValueError: ``answers`` and ``truths`` differ in length, or are empty.
    """
    return mean_rouge_l(answers, truths).f1


def min_k_scores(log_probs: Tensor, mask: Tensor, percent: int = MIN_K_PERCENT) -> Tensor:
    """Return Min-K %, the mean log-probability of each text's K % least likely tokens, ``[batch]``.

    ``log_probs`` and ``mask`` are ``[batch, tokens]``. K % of the tokens is rounded down to a whole
    number of tokens, but to at least one. A higher score means that the text is more familiar to
    the model.

    Raises:
        ValueError: the shapes differ, a row has no token in the mask, a log-probability is above 0
            or NaN, or ``percent`` is not from 1 to 100.
    """
    _check_tokens(log_probs, mask)
    if not 1 <= percent <= 100:
        raise ValueError(f"K of Min-K % must be from 1 to 100 (got {percent})")
    # Shi et al. 2024 (arXiv 2310.16789): the mean over the K % smallest log p of a text.
    rows = zip(log_probs.detach().double(), mask.bool(), strict=True)
    return torch.stack([_least(row[kept], percent) for row, kept in rows])


def min_k_auc(forgotten: Tensor, holdout: Tensor) -> float:
    """Return the AUC of Min-K %; the hold-out texts are the positive class, as in MUSE.

    ``forgotten`` and ``holdout`` are Min-K % scores, ``[texts]`` of each group. The AUC is the
    probability that a hold-out text is more familiar than a forgotten one: 0 if every forgotten
    text is more familiar than every hold-out text, 0.5 if neither group stands out, and above 0.5
    if the forgotten texts are less familiar than the hold-out texts.
    """
    return auc(holdout.double().cpu().numpy(), forgotten.double().cpu().numpy())


def privacy_leak(unlearned: float, retrained: float) -> float:
    """Return PrivLeak in percent from the AUC of the unlearned model and the AUC of Retrain.

    A PrivLeak close to 0 is good. A PrivLeak close to −100 means that too little was forgotten, and
    a PrivLeak far above 0 means that too much was forgotten. The AUC of Retrain must be measured
    separately for each corpus.

    Raises:
        ValueError: ``retrained`` is not in (0, 1].
    """
    if not 0.0 < retrained <= 1.0:
        raise ValueError(
            f"Retrain's AUC must be above 0 and at most 1 (got {retrained}); check that "
            "Retrain was not trained on the forgotten texts, and that the hold-out texts are "
            "similar to the forgotten texts"
        )
    # MUSE (arXiv 2407.06460): PrivLeak = 100 (AUC_u − AUC_R) / AUC_R.
    return 100.0 * (unlearned - retrained) / retrained


def _least(log_probs: Tensor, percent: int) -> Tensor:
    count = max(1, len(log_probs) * percent // 100)
    return log_probs.topk(count, largest=False).values.mean()


def _check_tokens(values: Tensor, mask: Tensor) -> None:
    if values.dim() != 2 or values.shape != mask.shape:
        raise ValueError(
            f"the shapes of the log-probabilities {list(values.shape)} and of the mask "
            f"{list(mask.shape)} must be equal, and of the form [batch, tokens]"
        )
    bare = (~mask.bool()).all(dim=1).nonzero().flatten().tolist()
    if bare:
        raise ValueError(
            f"rows {bare} of the batch have no token in the mask; leave out texts without tokens"
        )
    if not bool((values[mask.bool()] <= 1e-6).all()):  # NaN fails as well
        raise ValueError(
            "a log-probability is above 0 or NaN; check that the values are not losses"
        )
