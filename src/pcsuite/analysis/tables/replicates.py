"""``self_consistency.csv``, ``variance_components.csv`` and ``constraint_vs_retry.csv``: what replicates tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.load.item_scores import LOGGED_SCORE, CellKey, ItemScores, natural_key
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, CLEAN_KEY, IN_CELL, USABLE, USABLE_CLEAN, sql_text
from pcsuite.analysis.table import (
    CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    estimate_columns,
    interval,
    number,
)
from pcsuite.analysis.twins import RETRY, doing, free_twin, twin_without
from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import LEVEL_RESAMPLES
from pcsuite.stats.equal_tokens import NO_ROW, UNREADABLE, Arm, EqualTokens, compare_at_equal_tokens
from pcsuite.stats.estimate import IntArray
from pcsuite.stats.related_rows import count_clusters
from pcsuite.stats.variance import COMPONENTS, decompose_variance, decompose_variance_unbalanced
from pcsuite.stats.voting import self_consistency

VOTE_ITEMS = 2_000
"""Items of a cell that are voted on, chosen by hash where there are more."""
VOTE_SIZES = (1, 3, 5, 10)
VOTE_REPLICATES = 10
SHORT_ANSWER = 40
"""Characters up to which answers are on average short enough to be voted on."""

SELF_CONSISTENCY = TableSpec(
    "self_consistency",
    "Self-consistency",
    "condition and number of votes",
    (
        *CELL,
        Column("k", "answers that vote"),
        Column("n_items", "items voted on", late=True),
        Column("replicates", "answers of an item to draw the votes from", shown=False),
        *interval("accuracy", "share of items whose majority is right"),
        *interval("gain", "accuracy less that of one answer"),
        Column("exact", "expectation over all votes, not a sample of them", shown=False),
        Column(
            "tie_break",
            "how ties are decided: by the verifier pass, or each tied answer by its share",
            late=True,
        ),
        Column(
            "verdicts_read",
            "share of the answers with a readable verdict; the others' verdicts are left out",
            shown=False,
        ),
        N_CLUSTERS,
    ),
    note="Accuracy of the majority vote of k sampled answers, and its gain over one answer.",
    folded=True,
)
VARIANCE = TableSpec(
    "variance_components",
    "Variance components",
    "condition and source of variance",
    (
        *CELL,
        Column("n_items", "items with the whole grid of perturbations and seeds", shown=False),
        Column("perturbations", "kinds of prompts, the clean one among them", shown=False),
        Column("seeds", "seeds", shown=False),
        Column("component", "source of variance"),
        *interval("variance", "variance of item scores from this source"),
        Column("share", "the same as a share of the whole"),
        Column("method", "moments, or REML where most items have gaps", shown=False),
        Column("note", "what it cannot be told apart from, or why it is missing"),
        N_CLUSTERS,
    ),
    folded=True,
)
CONSTRAINT_VS_RETRY = TableSpec(
    "constraint_vs_retry",
    "Constraint against retries at equal tokens",
    "constrained condition whose run has it free and with retries",
    (
        *CELL[:3],
        Column("constrained", "the constrained condition"),
        Column("retry", "the same free, with retries"),
        Column("free", "the same free, without", shown=False),
        Column("n_items", "items with two readable answers in all three", shown=False),
        Column("constrained_tokens", "mean tokens of a constrained answer"),
        Column("retry_tokens", "mean tokens with every retry"),
        Column("free_tokens", "mean tokens of a free answer"),
        *interval("retries_afforded", "share of the retries that the constraint's tokens pay for", form="number"),
        *interval("disagreement_delta", "disagreement of readable replicates, constrained less retry"),
        *interval("validity_delta", "share of valid answers, constrained less retry"),
        *interval("score_delta", "score, constrained less retry", shown=False),
        *interval("unsupported_delta", "disagreement on unsupported content, constrained less retry", form="number"),
        *interval("unrestricted_delta", "disagreement against every retry, whatever it cost", form="number"),
        Column("note", "why it was not computed"),
        N_CLUSTERS,
    ),
    note=(
        "Differences are constrained less retry, where a retry is made with the probability that the constraint's"
        " tokens pay for; 'unrestricted' is against every retry."
    ),
    folded=True,
)  # fmt: skip


def self_consistency_table(tables: RunTables, scores: ItemScores) -> Table:
    """Majority votes over the sampled answers of tasks with short answers scored right or wrong.

    Cells with at least three replicates of most items take part; votes are over items that have them all.
    """
    score = tables.metric_column(LOGGED_SCORE)
    if score is None:
        return Table(SELF_CONSISTENCY)
    tasks = tables.query(
        f"SELECT task_id FROM cell_rows WHERE {USABLE} GROUP BY task_id HAVING"
        f" avg(len(answer)) <= {SHORT_ANSWER} AND bool_and({score} IN (0, 1))"
    )
    votable = ", ".join(sql_text(task) for (task,) in tasks if not scores.is_pooled(task)) or "NULL"
    cells = tables.query(
        f"SELECT {CELL_KEY}, mode(n) AS usual FROM (SELECT {CELL_KEY}, item_id, count(*) AS n FROM cell_rows"
        f" WHERE {USABLE_CLEAN} AND task_id IN ({votable}) GROUP BY ALL) GROUP BY ALL HAVING usual >= 3"
    )
    verifier = tables.metric_column("verifier_score")
    records = []
    for *names, usual in sorted(cells, key=_in_order):
        key = CellKey(*names)
        replicates = min(int(usual), VOTE_REPLICATES)
        # The first replicates by seed.
        rows = tables.query(
            f"SELECT list(answer ORDER BY seed)[:{replicates}], list({score} ORDER BY seed)[:{replicates}],"
            f" list({verifier or 'NULL'} ORDER BY seed)[:{replicates}], item_id FROM cell_rows"
            f" WHERE {USABLE} AND {IN_CELL} GROUP BY item_id HAVING count(*) >= {replicates}"
            f" ORDER BY md5(item_id) LIMIT {VOTE_ITEMS}",
            key,
        )
        if len(rows) < 2:
            continue
        # Ties go to the answer that the verifier trusts most, where there was a verifier.
        trust = np.array([row[2] for row in rows], dtype=np.float64) if verifier else None
        if trust is not None and not np.isfinite(trust).any():
            trust = None
        clusters = _clusters_of_names(scores, key.task, [row[3] for row in rows])
        votes = self_consistency(
            [list(row[0]) for row in rows],
            np.array([row[1] for row in rows], dtype=np.float64),
            rng=named_rng("self-consistency", *key.names().values()),
            ks=sorted({k for k in VOTE_SIZES if k <= replicates} | {replicates}),
            verifier=trust,
            resamples=LEVEL_RESAMPLES,
            clusters=clusters,
        )
        records += [
            {
                **key.names(),
                "k": vote.k,
                "n_items": len(rows),
                "replicates": replicates,
                **estimate_columns("accuracy", vote.accuracy),
                **estimate_columns("gain", vote.gain),
                "exact": vote.exact,
                "tie_break": "verifier score" if trust is not None else "expected value",
                "verdicts_read": None if trust is None else float(np.isfinite(trust).mean()),
                "n_clusters": count_clusters(clusters),
            }
            for vote in votes
        ]
    return Table.of(SELF_CONSISTENCY, records)


def _clusters_of_names(scores: ItemScores, task: str, names: Sequence[str]) -> IntArray | None:
    """The cluster of each of a task's items, given by id; ``None`` where no two of them are related."""
    if task not in scores.clusters:
        return None
    codes = scores.codes(task)
    return scores.clusters_of(task, np.array([codes[name] for name in names], dtype=np.int64))


