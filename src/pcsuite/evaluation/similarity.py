"""Similarity of an answer to a reference: ROUGE-L, BLEU and BLEURT, through the metric cache."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from pcsuite.errors import ConfigError, require
from pcsuite.evaluation.metric_cache import MetricCache

LONGEST_TEXT = 20_000
"""Characters compared; ROUGE-L is quadratic, and no answer within its token limit is longer."""

Similarity = Callable[[str, str], float]


def rouge_l(answer: str, reference: str) -> float:
    """ROUGE-L F-measure of rouge-score, without stemming (Lin 2004)."""
    return float(_rouge_scorer().score(reference[:LONGEST_TEXT], answer[:LONGEST_TEXT])["rougeL"].fmeasure)


def bleu(answer: str, reference: str) -> float:
    """BLEU of one sentence, 0..100, as TruthfulQA's scorers in the field compute it.

    sacrebleu's corpus score of a one-sentence corpus: ``tokenize="intl"``, exponential smoothing
    (``smooth_method="exp"``), no effective order, case kept.
    """
    return float(_bleu_scorer().corpus_score([answer[:LONGEST_TEXT]], [[reference[:LONGEST_TEXT]]]).score)


def bleurt_similarity(checkpoint: str) -> Similarity:
    """BLEURT with a local checkpoint; an error where the package or the checkpoint is missing."""
    if importlib.util.find_spec("bleurt") is None:
        raise ConfigError(
            "bleurt_checkpoint is set, but the bleurt package is not installed",
            hint="install BLEURT from its repository, or leave bleurt_checkpoint out",
        )
    if not Path(checkpoint).is_dir():
        raise ConfigError(f"bleurt_checkpoint '{checkpoint}' is not a folder")
    scorer = _bleurt_scorer(checkpoint)

    def similarity(answer: str, reference: str) -> float:
        return float(scorer.score(references=[reference], candidates=[answer])[0])

    return similarity


def require_similarity_libraries() -> None:
    """Fail early, naming the extra, where rouge-score or sacrebleu is not installed."""
    require("rouge_score.rouge_scorer", "eval")
    require("sacrebleu", "eval")


def cached(metric: str, similarity: Similarity, cache: MetricCache, answer: str, reference: str) -> float:
    """The similarity of one pair, from the cache where it is known."""
    return cache.compute(metric, answer, reference, lambda: similarity(answer, reference))


@lru_cache(maxsize=1)
def _rouge_scorer() -> Any:
    return require("rouge_score.rouge_scorer", "eval").RougeScorer(["rougeL"], use_stemmer=False)


@lru_cache(maxsize=1)
def _bleu_scorer() -> Any:
    return require("sacrebleu.metrics", "eval").BLEU(
        tokenize="intl", smooth_method="exp", effective_order=False
    )


@lru_cache(maxsize=2)
def _bleurt_scorer(checkpoint: str) -> Any:
    from bleurt import score

    return score.BleurtScorer(checkpoint)
