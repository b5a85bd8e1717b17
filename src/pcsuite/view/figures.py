"""The report's figures, recomputed for whatever the filter lets through.

Here are the queries: each method of the builder makes the records of one of the report's tables, and the figures of
that table are drawn from them. A mark has its numbers in words and leads to the matrix of the items behind it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.contrasts import ArmScores, Contrast, cluster_codes, measure
from pcsuite.errors import PcsuiteError
from pcsuite.pages.figures.declare import Facts, Figure, Record, draw_figures
from pcsuite.stats.estimate import Estimate, t_interval
from pcsuite.stats.rates import pareto_front
from pcsuite.stats.related_rows import mean_over_items
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import AXES, Filter, address, state_of
from pcsuite.view.slices import MANY, QUICK_FLIPS, related

_MOMENTS = "count(value), avg(value), stddev_samp(value)"
"""What a level or a difference of many items is made of: count, mean and spread."""
FIRST_TABLES = ("summary_by_condition", "by_size")
FURTHER_TABLES = ("efficiency", "entropy_by_condition", "robustness_by_attack")
"""Tables of the figures that a page shows at once, and of those that it asks for by themselves: all of them together
take longer than a reader of a large run should wait."""
MOST_CONDITIONS = 40
"""Conditions that are drawn; points of more would lie upon each other."""


def prepare_drawing() -> None:
    """Load what figures are drawn with, by drawing one; nothing where the extra for it is not installed."""
    point = {"task": "", "model": "", "x": 0, "y": 0, "n_items": 1, "across": "", "up": ""}
    with suppress(PcsuiteError):
        draw_figures({"head_to_head": [point]}, Facts(), live=True)


def view_figures(
    run: OpenRun, selection: Filter, marks: Mapping[tuple[str, str], str] | None = None, *tables: str
) -> list[Figure]:
    """Every figure that the rows behind a filter allow, of its task: ladder, ladder by model, condition by size, score
    against tokens, disagreement, robustness; with ``tables``, those of these tables.

    The model, regime and perturbation are those that the filter fixes, the first of one that it shows as columns.
    """
    return _drawn(figure_tables(run, selection, marks, *tables))


def figure_tables(
    run: OpenRun, selection: Filter, marks: Mapping[tuple[str, str], str] | None = None, *tables: str
) -> dict[str, list[Record]]:
    """What :func:`view_figures` draws: records of the report's tables by name, none where there is nothing to draw."""
    values = run.values[selection.task]
    fixed = {axis: selection.fixed.get(axis, values[axis][0]) for axis in AXES if axis != "condition"}
    selection = replace(selection, columns="condition", fixed=fixed, base=values["condition"][0])
    builder = _TableBuilder(run, selection, *run.matching(selection, marks))
    builders: dict[str, Callable[[], list[Record]]] = {
        "summary_by_condition": builder.levels,
        "by_size": builder.by_model,
        "efficiency": builder.costs,
        "entropy_by_condition": builder.disagreement,
        "robustness_by_attack": builder.drops,
    }
    return {name: build() for name, build in builders.items() if name in (tables or builders)}


def head_to_head_figures(
    selection: Filter, across: str, up: str, points: Sequence[Mapping[str, Any]]
) -> list[Figure]:
    """Items by their scores under two columns; point ``k`` leads to ``#point-k`` of the page."""
    common = {"task": selection.task, "model": selection.fixed.get("model", ""), "across": across, "up": up}
    rows = [
        {**common, "x": point["x"], "y": point["y"], "n_items": point["n"], "url": f"#point-{index}"}
        for index, point in enumerate(points)
    ]
    return _drawn({"head_to_head": rows})


def _drawn(tables: Mapping[str, Sequence[Record]]) -> list[Figure]:
    return _drawn_once(json.dumps(tables))


@lru_cache(maxsize=32)
def _drawn_once(tables: str) -> list[Figure]:
    """The live figures of tables that are written as JSON: drawing takes longer than asking for the values again."""
    return draw_figures(json.loads(tables), live=True)


