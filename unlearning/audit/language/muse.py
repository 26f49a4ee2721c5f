"""MUSE: verbatim memory, knowledge, and whether membership of forgotten texts leaks.

Letters (arXiv 2407.06460): AUC_u of the unlearned model, AUC_R of Retrain on the same texts.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unlearning.audit.language.probability import check_tokens
from unlearning.audit.language.rouge import mean_rouge_l
from unlearning.audit.scores import auc

PERCENT = 40  # K of Min-K %


def verbatim_memory(continuations: Sequence[str], truths: Sequence[str]) -> float:
    """Return VerbMem, ROUGE-L F1 of greedy continuations (128 tokens at most), in [0, 1].

    Lower is better on the forgotten texts, down to Retrain's.

    Raises:
        ValueError: not one continuation for every truth, or none.
    """
    return mean_rouge_l(continuations, truths).f1


def knowledge_memory(answers: Sequence[str], truths: Sequence[str]) -> float:
    """Return KnowMem, ROUGE-L F1 of answers (32 tokens at most, few-shot), in [0, 1].

    Lower on the forgotten questions; on the retained ones it is the utility that was preserved.

    Raises:
        ValueError: not one answer for every truth, or none.
    """
    return mean_rouge_l(answers, truths).f1


def min_k_scores(log_probs: Tensor, mask: Tensor, percent: int = PERCENT) -> Tensor:
    """Return Min-K %, ``[batch]``: the mean log-probability of each text's K % least likely tokens.

    Shi et al. 2024 (arXiv 2310.16789); at least one token, rounded down. Higher is more familiar.

    Raises:
        ValueError: other shapes, a row without a token, or K outside [1, 100].
    """
    check_tokens(log_probs, mask)
    if not 1 <= percent <= 100:
        raise ValueError(f"K is {percent} %, legal is 1 to 100")
    rows = zip(log_probs.detach().double(), mask.bool(), strict=True)
    return torch.stack([_least(row[kept], percent) for row, kept in rows])


def leak_auc(forgotten: Tensor, holdout: Tensor) -> float:
    """Return the AUC of Min-K % with hold-out texts as the positives, MUSE's convention.

    That is the chance that a hold-out text is more familiar than a forgotten one: 0 where all
    forgotten texts are known, 0.5 where neither stands out, above it where the forgotten ones do.
    """
    return auc(holdout.double().cpu().numpy(), forgotten.double().cpu().numpy())


def privacy_leak(unlearned: float, retrained: float) -> float:
    """Return PrivLeak = 100 (AUC_u − AUC_R) / AUC_R, in percent.

    Near 0 is good, towards −100 too little was forgotten, above 0 too much. AUC_R has to be
    measured for every corpus anew.

    Raises:
        ValueError: AUC_R is not in (0, 1]: at 0 Retrain itself knows every forgotten text.
    """
    if not 0.0 < retrained <= 1.0:
        raise ValueError(
            f"Retrain's AUC is {retrained}, legal is above 0; hold-out texts are not like the "
            "forgotten ones, or Retrain has seen these"
        )
    return 100.0 * (unlearned - retrained) / retrained


def _least(log_probs: Tensor, percent: int) -> Tensor:
    count = max(1, len(log_probs) * percent // 100)
    return log_probs.topk(count, largest=False).values.mean()
