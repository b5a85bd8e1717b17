"""Effects of whatever is looked at: recomputed from the scores of the items that a filter lets through."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.pairings import ConditionContrast
from pcsuite.contrasts import (
    FORM,
    ArmScores,
    Contrast,
    Family,
    Measurement,
    ReadEffect,
    is_form,
    is_reliable,
    measure,
)
from pcsuite.evaluation.answer_probability import answer_span
from pcsuite.stats.estimate import FloatArray

QUICK_FLIPS = 2_000
"""Resamples of a slice: enough to look by; a report takes more."""
MANY = 500
"""Items from which on Student's t stands in for resampling."""
SHORTEST_SAME = 3
"""Characters between two changes that count as kept; fewer are shown as changed too."""
LONGEST_DIFF = 20_000
"""Characters of two answers that are set against each other."""


@dataclass(slots=True)
class SliceEffect:
    """What a column changed against the base, on the items of a slice."""

    column: str
    measured: Measurement
    p_bh: float = float("nan")
    low: float = float("nan")
    """Limits that hold for all effects shown together (:func:`adjust_together`): whoever looks picks among them."""
    high: float = float("nan")
    p_symmetric_bh: float | None = None
    """The corrected p-value that the sign flips of graded scores have; ``None`` where there is no such grade."""
    lenient: Measurement | None = None
    """The same under the lenient rules; ``None`` where the rows have no such scores, or every one is the strict one."""
    lenient_p_bh: float = float("nan")

    @property
    def form(self) -> str:
        """What stands beside it where the strict and the lenient reading of the answers do not agree; else empty."""
        if self.lenient is None:
            return ""
        strict = ReadEffect(self.value, self.holds, measured=self.measured)
        held = is_reliable(self.lenient_p_bh)
        lenient = ReadEffect(self.lenient.estimate.value, held, measured=self.lenient)
        return FORM if is_form(strict, lenient) else ""

    @property
    def lenient_value(self) -> float:
        """The column less the base under the lenient rules."""
        return self.value if self.lenient is None else self.lenient.estimate.value

    @property
    def n(self) -> int:
        """Items that both columns have."""
        return self.measured.n

    @property
    def n_clusters(self) -> int | None:
        """Clusters of those items; ``None`` where no items are related."""
        return None if self.measured.clusters is None else self.measured.n_clusters

    @property
    def reason(self) -> str:
        """Why it was not tested; empty where it was."""
        return self.measured.reason

    @property
    def control(self) -> float:
        """Mean score of the base."""
        return list(self.measured.levels.values())[1]

    @property
    def treated(self) -> float:
        """Mean score of the column."""
        return next(iter(self.measured.levels.values()))

    @property
    def value(self) -> float:
        """The column less the base."""
        return self.measured.estimate.value

    @property
    def p_value(self) -> float:
        """Of the effect by itself; ``nan`` where it was not tested."""
        return self.measured.test.p_value

    @property
    def tentative(self) -> bool:
        """Whether it holds after correction only if differences to either side are alike, of graded scores."""
        return self.p_symmetric_bh is not None and is_reliable(self.p_symmetric_bh) and not self.holds

    @property
    def gained(self) -> int:
        """Items that are better under the column."""
        return int((self.measured.differences > 0).sum())

    @property
    def lost(self) -> int:
        """Items that are worse under it."""
        return int((self.measured.differences < 0).sum())

    @property
    def holds(self) -> bool:
        """Whether it holds after correction over the columns."""
        return is_reliable(self.p_bh)