class _TableBuilder:
    """The records of one filter, and the levels that several tables share."""

    def __init__(self, run: OpenRun, selection: Filter, items: str, parameters: list[Any]) -> None:
        self._run, self._selection = run, selection
        # Without a filter every item counts, and none need be looked up.
        self._chosen = f"item_id IN ({items})" if selection.is_slice else "TRUE"
        self._parameters = parameters if selection.is_slice else []
        self._conditions = run.values[selection.task]["condition"][:MOST_CONDITIONS]
        self._levels: dict[tuple[str, ...], tuple[Estimate, float]] = {}
        self._related = bool(run.clusters_of(selection.task))
        inside = f"task_id = ? AND score IS NOT NULL AND {self._chosen}"
        values = [selection.task, *self._parameters]
        keys = "model_id, decoding_id, perturbation_type, condition_id"
        rows = run.query(
            f"SELECT {keys}, count(score), avg(score), stddev_samp(score), avg(tokens) FROM cells WHERE {inside}"
            " AND condition_id IN (SELECT unnest(?)) GROUP BY ALL",
            [*values, self._conditions],
        )
        # The values themselves are asked for only where they are few enough to be resampled.
        few = [key for *key, n, _, _, _ in rows if n <= MANY or self._related]
        listed: dict[tuple[str, ...], tuple[list[float], list[str | None]]] = {}
        if few:
            tuples = ", ".join(["(?, ?, ?, ?)"] * len(few))
            lists = run.query(
                f"SELECT {keys}, list(score ORDER BY item_id), list(cluster ORDER BY item_id) FROM cells WHERE {inside}"
                f" AND ({keys}) IN ({tuples}) GROUP BY ALL",
                [*values, *(part for key in few for part in key)],
            )
            listed = {tuple(key): (scores, clusters) for *key, scores, clusters in lists}
        for *key, n, mean, spread, tokens in rows:
            level = _level(n, mean, spread, *listed.get(tuple(key), (None, None)))
            self._levels[tuple(key)] = (level, float(tokens or 0.0))

    def levels(self) -> list[Record]:
        """Mean score of each condition by regime."""
        model, perturbation = self._fixed("model", "perturbation")
        return [
            self._record("score", self._levels[key][0], condition, decoding=regime)
            for regime in self._values("decoding")
            for condition in self._conditions
            if (key := (model, regime, perturbation, condition)) in self._levels
        ]

    def disagreement(self) -> list[Record]:
        """How often two replicates of an item differ, by condition and regime; unreadable answers count as one."""
        if self._run.query("SELECT max(n) FROM cells WHERE task_id = ?", [self._selection.task]) == [(1,)]:
            return []
        rows = self._run.cached_query(
            f"SELECT decoding_id, condition_id, {_MOMENTS}, {self._lists('value', 'cluster')} FROM"
            " (SELECT decoding_id, condition_id, item_id, nullif(max(cluster), '') AS cluster, 0 AS first,"
            " 1 - sum(n * (n - 1)) / (sum(n) * (sum(n) - 1)) AS value FROM (SELECT decoding_id, condition_id, item_id,"
            " max(cluster) AS cluster, coalesce(answer, '') AS answer, count(*) AS n FROM runs"
            " WHERE kind = 'main' AND n_errors = 0 AND task_id = ? AND model_id = ? AND perturbation_type = ?"
            f" AND {self._chosen} GROUP BY ALL)"
            " GROUP BY ALL HAVING sum(n) > 1) GROUP BY ALL ORDER BY 1, 2",
            [self._selection.task, *self._fixed("model", "perturbation"), *self._parameters],
        )
        return [
            self._record("disagreement", _level(*moments), condition, decoding=regime)
            for regime, condition, *moments in rows
            if condition in self._conditions
        ]

    def costs(self) -> list[Record]:
        """Score and tokens of each condition of a model, and whether no other is both better and cheaper."""
        regime, perturbation = self._fixed("decoding", "perturbation")
        rows: list[Record] = []
        for model in self._values("model"):
            for condition in self._conditions:
                level, tokens = self._levels.get((model, regime, perturbation, condition), (None, 0.0))
                if level is not None and tokens:
                    rows.append(
                        {**self._record("score", level, condition, model=model), "tokens_per_answer": tokens}
                    )
        if len(rows) < 2:
            return []
        front = pareto_front([row["score"] for row in rows], [row["tokens_per_answer"] for row in rows])
        return [{**row, "on_pareto_front": bool(on)} for row, on in zip(rows, front, strict=True)]

    def drops(self) -> list[Record]:
        """Score lost under each perturbation, clean less perturbed on the same items."""
        if self._values("perturbation") == ["none"]:
            return []
        rows = self._paired(
            "treated.perturbation_type",
            ("control", "treated"),
            "(task_id, item_id, model_id, decoding_id, condition_id)",
            "control.perturbation_type = 'none' AND treated.perturbation_type <> 'none'"
            " AND model_id = ? AND decoding_id = ?",
            self._fixed("model", "decoding"),
        )
        return [
            {
                **self._record("drop", _difference(*moments), condition, perturbation=kind),
                "attack": kind,
            }
            for kind, condition, *moments in rows
            if condition in self._conditions
        ]

    def by_model(self) -> list[Record]:
        """Score of each condition and its effect against the first one by model, the smallest model first."""
        regime, perturbation = self._fixed("decoding", "perturbation")
        notes = self._run.manifest.models
        billions = {name: note.params_b for name, note in notes.items() if note.params_b is not None}
        models = sorted(self._values("model"), key=lambda name: (billions.get(name, math.inf), name))
        if len(models) < 2:
            return []
        base = self._selection.base
        effects = {
            (model, condition): _difference(*moments)
            for model, condition, *moments in self._paired(
                "treated.model_id",
                ("treated", "control"),
                "(task_id, item_id, model_id, decoding_id, perturbation_type)",
                "control.condition_id = ? AND treated.condition_id <> ? AND decoding_id = ? AND perturbation_type = ?",
                [base, base, regime, perturbation],
            )
        }
        rows: list[Record] = []
        for model in models:
            size = notes[model].size if model in notes else ""
            for condition in self._conditions:
                level, _ = self._levels.get((model, regime, perturbation, condition), (None, 0.0))
                if level is None:
                    continue
                record = {**self._record("score", level, condition, model=model), "effect": None}
                if (model, condition) in effects:
                    record |= self._record("effect", effects[model, condition], condition, model=model)
                rows.append(
                    {
                        **record,
                        "level": f"{model} ({size})" if size else model,
                        "factor": "",
                        "baseline": base,
                    }
                )
        return rows

    def _paired(
        self, key: str, sides: tuple[str, str], using: str, where: str, parameters: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """Moments of the first side less the second, and the scores of both where they are few, by a key and condition.

        The sides are ``treated`` and ``control``, cells of the same items; ``using`` are the columns that both have in
        common.
        """
        first, second = sides
        lists = self._lists("first", "second", "cluster")
        return self._run.query(
            f"SELECT key, condition_id, {_MOMENTS}, avg(answers), {lists} FROM (SELECT {key} AS key,"
            " treated.condition_id, treated.cluster AS cluster, least(treated.scored, control.scored) AS answers,"
            f" {first}.score AS first, {second}.score AS second, {first}.score - {second}.score AS value"
            f" FROM cells AS treated JOIN cells AS control USING {using}"
            f" WHERE {where} AND task_id = ? AND {self._chosen}"
            " AND control.score IS NOT NULL AND treated.score IS NOT NULL) GROUP BY ALL ORDER BY 1, 2",
            [*parameters, self._selection.task, *self._parameters],
        )

    def _lists(self, *columns: str) -> str:
        """SQL of the values themselves, where they are few enough to be resampled or items are related."""
        limit = "TRUE" if self._related else f"count(value) <= {MANY}"
        order = "ORDER BY value, first, cluster"
        return ", ".join(f"CASE WHEN {limit} THEN list({column} {order}) END" for column in columns)

    def _values(self, axis: str) -> list[str]:
        return self._run.values[self._selection.task][axis]

    def _fixed(self, *axes: str) -> list[str]:
        return [self._selection.fixed[axis] for axis in axes]

    def _record(self, metric: str, level: Estimate, condition: str, **axes: str) -> dict[str, Any]:
        """A level as a record of a table; its mark leads to the items behind it, the lowest of its condition first."""
        fixed = {**self._selection.fixed, **axes}
        state = state_of(replace(self._selection, fixed=fixed, sort=f"score:{condition}"))
        low, high = (None if math.isnan(limit) else limit for limit in (level.low, level.high))
        return {
            "task": self._selection.task,
            "model": fixed["model"],
            "decoding": fixed["decoding"],
            "condition": condition,
            "measure": "mean score",
            "n_items": level.n,
            metric: level.value,
            f"{metric}_low": low,
            f"{metric}_high": high,
            f"{metric}_n": level.n,
            "url": address(f"/run/{quote(self._run.name)}", state),
        }


def _level(
    n: int,
    mean: float,
    spread: float | None,
    values: Sequence[float] | None,
    clusters: Sequence[str | None] | None,
) -> Estimate:
    """A mean with the limits that the pages use: resampled where items are few, Student's t where they are many.

    Where items are related the limits are over their clusters, however many.
    """
    if values is None or n < 2:
        return _by_student(n, mean, spread)
    labels = related(clusters or ())
    rng = named_rng("view", "figure", n)
    numbers = None if labels is None else cluster_codes(labels)
    return mean_over_items(np.array(values, dtype=np.float64), numbers, rng=rng, resamples=QUICK_FLIPS)


def _difference(
    n: int,
    mean: float,
    spread: float | None,
    answers: float,
    first: Sequence[float] | None,
    second: Sequence[float] | None,
    clusters: Sequence[str | None] | None,
) -> Estimate:
    """The mean of the first scores less the second, as :mod:`pcsuite.contrasts` measures it.

    Of many items only the moments are read, and the limits are Student's as there. ``answers`` are those behind a
    score, on average.
    """
    if first is None or second is None or n < 2:
        return _by_student(n, mean, spread)
    labels = related(clusters or ())
    arms = {
        name: ArmScores(np.array(side), replicates=answers, clusters=labels)
        for name, side in (("first", first), ("second", second))
    }
    contrast = Contrast.of("first", "second", tested=False)
    (change,) = measure(arms, [contrast], rng=named_rng("view", "figure", n), resamples=QUICK_FLIPS)
    return change.estimate


def _by_student(n: int, mean: float, spread: float | None) -> Estimate:
    if n < 2:
        return Estimate(mean, math.nan, math.nan, n=n)
    return t_interval(mean, (spread or 0.0) / math.sqrt(n), n - 1, n=n)