def _in_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(natural_key(part) for part in row[:-1] if isinstance(part, str))


def variance_table(tables: RunTables, scores: ItemScores) -> Table:
    """Variance of the item score by source, for each cell with seeds or perturbations to tell apart.

    By moments from the items that have the whole grid of perturbations and seeds; by REML where more than a fifth
    of the items have gaps.
    """
    score = tables.metric_column(LOGGED_SCORE)
    if score is None:
        return Table(VARIANCE)
    cells = tables.query(
        f"SELECT {CLEAN_KEY}, count(DISTINCT perturbation_type) AS p, count(DISTINCT seed) AS s FROM cell_rows"
        f" WHERE {USABLE} AND {score} IS NOT NULL GROUP BY ALL HAVING p > 1 OR s > 1"
    )
    records = []
    for *key, kinds, seeds in sorted(cells, key=_in_order):
        data = tables.columns(
            f"SELECT dense_rank() OVER (ORDER BY item_id) - 1 AS item, dense_rank() OVER (ORDER BY"
            f" perturbation_type) - 1 AS kind, dense_rank() OVER (ORDER BY seed) - 1 AS seed, avg({score}) AS y"
            f" FROM cell_rows WHERE {USABLE} AND task_id = ? AND model_id = ? AND decoding_id = ?"
            f" AND condition_id = ? AND {score} IS NOT NULL GROUP BY item_id, perturbation_type, seed",
            key,
        )
        clusters = None
        if key[0] in scores.clusters:
            listed = tables.query(
                f"SELECT DISTINCT item_id FROM cell_rows WHERE {USABLE} AND task_id = ? AND model_id = ? AND"
                f" decoding_id = ? AND condition_id = ? AND {score} IS NOT NULL ORDER BY item_id",
                key,
            )
            clusters = _clusters_of_names(scores, key[0], [str(name) for (name,) in listed])
        names = dict(zip(("task", "model", "decoding", "condition"), key, strict=True))
        names |= {"perturbations": kinds, "seeds": seeds}
        items, kind, seed = (np.asarray(data[name], dtype=np.int64) for name in ("item", "kind", "seed"))
        grid = np.full((int(items.max()) + 1, int(kinds), int(seeds)), np.nan)
        grid[items, kind, seed] = data["y"]
        complete = np.isfinite(grid).all(axis=(1, 2))
        try:
            # A few gaps cost the items that have them; where most have some, REML takes the rows as they are.
            if complete.sum() >= max(2, 0.8 * len(complete)):
                related = None if clusters is None else clusters[complete]
                parts = decompose_variance(grid[complete], rng=named_rng("variance", *key), clusters=related)
            else:
                parts = decompose_variance_unbalanced(data["y"], items, data["kind"])
        except AnalysisError as error:
            records.append({**names, "n_items": len(complete), "note": f"not computed: {error.message}"})
            continue
        shares = parts.shares()
        for component in COMPONENTS:
            estimate, within = getattr(parts, component), parts.confounded.get(component)
            record = {
                "n_items": estimate.n,
                "component": component,
                **estimate_columns("variance", estimate),
                "share": number(shares[component]),
                "method": parts.method,
                "note": f"not separable, part of {within}" if within else "",
                "n_clusters": count_clusters(clusters),
            }
            records.append(names | record)
    return Table.of(VARIANCE, records)