@dataclass(frozen=True, slots=True)
class SliceScores:
    """Scores of the items of a slice by column, in the order of ``items``; ``nan`` where there is none."""

    items: list[str]
    columns: Mapping[str, FloatArray]
    clusters: npt.NDArray[Any] | None = None
    """The cluster of each item, ``None`` among them for one that stands for itself; ``None`` where all do."""
    replicates: Mapping[str, float] = field(default_factory=dict)
    """Answers behind a score, by column, where they are more than one."""
    lenient: Mapping[str, FloatArray] = field(default_factory=dict)
    """Scores under the lenient rules by column, of the columns that have them."""
    ambiguous: npt.NDArray[np.bool_] | None = None
    """Whether an item has an answer that can be read in two ways; ``None`` where nothing is known of them."""

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Mapping[str, float]],
        clusters: Mapping[str, str] | None = None,
        replicates: Mapping[str, float] | None = None,
        lenient: Mapping[str, Mapping[str, float]] | None = None,
    ) -> SliceScores:
        """From scores (and those under the ``lenient`` rules) by column and item, and clusters by item."""
        items = sorted(set().union(*scores.values())) if scores else []
        labels = [(clusters or {}).get(item) for item in items]
        columns, lenient_columns = (
            {
                name: np.array([by_item.get(item, np.nan) for item in items])
                for name, by_item in by_column.items()
            }
            for by_column in (scores, lenient or {})
        )
        return cls(items, columns, related(labels), replicates or {}, lenient_columns)

    def without(self, left_out: Collection[str]) -> SliceScores:
        """The scores of all other items."""
        indices = [index for index, item in enumerate(self.items) if item not in left_out]
        return replace(
            self,
            items=[self.items[index] for index in indices],
            columns={name: column[indices] for name, column in self.columns.items()},
            lenient={name: column[indices] for name, column in self.lenient.items()},
            clusters=None if self.clusters is None else self.clusters[indices],
            ambiguous=None if self.ambiguous is None else self.ambiguous[indices],
        )

    def means(self) -> dict[str, float]:
        """Mean of each column that has any score."""
        return {
            name: float(np.nanmean(column))
            for name, column in self.columns.items()
            if np.isfinite(column).any()
        }


def slice_effects(scores: SliceScores, base: str, columns: Sequence[str]) -> list[SliceEffect]:
    """The effect of each column against ``base`` on the items that both have, corrected over the columns.

    With many items the interval and the p-value are those of Student's t, so that a page answers at once. A slice that
    was chosen after looking at the scores explores: its p-values hold for slices chosen beforehand.

    >>> (effect,) = slice_effects(SliceScores.of({"C0": {"a": 0, "b": 0}, "C1": {"a": 1, "b": 0}}), "C0", ["C1"])
    >>> effect.value, effect.gained
    (0.5, 1)
    """
    arms, lenient = (
        {
            name: ArmScores(values, replicates=scores.replicates.get(name, 1.0), clusters=scores.clusters)
            for name, values in by_column.items()
        }
        for by_column in (scores.columns, scores.lenient)
    )
    effects = []
    for column in columns:
        if column == base or column not in arms or base not in arms:
            continue
        change = _measured(arms, column, base)
        if change.n:
            effects.append(SliceEffect(column, change))
            read_alike = all(
                name not in lenient or np.array_equal(lenient[name].values, arms[name].values, equal_nan=True)
                for name in (column, base)
            )
            if not read_alike:
                effects[-1].lenient = _measured(arms | lenient, column, base)
    adjust_together(effects)
    return effects


def _measured(arms: Mapping[str, ArmScores], column: str, base: str) -> Measurement:
    (change,) = measure(
        arms,
        [Contrast.of(column, base)],
        rng=named_rng("view", base, column),
        resamples=QUICK_FLIPS,
        student_from=MANY,
    )
    return change


