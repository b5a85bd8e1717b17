"""The scores of a run by item and cell, aggregated once for each state of its log."""

from __future__ import annotations

from pathlib import Path

from pcsuite._util.files import replacing
from pcsuite._util.hashing import sha256_hex
from pcsuite.analysis.load.item_scores import LENIENT
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import sql_text
from pcsuite.errors import require

CELLS_PARQUET = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 61440)"


def make_cells(tables: RunTables, folder: Path) -> None:
    """Give the tables of a run the view ``cells``: a row for each item and cell, with what pages filter and sort by.

    It lies in ``folder`` as Parquet, made once for each state of the log. The cells of a page (one task, model, regime
    and perturbation) lie together, so that the other row groups of the file are not read.
    """
    tables.execute("SET threads = 2")
    score = tables.metric_column("task_score") or "NULL"
    abstained = tables.metric_column("abstained") or "0"
    # Replicates that have no lenient score count by the strict one, so that both means are over the same answers.
    lenient = (
        f"coalesce({tables.metric_column(LENIENT)}, {score})" if tables.metric_column(LENIENT) else score
    )
    sql = f"""
        SELECT task_id, item_id, model_id, decoding_id, perturbation_type, condition_id, count(*) AS n,
               CAST(avg({score}) FILTER (n_errors = 0) AS DOUBLE) AS score,
               CAST(avg({lenient}) FILTER (n_errors = 0) AS DOUBLE) AS lenient,
               CAST(min({score}) AS DOUBLE) AS low, CAST(max({score}) AS DOUBLE) AS high,
               count({score}) FILTER (n_errors = 0) AS scored,
               count(*) FILTER (n_errors > 0) AS failed,
               count(*) FILTER (n_errors = 0 AND reading = 'ambiguous') AS ambiguous,
               count(*) FILTER (n_errors = 0 AND answer IS NULL AND coalesce({abstained}, 0) = 0) AS unreadable,
               count(*) FILTER (finish_reason = 'length') AS truncated,
               count(*) FILTER (coalesce({abstained}, 0) > 0) AS abstained,
               avg(total_tokens) AS tokens, avg(prompt_tokens) AS prompt_tokens,
               sum(total_tokens) AS all_tokens, sum(prompt_tokens) AS all_prompt_tokens,
               any_value(operators) AS operators,
               arg_max(nullif(cluster, ''), timestamp_utc) AS cluster
        FROM runs WHERE kind = 'main' GROUP BY ALL
        ORDER BY task_id, model_id, decoding_id, perturbation_type, item_id, condition_id
        """
    file = folder / f"cells-{sha256_hex(tables.stamp + sql)[:24]}.parquet"
    for old in folder.glob("cells-*.parquet"):
        if old != file:
            old.unlink(missing_ok=True)
    cells = f"CREATE VIEW cells AS SELECT * FROM read_parquet({sql_text(str(file))})"
    if file.is_file():
        try:
            tables.execute(cells)
            return
        except require("duckdb", "stats").Error:  # damaged: it is made anew
            file.unlink()
    with replacing(file) as partial:
        tables.execute(f"COPY ({sql}) TO {sql_text(str(partial))} {CELLS_PARQUET}")
    tables.execute(cells)
