"""Variation of free-text answers: disagreement on key facts, and clusters of meaning from embeddings.

Key facts are the numbers and the capitalised names of an answer. They miss negation and paraphrase;
clusters of embeddings catch paraphrase but not always a changed number. Neither judges whether an answer is
true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.entropy import Estimator, entropy
from pcsuite.analysis.estimate import FloatArray, IntArray, as_matrix
from pcsuite.errors import AnalysisError, require

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?%?")
_NAME = re.compile(r"\b[A-Z][\w'’-]*(?:\s+(?:of|de|la|van|von|the)\s+[A-Z][\w'’-]*|\s+[A-Z][\w'’-]*)*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n]\s*|[\"“(]\s*)$")
_WORDS_THAT_OPEN_SENTENCES = (
    "a an the this that these those it its he she they we you i in on at by for from to of and or but if as"
    " so no not yes there here what when where who why how is are was were be been do does did has have had"
    " can could will would should may might must since because while although however therefore thus also"
    " both each every some many most all any one two three first second finally then next answer question"
)
_FUNCTION_WORDS = frozenset(_WORDS_THAT_OPEN_SENTENCES.split())


def key_facts(text: str) -> frozenset[str]:
    """The numbers (normalised) and capitalised names in a text.

    A capitalised word that opens a sentence counts only if it is no function word; runs of capitalised words
    are one name.
    """
    facts = {_normal_number(match.group()) for match in _NUMBER.finditer(text)}
    for match in _NAME.finditer(text):
        words = match.group().split()
        opens = _SENTENCE_START.search(text[: match.start()]) is not None
        while words and opens and words[0].casefold() in _FUNCTION_WORDS:
            words = words[1:]
        if words and not (len(words) == 1 and words[0].casefold() in _FUNCTION_WORDS):
            facts.add(" ".join(words).casefold().removesuffix("'s").removesuffix("’s"))
    return frozenset(facts)


def fact_disagreement(answers: Sequence[str]) -> float:
    """Mean over pairs of answers of 1 - |common facts| / |all facts|; 0 where neither states any.

    Unbiased for the disagreement of two fresh answers, at any number of replicates ≥ 2 (``nan`` below).
    """
    if len(answers) < 2:
        return float("nan")
    facts = [key_facts(answer) for answer in answers]
    gaps = []
    for i, first in enumerate(facts):
        for second in facts[:i]:
            union = first | second
            gaps.append(1 - len(first & second) / len(union) if union else 0.0)
    return float(np.mean(gaps))


def semantic_clusters(embeddings: npt.ArrayLike, *, similarity: float = 0.85) -> IntArray:
    """Group answers whose embeddings have cosine similarity of at least ``similarity`` on average.

    Average linkage, which does not depend on the order of the answers and does not chain.
    """
    vectors = as_matrix(embeddings, "embeddings")
    if not -1 < similarity <= 1:
        raise AnalysisError(f"similarity is {similarity}, it must lie in -1..1", hint="0.85 is usual")
    if len(vectors) == 1:
        return np.zeros(1, dtype=np.int64)
    hierarchy = require("scipy.cluster.hierarchy", "stats")
    cosine = _cosine(vectors)
    upper = np.triu_indices(len(vectors), 1)
    distance = np.clip(1 - cosine[upper], 0.0, 2.0)
    tree = hierarchy.linkage(distance, method="average")
    labels = hierarchy.fcluster(tree, t=1 - similarity + 1e-9, criterion="distance")
    _, codes = np.unique(labels, return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


def semantic_entropy(
    embeddings: npt.ArrayLike, *, similarity: float = 0.85, estimator: Estimator = "chao_shen"
) -> float:
    """Entropy in nats over clusters of meaning: the discrete form of Farquhar et al. 2024.

    They cluster by two-way entailment; here embeddings stand in for it, which is coarser.
    """
    sizes = np.bincount(semantic_clusters(embeddings, similarity=similarity))
    return float(entropy(sizes[None, :], estimator=estimator)[0])


def _cosine(vectors: FloatArray) -> FloatArray:
    length = np.linalg.norm(vectors, axis=1)
    if (length == 0).any():
        raise AnalysisError(
            f"embedding {int(np.argmin(length))} is the zero vector", hint="was the text empty?"
        )
    unit = vectors / length[:, None]
    return np.asarray(unit @ unit.T, dtype=np.float64)


def _normal_number(text: str) -> str:
    percent = text.endswith("%")
    digits = text.rstrip("%").replace(",", "").lstrip("+")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return digits + ("%" if percent else "")
