"""The report's figures, recomputed for whatever the filter lets through.

Each point of a figure has its numbers in words and leads to the matrix of the items behind it. Everything is placed
here, in units of the drawing; the template only writes it down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite._util.text import figure_text, limits_text
from pcsuite.stats.bootstrap import bootstrap_mean, paired_bootstrap
from pcsuite.stats.estimate import Estimate, t_interval
from pcsuite.stats.rates import pareto_front
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import AXES, Filter, state_of
from pcsuite.view.slices import MANY, QUICK_FLIPS

WIDTH, HEIGHT = 640.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 18.0, 14.0, 52.0
LONGEST_NAME = 28
"""Characters of a name below the x axis; longer ones are cut."""
_MOMENTS = (
    "count(value), avg(value), stddev_samp(value),"
    f" CASE WHEN count(value) <= {MANY} THEN list(value ORDER BY value) END"
)
"""What a level is made of: count, mean, spread, and the values themselves where they are few."""
MOST_CONDITIONS = 40
"""Conditions that are drawn; points of more would lie upon each other."""
COLOURS = 8
"""Colours of the style sheet; series beyond them begin anew."""


class FigurePoint(NamedTuple):
    """A point of a figure in its own units, its text, and the parameters of the matrix behind it."""

    x: float
    level: Estimate
    """A mean over items; its limits are ``nan`` where there are none."""
    text: str
    state: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour."""

    name: str
    points: Sequence[FigurePoint]
    joined: bool = False


@dataclass(frozen=True, slots=True)
class PlacedPoint:
    """A point of a figure in units of the drawing."""

    x: float
    y: float
    low: float
    high: float
    text: str
    state: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ViewFigure:
    """A figure ready to be written as SVG."""

    kind: str
    title: str
    note: str
    x_label: str
    y_label: str
    names: Sequence[str]
    """Names at 0, 1, … of the x axis; empty for an axis of numbers."""
    series: Sequence[Series]
    floor: float | None = None
    ceiling: float | None = None

    def placed(self) -> list[tuple[str, list[PlacedPoint], str]]:
        """The series: name, points, and the corners of the line that joins them (empty where none does)."""
        x, y = self._x, self._y
        found = []
        for series in self.series:
            points = []
            for point in series.points:
                limits = (point.level.low, point.level.high)
                low, high = (math.nan if math.isnan(limit) else y(limit) for limit in limits)
                points.append(
                    PlacedPoint(x(point.x), y(point.level.value), low, high, point.text, point.state)
                )
            line = " ".join(f"{point.x:.1f},{point.y:.1f}" for point in points) if series.joined else ""
            found.append((series.name, points, line))
        return found

    @property
    def names_slant(self) -> bool:
        """Whether the names along the x axis are too long to stand side by side."""
        width = (WIDTH - LEFT - RIGHT) / max(1, len(self.names))
        return any(min(len(name), LONGEST_NAME) * 6.6 > width for name in self.names)

    @property
    def height(self) -> float:
        """Units of the drawing from top to bottom, with the room that slanted names need."""
        longest = max((min(len(name), LONGEST_NAME) for name in self.names), default=0)
        return HEIGHT + (4.6 * longest if self.names_slant else 0.0)

    def x_ticks(self) -> list[tuple[float, str]]:
        """Places and names along the x axis."""
        if self.names:
            return [(self._x(index), name) for index, name in enumerate(self.names)]
        return [(self._x(value), f"{value:g}") for value in _round_ticks(*self._x_range())]

    def y_ticks(self) -> list[tuple[float, str]]:
        """Places and numbers along the y axis."""
        return [(self._y(value), f"{value:g}") for value in _round_ticks(*self._y_range())]

    def _x(self, value: float) -> float:
        low, high = self._x_range()
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def _y(self, value: float) -> float:
        low, high = self._y_range()
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    def _x_range(self) -> tuple[float, float]:
        if self.names:
            return -0.6, len(self.names) - 0.4
        return _padded_range(point.x for series in self.series for point in series.points)

    def _y_range(self) -> tuple[float, float]:
        levels = [point.level for series in self.series for point in series.points]
        seen = [value for level in levels for value in (level.value, level.low, level.high)]
        low, high = _padded_range(value for value in seen if not math.isnan(value))
        return low if self.floor is None else self.floor, high if self.ceiling is None else self.ceiling


