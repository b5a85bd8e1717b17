"""``efficiency.csv``, ``unsupported.csv`` and ``abstention.csv``: what an answer costs, invents or declines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import (
    CLEAN,
    SCORE,
    CellKey,
    CellScores,
    ItemScores,
    ItemValues,
    on_common_items,
)
from pcsuite.analysis.table import (
    CELL,
    N_ITEMS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    mean_columns,
    number,
)
from pcsuite.analysis.twins import SEARCH_LOOP, doing, free_twin
from pcsuite.stats import rates
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES, UNBOUNDED, paired_bootstrap
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.estimate import Estimate, FloatArray, undefined
from pcsuite.stats.f1 import linearised_f1
from pcsuite.stats.related_rows import cluster_numbers, cluster_rows, cluster_sums

EFFICIENCY = TableSpec(
    "efficiency",
    "Efficiency and constraints",
    "task, model, regime and condition",
    (
        *CELL,
        Column("n_items", "items with an answer", shown=False),
        *interval("score", "the score, as in summary_by_condition.csv", form="number"),
        Column("tokens_per_answer", "mean tokens of an answer, all its calls together"),
        Column("prompt_tokens", "mean tokens of the prompt", shown=False),
        Column("completion_tokens", "mean tokens of the completion", shown=False),
        Column("cached_tokens", "mean prompt tokens that the server had cached, where it says", shown=False),
        *interval(
            "tokens_per_correct",
            "all tokens over all right answers; an empty upper limit is open, for so few were right",
            form="number",
        ),
        Column("cost_usd_per_answer", "mean price of an answer in US dollars, where the price is known", shown=False),
        Column("cost_usd_per_correct", "US dollars over right answers"),
        Column("calls_per_answer", "mean calls for an answer"),
        Column("latency_ms", "mean milliseconds of an answer", shown=False),
        *interval(
            "constraint_failure_rate", "constrained answers that were cut off or do not conform", form="number"
        ),
        Column(
            "constraint_broken_rate",
            "constrained answers that the constraint should not have let through: ended and not conforming, or cut and"
            " no beginning of anything that conforms",
        ),
        Column("unconstrained", "the condition with the same operators except the constraint"),
        *interval("token_overhead", "tokens more than under the unconstrained condition", form="number"),
        Column("token_overhead_share", "the same as a share of the unconstrained tokens"),
        Column("on_pareto_front", "no other cell of the task is both better and cheaper, by the figures as they are"),
        Column("front_probability", "how often it is, when the items that all cells of the task have are resampled"),
    ),
    note=(
        "Constraint failures count truncation. Token overhead is against the same condition without the constraint."
        " A Pareto front is drawn from noisy figures: a cell is on it for sure only at a front probability near 1, and"
        " near 0.5 by a coin's toss."
    ),
    folded=True,
)  # fmt: skip
UNSUPPORTED = TableSpec(
    "unsupported",
    "Unsupported content",
    "task, model, regime and condition that measures it",
    (
        *CELL,
        Column("retrieval", "the condition searches a corpus"),
        Column("n_items", "items whose answers make a claim"),
        Column("n_without_claims", "items whose answers make none"),
        *interval("unsupported_rate", "share of claims that nothing supports"),
        *interval(
            "unsupported_per_100_tokens", "unsupported claims per 100 completion tokens", form="number"
        ),
        *interval(
            "contradiction_rate", "answers that contradict themselves, by the verifier pass", form="number"
        ),
    ),
    note="The rate is over items whose answers make claims; those without (no citation, say) are counted beside it.",
    folded=True,
)
ABSTENTION = TableSpec(
    "abstention",
    "Abstention",
    "condition of a task that has unanswerable items",
    (
        *CELL,
        Column("n_items", N_ITEMS.meaning, shown=False),
        Column("abstained_unanswerable", "declined where nothing could be answered"),
        Column("answered_unanswerable", "answered where nothing could be answered"),
        Column("abstained_answerable", "declined where something could be answered"),
        Column("answered_answerable", "answered where something could be answered"),
        *interval("recall", "share of unanswerable items declined", form="number"),
        *interval("misuse", "share of answerable items declined", form="number"),
        *interval("precision", "share of declined items that are unanswerable", form="number"),
        *interval("correct", "share of items declined or answered rightly so", form="number"),
    ),
    note="Counts are items (fractions where replicates differ).",
    folded=True,
)


def efficiency(scores: ItemScores, summary: Table) -> Table:
    """What an answer and a right answer cost, and what a constraint adds: one record per clean cell.

    Scores and their intervals are those of ``summary``. The Pareto front is that of each task over all its cells.
    """
    levels = {
        CellKey(*(row[name] for name in CellKey._fields)): row
        for row in summary.records()
        if row["perturbation"] == CLEAN
    }
    records: list[dict[str, Any]] = []
    for keys in scores.groups().values():
        for key in keys:
            cell, level = scores.cells[key], levels[key]
            record: dict[str, Any] = {
                **key.names(),
                "n_items": len(cell.items),
                **{name: level[name] for name in ("score", "score_low", "score_high")},
                "tokens_per_answer": _mean(cell, "total_tokens"),
                **{
                    name: _mean(cell, name)
                    for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
                },
                **estimate_columns("tokens_per_correct", _per_correct(scores, cell, "total_tokens")),
                "cost_usd_per_answer": _mean(cell, "cost_usd"),
                # The table has no interval of it: nothing need be resampled.
                "cost_usd_per_correct": number(_per_correct(scores, cell, "cost_usd", resamples=1).value),
                "calls_per_answer": _mean(cell, "attempts"),
                "latency_ms": _mean(cell, "latency_ms"),
            }
            failing, failures = cell.metric("constraint_failed")
            rng = named_rng("constraint failure", *key)
            related = scores.clusters_of(key.task, failing)
            record |= mean_columns("constraint_failure_rate", failures, rng, clusters=related)
            record["constraint_broken_rate"] = _mean(cell, "constraint_broken")
            free = free_twin(scores, key, keys)
            if free is not None:
                record["unconstrained"] = free.condition
                sides = (scores.cells[side].metric("total_tokens") for side in (key, free))
                common, (first, second) = on_common_items(*sides)
                if len(first) > 1:
                    rng = named_rng("token overhead", *key)
                    related = scores.clusters_of(key.task, common)
                    if related is not None:
                        overhead = cluster_interval(first - second, cluster_numbers(related))
                    else:
                        overhead = paired_bootstrap(
                            first, second, rng=rng, resamples=LEVEL_RESAMPLES, bounds=UNBOUNDED
                        )
                    record |= estimate_columns("token_overhead", overhead)
                    if second.mean():
                        record["token_overhead_share"] = number(overhead.value / float(second.mean()))
            records.append(record)
    priced = [row for row in records if row["score"] is not None and row["tokens_per_answer"] is not None]
    for task in {row["task"] for row in priced}:
        rows = [row for row in priced if row["task"] == task]
        front = rates.pareto_front([row["score"] for row in rows], [row["tokens_per_answer"] for row in rows])
        of_task = [
            scores.cells[CellKey(task, row["model"], row["decoding"], CLEAN, row["condition"])]
            for row in rows
        ]
        chances = _front_probability(scores, of_task)
        for index, (row, is_on_front) in enumerate(zip(rows, front, strict=True)):
            row["on_pareto_front"] = bool(is_on_front)
            row["front_probability"] = None if chances is None else float(chances[index])
    return Table.of(EFFICIENCY, records)


def _front_probability(scores: ItemScores, cells: Sequence[CellScores]) -> FloatArray | None:
    """How often each cell of a task is on the front over resamples of the items that all have; ``None`` below two."""
    sides = []
    for cell in cells:
        # Micro-F1 is a mean too, of each item's linearised share in it.
        level = linearised_f1(cell.counts()) if scores.is_pooled(cell.key.task) else cell.values[SCORE]
        both = np.column_stack([level, cell.values["total_tokens"]])
        defined = np.isfinite(both).all(axis=1)
        sides.append(ItemValues(cell.items[defined], both[defined]))
    common, figures = on_common_items(*sides)
    if len(common) < 2:
        return None
    clusters = scores.clusters_of(cells[0].key.task, common)
    quality, price = (
        cluster_rows(np.column_stack([side[:, part] for side in figures]), clusters) for part in (0, 1)
    )
    rng = named_rng("pareto front", cells[0].key.task)
    return rates.front_probability(quality, price, rng=rng, resamples=LEVEL_RESAMPLES)


def _mean(cell: CellScores, metric: str) -> float | None:
    _, values = cell.metric(metric)
    return float(values.mean()) if len(values) else None


def _per_correct(
    scores: ItemScores, cell: CellScores, metric: str, resamples: int = LEVEL_RESAMPLES
) -> Estimate:
    """Total spent over total right, items (or their clusters) being resampled together with what they cost."""
    items, (spent, right) = on_common_items(cell.metric(metric), cell.metric(SCORE))
    if right.sum() <= 0:
        return undefined("not measured, or no right answer")
    clusters = scores.clusters_of(cell.key.task, items)
    spent, right = cluster_sums(spent, clusters), cluster_sums(right, clusters)
    rng = named_rng("per correct", *cell.key, metric)
    return rates.cost_per_correct(spent, right, rng=rng, resamples=resamples)


def unsupported_table(scores: ItemScores) -> Table:
    """``unsupported.csv``: unsupported content and self-contradiction of every clean cell that measures either.

    Rates are over items whose answers make a claim; intervals resample items.
    """
    records = []
    for key in scores.cell_keys():
        cell = scores.cells[key]
        items, rate = cell.metric("unsupported_rate")
        checked, contradicted = cell.metric("contradiction")
        if not len(items) and not len(contradicted):
            continue
        rng = named_rng("unsupported", *key)
        record: dict[str, Any] = {
            **key.names(),
            "retrieval": bool(doing(scores, scores.operators_in(key), SEARCH_LOOP)),
            "n_items": len(items),
        }
        if len(items):
            record["n_without_claims"] = len(cell.items) - len(items)
        record |= mean_columns("unsupported_rate", rate, rng, clusters=scores.clusters_of(key.task, items))
        both, sides = on_common_items(cell.metric("unsupported"), cell.metric("completion_tokens"))
        claims, tokens = (cluster_sums(side, scores.clusters_of(key.task, both)) for side in sides)
        if len(claims) > 1 and tokens.sum() > 0:
            estimate = rates.unsupported_per_100_tokens(claims, tokens, rng=rng, resamples=LEVEL_RESAMPLES)
            record |= estimate_columns("unsupported_per_100_tokens", estimate)
        related = scores.clusters_of(key.task, checked)
        records.append(record | mean_columns("contradiction_rate", contradicted, rng, clusters=related))
    return Table.of(UNSUPPORTED, records)


def abstention_table(scores: ItemScores) -> Table:
    """``abstention.csv``: the abstention matrix of every clean cell of a task that has unanswerable items.

    Counts are of items, fractions where the replicates of an item differ; cells with fewer than two items are left out.
    """
    with_unanswerable = {
        key.task for key in scores.cell_keys() if (scores.cells[key].metric("unanswerable")[1] > 0).any()
    }
    records = []
    for key in scores.cell_keys():
        cell = scores.cells[key]
        items, (abstained, unanswerable) = on_common_items(
            cell.metric("abstained"), cell.metric("unanswerable")
        )
        if key.task not in with_unanswerable or len(abstained) < 2:
            continue
        rng, impossible = named_rng("abstention", *key), (unanswerable > 0).astype(float)
        matrix = rates.abstention_matrix(
            abstained,
            impossible,
            rng=rng,
            resamples=LEVEL_RESAMPLES,
            clusters=scores.clusters_of(key.task, items),
        )
        record: dict[str, Any] = {**key.names(), "n_items": len(abstained)}
        for name in ("unanswerable", "answerable"):
            for what in ("abstained", "answered"):
                record[f"{what}_{name}"] = getattr(matrix, f"{what}_{name}")
        for name in ("recall", "misuse", "precision", "correct"):
            record |= estimate_columns(name, getattr(matrix, name))
        records.append(record)
    return Table.of(ABSTENTION, records)
