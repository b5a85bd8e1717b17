"""Metrics as columns: which there are, and how they are read from a row's JSON.

Tasks have different metrics and a metric may appear late, so every row is asked. A metric that is text anywhere
is kept as text: the string "nan" cast to a number would poison averages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pcsuite.analysis.log_bytes import Stretch
from pcsuite.analysis.log_schema import sql_name, sql_text

METRIC_PREFIX = "metric_"
_TYPES = {"number": "DOUBLE", "text": "VARCHAR"}
_PROBES = 64
_PROBE_BYTES = 1 << 16


class _Metrics(msgspec.Struct):
    metrics: dict[str, Any]


def metric_select_sql(metrics: Mapping[str, str], source: str = "metrics") -> str:
    """The select list of the metric columns, each beginning with a comma."""
    shape = sql_text(json.dumps({name: _TYPES[kind] for name, kind in metrics.items()}))
    # One transformation for all of them: DuckDB computes an expression that repeats once.
    return "".join(
        f", json_transform({source}, {shape}).{sql_name(name)} AS {sql_name(METRIC_PREFIX + name)}"
        for name in metrics
    )


def found_metrics(connection: Any, rows: str) -> dict[str, str]:
    """Every metric in some rows (a table expression with a column ``metrics``), sorted, and its kind."""
    # Most rows have numbers only, which one look at the text tells; the kind of each value is asked of the rest.
    shapes = connection.execute(
        "SELECT DISTINCT json_keys(metrics) AS keys, CASE WHEN regexp_matches(metrics, ':\\s*[\"\\[{]') THEN"
        " list_transform(json_extract(metrics, '$.*'), lambda x: json_type(x)) END AS kinds"
        f" FROM {rows} WHERE metrics IS NOT NULL"
    ).fetchall()
    found: dict[str, bool] = {}
    for keys, kinds in shapes:
        texts = [kind in ("VARCHAR", "OBJECT", "ARRAY") for kind in kinds] if kinds else [False] * len(keys)
        for key, is_text in zip(keys, texts, strict=True):
            if '"' not in key:
                found[key] = found.get(key, False) or is_text
    return _named(found)


def merged_metrics(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The metrics of several parts; text in one of them is text."""
    found: dict[str, bool] = {}
    for metrics in several:
        for name, kind in metrics.items():
            found[name] = found.get(name, False) or kind == "text"
    return _named(found)


def guess_metrics(stretches: Sequence[Stretch]) -> dict[str, str]:
    """The metrics of a few lines from all over a log, which are nearly always all of them."""
    found: dict[str, bool] = {}
    decode = msgspec.json.Decoder(_Metrics).decode
    for line in _scattered_lines(stretches):
        try:
            metrics = decode(line).metrics
        except msgspec.MsgspecError:
            continue
        for name, value in metrics.items():
            if '"' not in name:
                found[name] = found.get(name, False) or isinstance(value, (str, dict, list))
    return _named(found)


def _scattered_lines(stretches: Sequence[Stretch]) -> Iterable[bytes]:
    """Whole lines from places all over plain files, and from the beginning of compressed ones."""
    total = sum(stretch.end - stretch.start for stretch in stretches)
    step = max(1, total // _PROBES)
    for stretch in stretches:
        size = stretch.end - stretch.start
        starts = range(0, size, step) if not stretch.segment.compressed else range(1)
        with stretch.segment.open() as stream:
            for start in starts:
                stream.seek(start)
                lines = stream.read(_PROBE_BYTES).split(b"\n")
                yield from lines[1 if start else 0 : -1 if start + _PROBE_BYTES < size else None]


def _named(found: Mapping[str, bool]) -> dict[str, str]:
    return {name: "text" if found[name] else "number" for name in sorted(found)}
