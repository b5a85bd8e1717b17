"""What an ablation found, as values: of each arm its figures, and of each model and table everything that is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite.ablation.adherence import Adherence
from pcsuite.ablation.amounts import AmountChange
from pcsuite.ablation.named_scores import NamedScoreEffects
from pcsuite.ablation.reach import Reach
from pcsuite.ablation.savings import YearlySaving
from pcsuite.ablation.screen import GroupVerdict
from pcsuite.ablation.study import Study
from pcsuite.ablation.trim import Trim
from pcsuite.ablation.verdicts import BlockVerdict, Interaction
from pcsuite.errors import MISSING_OUTCOMES, CallOutcome
from pcsuite.stats.attribution import OperatorEffect
from pcsuite.stats.covariates import AdjustedMean
from pcsuite.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm's figures over all its items."""

    id: str
    operators: tuple[str, ...]
    items: int
    score: float
    measures: Mapping[str, float]
    outcomes: Mapping[CallOutcome, int] = field(default_factory=dict)
    """What became of its calls, by outcome; see ``docs/reference/scoring.md``."""
    ambiguous: int = 0
    """Answers that can be read in two ways."""

    @property
    def missing(self) -> int:
        """Calls whose answer is missing: they failed, or timed out, on the way."""
        return sum(count for outcome, count in self.outcomes.items() if outcome in MISSING_OUTCOMES)

    @property
    def unanswered(self) -> Mapping[CallOutcome, int]:
        """Outcomes other than an answer, missing ones too."""
        return {outcome: count for outcome, count in self.outcomes.items() if outcome != "answered"}


@dataclass(frozen=True, slots=True)
class BlockDifference:
    """What a block is worth on one model less what it is worth on another, on the same items."""

    block: str
    table: str
    old: str
    new: str
    estimate: Estimate
    """Effect on the new model less effect on the old one; its limits hold for all blocks and models at once."""
    p_value: float
    """After Holm's correction over all blocks, models and tables."""
    differs: bool
    """Whether the two effects differ beyond chance, whatever missing answers would have been."""


@dataclass(frozen=True)
class AblationResult:
    """What an ablation found."""

    study: Study
    items: int
    """Items that every arm answered."""
    clusters: int
    """Clusters of these items; as many as items where no two are related."""
    arms: Sequence[ArmSummary]
    verdicts: Sequence[BlockVerdict]
    measures: Mapping[str, Mapping[str, Estimate]]
    """By block: what having it changes in each of :data:`~pcsuite.ablation.arm_measures.MEASURES`."""
    flips: Mapping[str, tuple[Sequence[str], Sequence[str]]]
    """By block: items that are right only with it, and only without it."""
    attribution: Sequence[OperatorEffect]
    """Each block's effect by every method that the arms identify: left out, alone, on average, Shapley value."""
    interactions: Sequence[Interaction]
    pairs_measured: int
    noise: Estimate | None
    """A/A: the full prompt again less the full prompt."""
    noise_p: float | None
    noise_flips: float | None
    trim: Trim | None
    block_tokens: Mapping[str, int]
    trimmed: str
    """The trimmed prompt, or the prompt itself."""
    trimmed_files: Mapping[str, bytes | None]
    """Of a prompt of files: each trimmed file by its path, ``None`` for one of which nothing is left."""
    saved_tokens: float
    saved_usd: float
    """Saved by the trimmed prompt per 1,000 calls, measured on the confirming items."""
    amounts: Sequence[AmountChange] = ()
    """What leaving out each block, or group of blocks, changes in steps, tokens, money and time."""
    alarms: Sequence[str] = ()
    """What is wrong with the full prompt's answers: unreadable, cut off, nearly constant."""
    stopped: str = ""
    """Why the run ended before all calls were made."""
    too_many_failed: bool = False
    """Whether that was because too many calls failed; else the budget was used up."""
    adjusted: Mapping[str, AdjustedMean] = field(default_factory=dict)
    """With a covariate: effects of blocks and groups with it taken off, by name."""
    judge: str = ""
    """Of a judged task: what is known of its judge, in a sentence."""
    groups: Sequence[GroupVerdict] = ()
    """Of a screening: every group of blocks that was left out, each before those within it. :attr:`measures` and
    :attr:`flips` have them by their names too."""
    adherence: Sequence[Adherence] = ()
    """Of blocks with a check of their own: how often answers follow them, with the block and without it."""
    named: Sequence[NamedScoreEffects] = ()
    """What blocks do to each further score that the scorer gives by name."""
    reach: Sequence[Reach] = ()
    """Of files put into a folder: whether they reached the system."""
    yearly: Sequence[YearlySaving] = ()
    """What leaving blocks out saves in a year, where a number of calls was given and their cost is known."""
    beside: Sequence[AblationResult] = ()
    """What the same ablation found on further models and tables."""
    differences: Sequence[BlockDifference] = ()
    """Of several models: what each block is worth on a later one less what it is worth on the first."""
    asked: int = 0
    """Rows that this call of :func:`~pcsuite.ablation.ablate` made: none of what the log had before."""
    failed: int = 0
    """Those of them that failed."""
    failure: str = ""
    """Why calls failed, where some did: the commonest reason in the log."""

    @property
    def log(self) -> Path:
        """The log of the run."""
        return self.study.log

    @property
    def each(self) -> tuple[AblationResult, ...]:
        """This result and those beside it, one a model and table."""
        return (self, *self.beside)