_ARM_TOKENS = ("constrained_tokens", "retry_tokens", "free_tokens")


class Arms(NamedTuple):
    """The three cells that are compared."""

    free: CellKey
    retry: CellKey
    constrained: CellKey


class EqualTokenArms(NamedTuple):
    """A constrained cell against retries that spend the same tokens, or why that could not be computed."""

    arms: Arms
    at_equal_tokens: EqualTokens | None
    items: npt.NDArray[np.int64]
    """Codes of the items that the rows of ``at_equal_tokens`` are."""
    note: str = ""
    grounded: EqualTokens | None = None
    """The same of unsupported content: all answers without any count as one, and what was not checked as unread.
    ``None`` where the rows do not say what is supported."""
    clusters: IntArray | None = None
    """The cluster of each item, where items are related."""


def _find_arms(scores: ItemScores) -> Iterator[Arms]:
    """Constrained cells whose run also has the same operators free, and free with retries, all with replicates."""
    for group in scores.groups().values():
        # Of conditions with the same operators (one constraint by several backends, say) the last stands for all.
        keys = list({scores.operators_in(key): key for key in group}.values())
        retried = {
            twin_without(scores, key, doing(scores, scores.operators_in(key), RETRY), keys): key
            for key in keys
        }
        for key in keys:
            free = free_twin(scores, key, keys)
            if free is not None and free in retried:
                arms = Arms(free, retried[free], key)
                if all(scores.cells[arm].replicates > 1 for arm in arms):
                    yield arms


def equal_token_arms(tables: RunTables, scores: ItemScores) -> list[EqualTokenArms]:
    """Each constrained cell whose run also has it free and with retries, all with replicates, at equal tokens."""
    entries = []
    for arms in _find_arms(scores):
        try:
            loaded, checked, items = _load_arms(tables, scores, arms)
            clusters = scores.clusters_of(arms.constrained.task, items)
            rng = named_rng("equal tokens", *arms.constrained)
            compared = compare_at_equal_tokens(*loaded, rng=rng, clusters=clusters)
            grounded = None
            if any((arm.answers >= 0).any() for arm in checked):
                rng = named_rng("equal tokens, unsupported", *arms.constrained)
                grounded = compare_at_equal_tokens(*checked, rng=rng, clusters=clusters)
            entries.append(EqualTokenArms(arms, compared, items, grounded=grounded, clusters=clusters))
        except AnalysisError as error:
            no_items = np.empty(0, dtype=np.int64)
            entries.append(EqualTokenArms(arms, None, no_items, f"not computed: {error.message}"))
    return entries


