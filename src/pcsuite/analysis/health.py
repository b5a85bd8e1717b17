"""What a reader must know before trusting the numbers: failures, exclusions, gaps, and what was simulated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pcsuite.analysis.item_scores import ItemScores, natural_key
from pcsuite.analysis.tables import LoadReport, RunTables

_MOST_MESSAGES = 12


@dataclass(slots=True)
class RunHealth:
    """Counts over the loaded rows."""

    loaded: LoadReport
    rows: int = 0
    first: str = ""
    last: str = ""
    profiles: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    config_hashes: int = 0
    splits: dict[str, list[str]] = field(default_factory=dict)
    """Splits of each task."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Auxiliary rows, which main tables leave out."""
    error_rows: int = 0
    errors: list[tuple[str, int]] = field(default_factory=list)
    """Most frequent error messages."""
    finish_reasons: dict[str, int] = field(default_factory=dict)
    unparsed: int = 0
    """Rows without error from which no answer could be read; they score 0."""
    truncated: int = 0
    seed_not_honoured: int = 0
    tokens_estimated: int = 0
    cache_hits: int = 0
    outside_band: int = 0
    constraint_backends: dict[str, int] = field(default_factory=dict)
    simulated_models: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    """Tools whose logs were imported; scores are theirs."""
    gaps: list[tuple[str, str, list[str]]] = field(default_factory=list)
    """(task, model, conditions that other cells have and this one has not)."""


def run_health(tables: RunTables, scores: ItemScores) -> RunHealth:
    """Gather the counts."""
    health = RunHealth(tables.loaded)
    totals = tables.query(
        "SELECT count(*), min(timestamp_utc), max(timestamp_utc), list(DISTINCT profile ORDER BY profile),"
        " list(DISTINCT pcsuite_version ORDER BY pcsuite_version), count(DISTINCT config_hash),"
        " count(*) FILTER (n_errors > 0), count(*) FILTER (n_errors = 0 AND answer IS NULL),"
        " count(*) FILTER (finish_reason = 'length'), count(*) FILTER (seed_honoured = false),"
        " count(*) FILTER (NOT tokens_exact), count(*) FILTER (cache_hit), count(*) FILTER (band <> 'inside')"
        " FROM runs WHERE kind = 'main'"
    )[0]
    health.rows, health.first, health.last = int(totals[0]), totals[1] or "", totals[2] or ""
    health.profiles = [name for name in totals[3] or [] if name]
    health.versions = [name for name in totals[4] or [] if name]
    health.config_hashes, health.error_rows, health.unparsed = totals[5], totals[6], totals[7]
    health.truncated, health.seed_not_honoured, health.tokens_estimated = totals[8], totals[9], totals[10]
    health.cache_hits, health.outside_band = totals[11], totals[12]
    health.kinds = dict(
        tables.query("SELECT kind, count(*) FROM runs WHERE kind <> 'main' GROUP BY kind ORDER BY kind")
    )
    health.errors = [
        (message, count)
        for message, count in tables.query(
            "SELECT left(errors, 300) AS message, count(*) AS n FROM runs"
            " WHERE kind = 'main' AND n_errors > 0 GROUP BY message ORDER BY n DESC, message LIMIT ?",
            [_MOST_MESSAGES],
        )
    ]
    health.finish_reasons = _counts(tables, "finish_reason")
    health.constraint_backends = _counts(tables, "constraint_backend")
    health.splits = {
        task: list(splits)
        for task, splits in tables.query(
            "SELECT task_id, list(DISTINCT split ORDER BY split) FROM runs"
            " WHERE kind = 'main' GROUP BY task_id"
        )
    }
    health.simulated_models = [name for name, model in scores.models.items() if model.provider == "simulated"]
    health.imported = [
        tool
        for (tool,) in tables.query(
            "SELECT DISTINCT concat_ws(' ', json_extract_string(engine, '$.tool'),"
            " json_extract_string(engine, '$.tool_version')) AS tool FROM runs"
            " WHERE profile LIKE 'imported:%' ORDER BY tool"
        )
    ]
    health.gaps = _gaps(scores)
    return health


def _counts(tables: RunTables, column: str) -> dict[str, int]:
    rows: list[tuple[Any, ...]] = tables.query(
        f"SELECT {column}, count(*) AS n FROM runs WHERE kind = 'main' AND {column} IS NOT NULL"
        f" GROUP BY {column} ORDER BY n DESC, {column}"
    )
    return {name: int(count) for name, count in rows}


def _gaps(scores: ItemScores) -> list[tuple[str, str, list[str]]]:
    every = {key.condition for key in scores.cell_keys()}
    present: dict[tuple[str, str], set[str]] = {}
    for key in scores.cell_keys():
        present.setdefault((key.task, key.model), set()).add(key.condition)
    return [
        (task, model, sorted(every - conditions, key=natural_key))
        for (task, model), conditions in sorted(present.items())
        if every - conditions
    ]
