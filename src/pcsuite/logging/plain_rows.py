"""Rows in the plain form that the written specification gives them, read as rows of the suite.

They lack what the suite adds (config hash, version, how the prompt was fitted, the canonical answer), leave figures
empty that a backend did not give, and may have no parsed fields. Nothing is written in this form: a log of such rows is
read, reported, checked and rescored, and what is appended to it are rows of the suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

ANSWER_METRICS = ("pred_label", "pred_choice", "gsm8k_pred")
"""Metrics that hold the answer of a plain row, the first that is there."""
ANSWER_FIELDS = ("label", "choice", "answer", "final_answer")
"""Parsed fields that do where no such metric is there."""
_REQUIRED = ("run_id", "task", "model", "condition", "decoding", "seed", "metrics")
_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")


def plain_row(line: bytes) -> dict[str, Any] | None:
    """The values of a plain row, completed to those of a row; ``None`` where the line is no such row.

    >>> plain_row(b'{"run_id": "ab"}') is None
    True
    """
    try:
        row = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    if (
        not isinstance(row, dict)
        or "pcsuite_version" in row
        or any(row.get(key) is None for key in _REQUIRED)
    ):
        return None
    generation, parsed, metrics = row.get("generation"), row.get("parsed"), row["metrics"]
    if not isinstance(metrics, dict) or not all(
        part is None or isinstance(part, dict) for part in (generation, parsed)
    ):
        return None
    if row.get("errors"):  # a call that failed has no answer, whatever stands in its place
        generation = parsed = None
    return {
        "timestamp_utc": "",
        "profile": "",
        "config_hash": "",
        "pcsuite_version": "",
        "git_commit": None,
        "seed_honoured": False,
        "perturbation": {},
        "errors": [],
        **row,
        "task": {"split": "", **row["task"]} if isinstance(row["task"], dict) else row["task"],
        "prompt": {
            "prompt_hash": "",
            "schema_hash": row.get("schema_hash"),
            "template": "",
            "rendered_chars": 0,
            "prompt_tokens": None,
            "padded": 0,
            **_present(row.get("prompt")),
        },
        "generation": None if generation is None else _generation(generation),
        "parsed": None if parsed is None else _parsed(parsed, metrics),
    }


def plain_answer(fields: object, metrics: Mapping[str, Any]) -> str | None:
    """The answer that a plain row gives: by its metrics, else by its parsed fields.

    >>> plain_answer({"label": "Sports"}, {}), plain_answer({"raw": "42"}, {"gsm8k_pred": "42"})
    ('Sports', '42')
    """
    named = fields if isinstance(fields, dict) else {}
    values = [metrics.get(name) for name in ANSWER_METRICS] + [named.get(name) for name in ANSWER_FIELDS]
    return next((str(value) for value in values if value not in (None, "")), None)


def _generation(generation: Mapping[str, Any]) -> dict[str, Any]:
    usage = generation.get("usage")
    # Of a backend that counts nothing every figure is empty, and so is the record.
    counted = isinstance(usage, dict) and all(usage.get(key) is not None for key in _USAGE)
    return {
        "text": "",
        "finish_reason": "",
        "latency_ms": None,
        **_present(generation),
        "usage": usage if counted else None,
    }


def _parsed(parsed: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    fields, valid = parsed.get("fields"), parsed.get("json_valid")
    mode = "not_json" if valid is None else "none" if not valid else "strict"
    return {
        "json_mode": mode,
        "answer": plain_answer(fields, metrics),
        **_present(parsed),
        "fields": fields if isinstance(fields, dict) else {},
    }


def _present(record: object) -> dict[str, Any]:
    """A record without its empty values: they are those of a field left out."""
    return (
        {key: value for key, value in record.items() if value is not None} if isinstance(record, dict) else {}
    )
