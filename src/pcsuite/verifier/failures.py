"""What goes wrong most often over several evals: the raw material of a better prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pcsuite.verifier.paths import parse_path, pattern_of
from pcsuite.verifier.results import Scored

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind of error on one field, how often it occurred, and a few examples."""

    field: str
    error_type: str
    count: int
    examples: tuple[dict[str, Any], ...]


def summarise_failures(scored: Iterable[tuple[str, Scored]]) -> list[Failure]:
    """Errors of several evals by field and type, most frequent first."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for eval_id, one in scored:
        for entry in one.comparison.discrepancies:
            key = (_pattern(entry.field_path), entry.error_type)
            found.setdefault(key, []).append({"eval_id": eval_id, **entry.as_dict()})
    failures = [
        Failure(field, kind, len(entries), tuple(entries[:_EXAMPLES]))
        for (field, kind), entries in found.items()
    ]
    return sorted(failures, key=lambda failure: (-failure.count, failure.field, failure.error_type))


def _pattern(path: str) -> str:
    try:
        return pattern_of(parse_path(path))
    except ValueError:  # a key the model made up can hold any character
        return path