def contrast_effects(
    scores: SliceScores, base: str, contrasts: Sequence[ConditionContrast]
) -> list[tuple[ConditionContrast, SliceEffect]]:
    """Effects of contrasts between columns, corrected as the matrix corrects them.

    Every comparison with ``base`` is of one family, whichever way round it is asked; what compares two other columns is
    of another. So a contrast has one corrected p-value on every page.
    """
    with_base = {effect.column: effect for effect in slice_effects(scores, base, list(scores.columns))}
    listed, others = [], []
    for contrast in contrasts:
        if contrast.baseline == base:
            if contrast.condition in with_base:
                listed.append((contrast, with_base[contrast.condition]))
            continue
        for effect in slice_effects(scores, contrast.baseline, [contrast.condition]):
            if contrast.condition == base and contrast.baseline in with_base:
                turned = with_base[contrast.baseline]
                effect.p_bh, effect.p_symmetric_bh = turned.p_bh, turned.p_symmetric_bh
                effect.low, effect.high = -turned.high, -turned.low
            else:
                others.append(effect)
            listed.append((contrast, effect))
    adjust_together(others)
    return listed


def adjust_together(effects: Sequence[SliceEffect]) -> None:
    """Set what depends on the effects that are shown together: corrected p-values, and limits that hold for all.

    P-values are those after Benjamini and Hochberg; limits are Bonferroni's, since the reader's eye picks the largest.
    """
    family = Family("bh")
    adjusted = family.corrected([effect.p_value for effect in effects])
    symmetric = [effect.measured.under("symmetric").test.p_value for effect in effects]
    bolder = family.corrected(symmetric)
    level = 1 - family.alpha / max(1, len(effects))
    read = family.corrected([(effect.lenient or effect.measured).test.p_value for effect in effects])
    for effect, p_value, bold, lenient_p in zip(
        effects, adjusted.tolist(), bolder.tolist(), read.tolist(), strict=True
    ):
        effect.p_bh = p_value
        effect.lenient_p_bh = lenient_p
        effect.p_symmetric_bh = None if effect.measured.symmetric is None else bold
        limits = effect.measured.limits_at(level) if len(effects) > 1 else effect.measured.estimate
        effect.low, effect.high = limits.low, limits.high


def related(labels: Sequence[str | None]) -> npt.NDArray[Any] | None:
    """Labels of clusters as an array; ``None`` where no label comes twice."""
    named = [label for label in labels if label]
    return (
        np.array([label or None for label in labels], dtype=object) if len(set(named)) < len(named) else None
    )


class Span(NamedTuple):
    """A piece of a text beside another: ``same``, ``gone`` or ``new``."""

    kind: str
    text: str


def word_diff(old: str, new: str) -> list[Span]:
    """The words of two texts set against each other, white space kept; long texts are cut.

    >>> [tuple(span) for span in word_diff("a red fox", "a grey fox")]
    [('same', 'a '), ('gone', 'red'), ('new', 'grey'), ('same', ' fox')]
    """
    first, second = (re.findall(r"\s+|\w+|[^\w\s]", text[:LONGEST_DIFF]) for text in (old, new))
    opcodes = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    spans: list[Span] = []
    gone = new_words = ""
    for number, (tag, i, j, k, m) in enumerate(opcodes):
        same = "".join(first[i:j])
        # A blank or a sign that two rewritten passages happen to share would only tear them apart.
        torn = 0 < number < len(opcodes) - 1 and len(same.strip()) < SHORTEST_SAME
        if tag == "equal" and not torn:
            spans += [span for span in (Span("gone", gone), Span("new", new_words)) if span.text]
            spans.append(Span("same", same))
            gone = new_words = ""
        else:
            gone += same
            new_words += "".join(second[k:m])
    return spans + [span for span in (Span("gone", gone), Span("new", new_words)) if span.text]


