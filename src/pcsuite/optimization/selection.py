"""The winner of a search, and how much of its J is luck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pcsuite.analysis.bootstrap import paired_bootstrap
from pcsuite.analysis.estimate import Estimate
from pcsuite.errors import AnalysisError
from pcsuite.optimization.problem import CandidateScore

OPTIMISM_RESAMPLES = 1_000
OPTIMISM_METHOD = (
    "bootstrap of the selection: items are resampled, the best of the fully measured candidates is chosen anew, and"
    " its J on the resample is compared with its J on all items (Efron & Gong 1983; Harrell 2015). It covers the"
    " choice among these candidates, not that later candidates were made from earlier ones' scores on the same items."
)


@dataclass(frozen=True, slots=True)
class Winner:
    """The best candidate with what is known of it."""

    score: CandidateScore
    value: Estimate
    """J with its interval over items."""
    optimism: float
    """What having chosen the best adds to J, on average."""
    gain: Estimate
    """J minus the baseline's, paired over items (mean of the items' own J)."""

    @property
    def corrected(self) -> float:
        """J less the optimism."""
        return self.score.value - self.optimism


def best_score(scores: Iterable[CandidateScore]) -> CandidateScore:
    """The best of the completely measured candidates; of equals the cheaper, then the first."""
    complete = [score for score in scores if score.complete]
    if not complete:
        raise AnalysisError("no candidate was measured on every development item")
    return max(complete, key=lambda score: (*score.rank, -score.parts.token_cost))


def judge_winner(
    scores: Sequence[CandidateScore], baseline: CandidateScore, rng: np.random.Generator
) -> Winner:
    """The winner with its interval, its optimism and its gain over the baseline."""
    winner = best_score([*scores, baseline])
    gain = paired_bootstrap(winner.item_values, baseline.item_values, rng=rng)
    return Winner(
        winner,
        winner.item_parts.estimate(winner.objective, rng),
        selection_optimism([baseline, *scores], rng),
        gain,
    )


def selection_optimism(
    scores: Sequence[CandidateScore], rng: np.random.Generator, resamples: int = OPTIMISM_RESAMPLES
) -> float:
    """Mean over resamples of J(chosen; resample) − J(chosen; all items), over complete candidates."""
    rivals = {score.candidate.id: score for score in scores if score.complete and not score.crashed}
    if len(rivals) < 2:
        return 0.0
    listed = list(rivals.values())
    size = len(listed[0].item_parts)
    if size < 2:
        return 0.0
    weights = rng.multinomial(size, np.full(size, 1 / size), size=resamples)
    inside = np.stack([score.item_parts.resampled(score.objective, weights) for score in listed])
    chosen = inside.argmax(axis=0)
    whole = np.array([score.value for score in listed])
    return float((inside[chosen, np.arange(resamples)] - whole[chosen]).mean())