def view_figures(
    run: OpenRun, wanted: Filter, marks: Mapping[tuple[str, str], str] | None = None
) -> list[ViewFigure]:
    """Every figure that the rows behind a filter allow, of its task: ladder, entropy, score against tokens, robustness,
    condition by size.

    The model, regime and perturbation are those that the filter fixes, the first of one that it shows as columns.
    """
    values = run.values[wanted.task]
    fixed = {axis: wanted.fixed.get(axis, values[axis][0]) for axis in AXES if axis != "condition"}
    wanted = replace(wanted, columns="condition", fixed=fixed, base=values["condition"][0])
    builder = _FigureBuilder(run, wanted, *run.matching(wanted, marks))
    made = (
        builder.ladder(),
        builder.disagreement(),
        builder.pareto(),
        builder.robustness(),
        builder.by_size(),
    )
    return [figure for figure in made if figure is not None]


class _FigureBuilder:
    """The figures of one filter, and the levels that several of them share."""

    def __init__(self, run: OpenRun, wanted: Filter, items: str, parameters: list[Any]) -> None:
        self._run, self._wanted = run, wanted
        # Without a filter every item counts, and none need be looked up.
        self._chosen = f"item_id IN ({items})" if wanted.is_slice else "TRUE"
        self._parameters = parameters if wanted.is_slice else []
        self._conditions = run.values[wanted.task]["condition"][:MOST_CONDITIONS]
        self._levels: dict[tuple[str, ...], tuple[Estimate, float]] = {}
        inside, given = (
            f"task_id = ? AND score IS NOT NULL AND {self._chosen}",
            [wanted.task, *self._parameters],
        )
        keys = "model_id, decoding_id, perturbation_type, condition_id"
        rows = run.query(
            f"SELECT {keys}, count(score), avg(score), stddev_samp(score), avg(tokens) FROM cells WHERE {inside}"
            " AND condition_id IN (SELECT unnest(?)) GROUP BY ALL",
            [*given, self._conditions],
        )
        # The values themselves are asked for only where they are few enough to be resampled.
        few = [key for *key, n, _, _, _ in rows if n <= MANY]
        listed: dict[tuple[str, ...], list[float]] = {}
        if few:
            wanted_keys = ", ".join(["(?, ?, ?, ?)"] * len(few))
            asked = [part for key in few for part in key]
            found = run.query(
                f"SELECT {keys}, list(score ORDER BY item_id) FROM cells WHERE {inside}"
                f" AND ({keys}) IN ({wanted_keys}) GROUP BY ALL",
                [*given, *asked],
            )
            listed = {tuple(key): values for *key, values in found}
        for *key, n, mean, spread, tokens in rows:
            level = _level(n, mean, spread, listed.get(tuple(key)))
            self._levels[tuple(key)] = (level, float(tokens or 0.0))

    def ladder(self) -> ViewFigure | None:
        """Mean score of each condition by regime."""
        return self._by_condition(
            "ladder",
            "Score by condition",
            "Mean over items with 95 % intervals, replicates averaged within the item.",
            "mean score",
            lambda regime, condition: self._level(condition, decoding=regime),
            floor=0.0,
            ceiling=1.0,
        )

    def disagreement(self) -> ViewFigure | None:
        """How often two replicates of an item differ, by condition and regime."""
        if self._run.query("SELECT max(n) FROM cells WHERE task_id = ?", [self._wanted.task]) == [(1,)]:
            return None
        rows = self._run.cached_query(
            f"SELECT decoding_id, condition_id, {_MOMENTS} FROM (SELECT decoding_id, condition_id, item_id,"
            " 1 - sum(n * (n - 1)) / (sum(n) * (sum(n) - 1)) AS value FROM (SELECT decoding_id, condition_id, item_id,"
            " coalesce(answer, '') AS answer, count(*) AS n FROM runs WHERE kind = 'main' AND n_errors = 0"
            f" AND task_id = ? AND model_id = ? AND perturbation_type = ? AND {self._chosen} GROUP BY ALL)"
            " GROUP BY ALL HAVING sum(n) > 1) GROUP BY ALL",
            [self._wanted.task, *self._fixed("model", "perturbation"), *self._parameters],
        )
        found = {(regime, condition): _level(*moments) for regime, condition, *moments in rows}
        return self._by_condition(
            "entropy",
            "Do replicates agree?",
            "Chance that two answers to the same item differ, unreadable ones counted as one; lower is steadier, not"
            " better.",
            "disagreement",
            lambda regime, condition: found.get((regime, condition)),
            floor=0.0,
        )

    def pareto(self) -> ViewFigure | None:
        """Score against tokens, a point for each condition of a model."""
        regime, perturbation = self._fixed("decoding", "perturbation")
        series = []
        for model in self._values("model"):
            points = []
            for condition in self._conditions:
                level, tokens = self._levels.get((model, regime, perturbation, condition), (None, 0.0))
                if level is not None and tokens:
                    text = f"{condition}, {model}: {_words(level)} at {tokens:.0f} tokens"
                    points.append(FigurePoint(tokens, level, text, self._state(condition, model=model)))
            if points:
                series.append(Series(model, points))
        every = [point for one in series for point in one.points]
        if len(every) < 2:
            return None
        scores, costs = [point.level.value for point in every], [point.x for point in every]
        front = [point for point, on in zip(every, pareto_front(scores, costs), strict=True) if on]
        front.sort(key=lambda point: point.x)
        names = " → ".join(point.text.split(",")[0] for point in front)
        note = (
            f"No other point is both better and cheaper than those of the front ({names}); means are noisy."
        )
        return ViewFigure(
            "pareto", "Score against tokens", note, "tokens per answer", "mean score", (), series
        )

    def robustness(self) -> ViewFigure | None:
        """Score lost under each perturbation, clean less perturbed on the same items."""
        if self._values("perturbation") == ["none"]:
            return None
        rows = self._run.query(
            f"SELECT perturbation_type, condition_id, {_MOMENTS} FROM (SELECT hit.perturbation_type,"
            " hit.condition_id, clean.score - hit.score AS value FROM cells AS hit JOIN cells AS clean USING (task_id,"
            " item_id, model_id, decoding_id, condition_id) WHERE clean.perturbation_type = 'none' AND"
            " hit.perturbation_type <> 'none' AND task_id = ? AND model_id = ? AND decoding_id = ?"
            f" AND {self._chosen} AND clean.score IS NOT NULL AND hit.score IS NOT NULL) GROUP BY ALL",
            [self._wanted.task, *self._fixed("model", "decoding"), *self._parameters],
        )
        found = {(kind, condition): _level(*moments, paired=True) for kind, condition, *moments in rows}
        return self._by_condition(
            "robustness",
            "What perturbations cost",
            "Score lost, clean less perturbed on the same items, with 95 % intervals; above zero is loss.",
            "score lost",
            lambda kind, condition: found.get((kind, condition)),
            series="perturbation",
        )

    def by_size(self) -> ViewFigure | None:
        """Score by model, smallest first, one line a condition."""
        regime, perturbation = self._fixed("decoding", "perturbation")
        notes = self._run.manifest.models
        billions = {name: note.params_b for name, note in notes.items() if note.params_b is not None}
        models = sorted(self._values("model"), key=lambda name: (billions.get(name, math.inf), name))
        if len(models) < 2:
            return None
        series = []
        for condition in self._conditions:
            points = []
            for x, model in enumerate(models):
                level, _ = self._levels.get((model, regime, perturbation, condition), (None, 0.0))
                if level is not None:
                    text = f"{condition} on {model}: {_words(level)}"
                    points.append(FigurePoint(x, level, text, self._state(condition, model=model)))
            if points:
                series.append(Series(condition, points, joined=True))
        if not series:
            return None
        names = [
            f"{name} ({notes[name].size})" if name in notes and notes[name].size else name for name in models
        ]
        note = "The smallest model first, where sizes are known. Parallel lines mean the same effect on every model."
        return ViewFigure(
            "interaction", "Condition by model size", note, "model", "mean score", names, series
        )

    def _by_condition(
        self,
        kind: str,
        title: str,
        note: str,
        y_label: str,
        level_of: Any,
        *,
        series: str = "decoding",
        **limits: float,
    ) -> ViewFigure | None:
        """Conditions along the x axis, the values of another axis side by side; ``None`` where nothing is known."""
        names = [
            name
            for name in self._values(series)
            if any(level_of(name, condition) is not None for condition in self._conditions)
        ]
        found = []
        for index, name in enumerate(names):
            offset = min(0.18, 0.7 / len(names)) * (index - (len(names) - 1) / 2)
            points = []
            for x, condition in enumerate(self._conditions):
                level = level_of(name, condition)
                if level is not None:
                    text = f"{condition}, {name}: {_words(level)}"
                    points.append(
                        FigurePoint(x + offset, level, text, self._state(condition, **{series: name}))
                    )
            found.append(Series(name, points))
        if not found:
            return None
        return ViewFigure(kind, title, note, "condition", y_label, self._conditions, found, **limits)

    def _level(self, condition: str, **axes: str) -> Estimate | None:
        key = {**self._wanted.fixed, **axes}
        found = self._levels.get((key["model"], key["decoding"], key["perturbation"], condition))
        return found[0] if found is not None else None

    def _values(self, axis: str) -> list[str]:
        return self._run.values[self._wanted.task][axis]

    def _fixed(self, *axes: str) -> list[str]:
        return [self._wanted.fixed[axis] for axis in axes]

    def _state(self, condition: str, **axes: str) -> Mapping[str, str]:
        """The matrix of the items behind a point, those with the lowest scores of its condition first."""
        fixed = {**self._wanted.fixed, **axes}
        return state_of(replace(self._wanted, fixed=fixed, sort=f"score:{condition}"))