def read_part(text: str, answer: str | None, fields: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """A text in pieces, each with whether the answer was read from it; one piece where that is unknown.

    >>> read_part("so it is 12", "12", {})
    [(False, 'so it is '), (True, '12')]
    """
    span = answer_span(text, answer, fields) if answer else None
    if span is None:
        return [(False, text)]
    pieces = [(False, text[: span[0]]), (True, text[span[0] : span[1]]), (False, text[span[1] :])]
    return [(is_read, piece) for is_read, piece in pieces if piece]


class PromptSegment(NamedTuple):
    """A piece of a prompt, and the operator that brought it; empty for what the bare prompt has."""

    operator: str
    text: str


def prompt_blocks(
    prompts: Mapping[str, str], bundles: Mapping[str, Sequence[str]], condition: str
) -> list[PromptSegment]:
    """A prompt in pieces named after the operators that brought them, as the prompts of all conditions tell.

    A line belongs to the operators that every condition with this line has and no condition without it has. A line that
    no operator explains so (its words change with another operator) is named after those by which the condition differs
    from the nearest one that lacks the line. Blank lines go with the line before. ``prompts`` are those of one item by
    condition.

    >>> prompts = {"C0": "Sort it.", "C1": "Be brief.\\nSort it."}
    >>> prompt_blocks(prompts, {"C0": [], "C1": ["TONE"]}, "C1")
    [PromptSegment(operator='TONE', text='Be brief.\\n'), PromptSegment(operator='', text='Sort it.')]
    """
    operators = {name: set(bundles.get(name, ())) for name in prompts}
    shared = {name: lines_in(prompts[condition], text) for name, text in prompts.items()}
    blocks: list[PromptSegment] = []
    for number, line in enumerate(prompts[condition].splitlines(keepends=True)):
        words = line.strip()
        if words or not blocks:
            lacking = [name for name in prompts if number not in shared[name]]
            owner = _brought_by(
                condition, [name for name in prompts if name not in lacking], lacking, operators
            )
            name = "+".join(operator for operator in bundles.get(condition, ()) if operator in owner)
        else:
            name = blocks[-1].operator
        if blocks and blocks[-1].operator == name:
            blocks[-1] = PromptSegment(name, blocks[-1].text + line)
        else:
            blocks.append(PromptSegment(name, line))
    return blocks


def lines_in(prompt: str, other: str) -> set[int]:
    """Numbers of the lines of a prompt that another one has too.

    A line that stands more often in the prompt than in the other is the other's where its neighbours are as well: an
    example may begin with the same word as the input that follows it.

    >>> lines_in("Example\\nInput:\\na\\nInput:\\nb", "Input:\\nb")
    {3, 4}
    """
    mine, theirs = ([line.strip() for line in text.splitlines()] for text in (prompt, other))
    enough = Counter(mine) - Counter(theirs)
    aligned = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    beside = {index for block in aligned for index in range(block.a, block.a + block.size)}
    # One that was only moved stands there too.
    moved = {index for index, line in enumerate(mine) if line in theirs and not enough[line]}
    return beside | moved


def _brought_by(
    condition: str, having: Sequence[str], lacking: Sequence[str], operators: Mapping[str, set[str]]
) -> set[str]:
    """The operators of a condition that a line came with, by who has the line and who lacks it."""
    if not lacking:
        return set()
    common = set.intersection(*(operators[name] for name in having))
    exact = common - set().union(*(operators[name] for name in lacking))
    if exact:
        return exact
    below = [name for name in lacking if operators[name] < operators[condition]]
    nearest = max(below, key=lambda name: len(operators[name]), default=None)
    return operators[condition] - operators[nearest] if nearest is not None else set()


def scatter_points(scores: SliceScores, first: str, second: str, digits: int = 2) -> list[dict[str, Any]]:
    """Points of two columns against each other: each pair of scores with how many items have it, and some of them."""
    by_scores: dict[tuple[float, float], list[str]] = {}
    missing = np.full(len(scores.items), np.nan)
    pairs = zip(
        scores.columns.get(first, missing).tolist(), scores.columns.get(second, missing).tolist(), strict=True
    )
    for item, (x, y) in zip(scores.items, pairs, strict=True):
        if x == x and y == y:  # a missing score is not equal to itself
            by_scores.setdefault((round(x, digits), round(y, digits)), []).append(item)
    return [
        {"x": x, "y": y, "n": len(items), "items": items[:12]} for (x, y), items in sorted(by_scores.items())
    ]
