"""A run held against a committed baseline: what the pytest fixture checks, usable without pytest too.

A test must not fail because one answer of forty came out differently today. So the new run is compared with the
baseline item by item (replicates averaged first), by the rules of ``pcsuite compare``: it fails only where the score is
reliably lower and the loss seen is over the margin; it is shown to be no worse where non-inferiority holds at the
margin; what lies between is undecided, and said to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pcsuite._util.text import counted, limits_text, signed
from pcsuite.analysis.baseline import Baseline
from pcsuite.analysis.compare import Comparison
from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.api.runs import Run, compare
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import Standing
from pcsuite.errors import AnalysisError
from pcsuite.reporting.gates import gate_line
from pcsuite.reporting.markdown import comparison_text


@dataclass(frozen=True, slots=True)
class RegressionCheck:
    """How a run stands against its baseline."""

    comparison: Comparison
    baseline: Path
    run: str
    changed_items: int
    """Items that are not compared, because they read otherwise than when the baseline was made."""

    @property
    def standing(self) -> Standing:
        """``worse``, ``no worse`` or ``undecided``.

        ``worse``: reliably lower, and the loss seen is over the margin. ``no worse``: non-inferior at the margin.
        ``undecided``: neither is shown, which more items would change.
        """
        return self.comparison.standing

    @property
    def hides(self) -> bool:
        """Whether missing scores could hide a regression that the scored items do not show."""
        return bool(self.comparison.hidden or self.comparison.unscored)

    @property
    def reach(self) -> str:
        """What the gate can find, in one line; empty where nothing can be said."""
        return gate_line(self.comparison.gates)

    def sentence(self) -> str:
        """The judgement in one line, with the figures it rests on.

        Of several compared cells the figures are those of the largest loss.
        """
        margin = self.comparison.margin
        scores = [record for record in self.comparison.table.records() if record["metric"] == SCORE]
        if not scores:
            return f"{self.run}: not compared with {self.baseline.name}: hardly an item has a score in both"
        worst = min(scores, key=lambda record: record["delta"] or 0.0)
        moved = len(self.comparison.changes)
        judgement = {
            "worse": f"worse than {self.baseline.name}: reliably lower, and the loss seen is over {margin:g}",
            "no worse": f"no worse than {self.baseline.name} (non-inferior at a margin of {margin:g})",
            "undecided": f"neither worse nor shown to be no worse than {self.baseline.name} by {margin:g}",
        }[self.standing]
        limits = limits_text(worst["delta_low"], worst["delta_high"], 3)
        figures = (
            f"score {worst['first']:.3f} → {worst['second']:.3f},"
            f" difference {signed(worst['delta'], 3)}{limits}"
            f" over {counted(worst['n_items'], 'item')}, {counted(moved, 'score')} moved"
        )
        left_out = (
            f"; {counted(self.changed_items, 'item')} changed since and left out"
            if self.changed_items
            else ""
        )
        lost = len(self.comparison.missing)
        if lost:
            left_out += f"; {counted(lost, 'score')} missing"
            left_out += ", which could hide a regression" if self.hides else ""
        return f"{self.run}: {judgement} ({figures}{left_out})"

    def details(self, most: int = 12) -> str:
        """The compared cells, and the scores that are lower.

        Of items that score lower in a cell than in the baseline the first ``most`` are named, with both scores.
        """
        lines = [comparison_text(self.comparison, self.baseline.name, self.run)]
        broke = self.comparison.broke
        if broke:
            lines += ["", f"scores that are lower ({len(broke)}):"]
            lines += [
                f"  {change.item_id} ({change.key.task}, {change.key.condition}): {change.first:g} → {change.second:g}"
                for change in broke[:most]
            ]
            lines += [f"  … and {len(broke) - most} more"] if len(broke) > most else []
        return "\n".join(lines)


def check_regression(
    run: Run,
    baseline: Path,
    *,
    margin: float,
    missing: MissingAnswers | None = None,
    allow_different_items: bool = False,
) -> RegressionCheck:
    """Hold a run against a committed baseline, at a margin of the score (0.05 is five points).

    Items whose text or truth changed since the baseline was made are left out; items that only one of the two has are
    refused unless ``allow_different_items``. Scores that are missing are bounded, unless ``missing`` is ``drop``.
    Raises ``AnalysisError`` where the baseline is missing or is of other items than the run, with how to make a new
    one.
    """
    if not 0 < margin < 1:
        raise AnalysisError(f"margin {margin}: a share of the score between 0 and 1 is needed", hint="0.05")
    kept = Baseline.read(baseline)
    changed = len(kept.changed(run.digests()))
    try:
        compared = compare(
            kept, run, margin=margin, missing=missing, allow_different_items=allow_different_items
        )
    except AnalysisError as error:
        raise AnalysisError(
            f"{baseline}: {error.message}: the baseline is of other tasks, models or items",
            hint="make a new one, or compare what both have: allow_different_items=True",
        ) from error
    return RegressionCheck(compared, baseline, run.name, changed)