def _level(
    n: int, mean: float, spread: float | None, values: Sequence[float] | None, *, paired: bool = False
) -> Estimate:
    """A mean with the limits that the pages use: resampled where items are few, Student's t where they are many."""
    if n < 2:
        return Estimate(mean, math.nan, math.nan, n=n)
    if values is not None:
        rng = named_rng("view", "figure", n)
        few = paired_bootstrap if paired else bootstrap_mean
        return few(np.array(values, dtype=np.float64), rng=rng, resamples=QUICK_FLIPS)
    return t_interval(mean, (spread or 0.0) / math.sqrt(n), n - 1, n=n)


def _words(level: Estimate) -> str:
    limits = "" if math.isnan(level.low) else limits_text(level.low, level.high, 3)
    return f"{figure_text(level.value, 3)}{limits} on {level.n:,} item{'' if level.n == 1 else 's'}"


def _padded_range(values: Iterable[float]) -> tuple[float, float]:
    """The least and the largest value with some room around them."""
    seen = list(values)
    low, high = min(seen), max(seen)
    margin = 0.08 * (high - low) or 0.1 * (abs(high) or 1.0)
    return low - margin, high + margin


def _round_ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers within the limits.

    >>> _round_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(step for step in (size / 5, size / 2, size, 2 * size) if (high - low) / step <= 8)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]