def constraint_vs_retry(compared: Iterable[EqualTokenArms]) -> Table:
    """``constraint_vs_retry.csv``: a record for each of :func:`equal_token_arms`.

    What could not be computed says why in its note.
    """
    records = []
    for entry in compared:
        arms, contest = entry.arms, entry.at_equal_tokens
        record: dict[str, Any] = {**arms.constrained.group(), "note": entry.note}
        record |= {name: cell.condition for name, cell in arms._asdict().items()}
        if contest is not None:
            if not contest.disagreement.defined:
                record["note"] = "too few items have two readable answers in all three arms"
            record |= {
                "n_items": len(contest.rows),
                "n_clusters": None
                if entry.clusters is None
                else count_clusters(entry.clusters[contest.rows]),
                **{name: getattr(contest, name) for name in _ARM_TOKENS},
                **estimate_columns("retries_afforded", contest.share),
                **estimate_columns("disagreement_delta", contest.disagreement),
                **estimate_columns("validity_delta", contest.valid),
                **estimate_columns("score_delta", contest.score),
                **estimate_columns("unrestricted_delta", contest.unrestricted),
            }
        if entry.grounded is not None:
            record |= estimate_columns("unsupported_delta", entry.grounded.disagreement)
        records.append(record)
    return Table.of(CONSTRAINT_VS_RETRY, records)


def _load_arms(
    tables: RunTables, scores: ItemScores, arms: Arms
) -> tuple[tuple[Arm, Arm, Arm], tuple[Arm, Arm, Arm], npt.NDArray[np.int64]]:
    """The arms as tables of items by seeds, the same of unsupported content alone, and the items' codes.

    An answer is known by its hash; one without unsupported content by 0.
    """
    score = tables.metric_column(LOGGED_SCORE)
    if score is None:
        raise AnalysisError("no row has a score")
    unsupported = tables.metric_column("unsupported_rate") or "NULL"
    key = arms.constrained
    where = (
        f"{USABLE_CLEAN} AND task_id = ? AND model_id = ? AND decoding_id = ? AND condition_id IN (?, ?, ?)"
    )
    names = [key.task, key.model, key.decoding, *(arm.condition for arm in arms)]
    # A hash without its last two bits is a whole number from 0 on, as negative ones mark what is no answer.
    data = tables.columns(
        "SELECT dense_rank() OVER (ORDER BY item_id) - 1 AS item, dense_rank() OVER (ORDER BY seed) - 1 AS seed,"
        " CASE condition_id WHEN ? THEN 0 WHEN ? THEN 1 ELSE 2 END AS arm,"
        f" CASE WHEN answer IS NULL THEN {UNREADABLE} ELSE (md5_number_lower(answer) >> 2)::BIGINT END AS answer,"
        f" CASE WHEN answer IS NULL OR {unsupported} IS NULL THEN {UNREADABLE} WHEN {unsupported} = 0 THEN 0"
        " ELSE (md5_number_lower(answer) >> 2)::BIGINT END AS content,"
        " total_tokens::DOUBLE AS tokens, coalesce(schema_valid, answer IS NOT NULL)::DOUBLE AS valid,"
        f" {score}::DOUBLE AS score FROM runs WHERE {where}",
        [arms.free.condition, arms.retry.condition, *names],
    )
    codes = scores.codes(key.task)
    listed = tables.query(f"SELECT DISTINCT item_id FROM runs WHERE {where} ORDER BY item_id", names)
    shape = (int(data["item"].max()) + 1, int(data["seed"].max()) + 1)

    def arm(rows: npt.NDArray[np.bool_], column: str) -> Arm:
        items = data["item"][rows].astype(np.int64)
        answers = np.full(shape, NO_ROW, dtype=np.int64)
        answers[items, data["seed"][rows].astype(np.int64)] = data[column][rows].astype(np.int64)
        count = np.bincount(items, minlength=shape[0]).astype(np.float64)
        count[count == 0] = np.nan
        tokens, valid, points = (
            np.bincount(items, weights=data[name][rows].astype(np.float64), minlength=shape[0]) / count
            for name in ("tokens", "valid", "score")
        )
        return Arm(answers, tokens, valid, points)

    answers, contents = (
        (arm(data["arm"] == 0, column), arm(data["arm"] == 1, column), arm(data["arm"] == 2, column))
        for column in ("answer", "content")
    )
    return answers, contents, np.array([codes[item] for (item,) in listed], dtype=np.int64)
