"""What a page of a run is about, and the address that says so: every state of a page is in its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pcsuite.config.spellings import regime_id
from pcsuite.errors import ConfigError

if TYPE_CHECKING:
    from pcsuite.view.data import OpenRun

AXES = {
    "condition": "condition_id",
    "model": "model_id",
    "decoding": "decoding_id",
    "perturbation": "perturbation_type",
}
"""What the columns of a matrix may be; the others are filters."""
OUTCOMES = ("unreadable", "truncated", "abstained", "failed")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which items and cells a page is about; every field is a parameter of its address."""

    task: str
    columns: str = "condition"
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Value of each axis that is not the columns."""
    base: str = ""
    only: str = ""
    """``differ``, ``fixed:COLUMN``, ``broken:COLUMN``, or one of :data:`OUTCOMES`."""
    query: str = ""
    label: str = ""
    """Truth that the items have."""
    marked: str = ""
    sort: str = "item"
    """``item``, ``score:COLUMN`` or ``gain:COLUMN``; a leading ``-`` turns it round."""


def filter_of(run: OpenRun, query: Mapping[str, str]) -> Filter:
    """The filter that an address asks for; what it does not say is the first of its kind.

    Raises ``ConfigError`` for a task, axis or value that the run does not have.
    """
    task = query.get("task") or next(iter(run.values))
    if task not in run.values:
        raise ConfigError(f"the run has no task '{task}'")
    columns = query.get("columns") or "condition"
    if columns not in AXES:
        raise ConfigError(f"columns cannot be '{columns}'", hint=f"choose from: {', '.join(AXES)}")
    values = run.values[task]
    fixed = {}
    for axis in AXES:
        if axis != columns:
            wanted = regime_id(query.get(axis)) or values[axis][0]  # addresses may be older than the ids
            if wanted not in values[axis]:
                raise ConfigError(f"task '{task}' has no {axis} '{wanted}'")
            fixed[axis] = wanted
    base = regime_id(query.get("base")) or values[columns][0]
    if base not in values[columns]:
        raise ConfigError(f"there is no column '{base}' to compare with")
    return Filter(
        task, columns, fixed, base, query.get("only", ""), query.get("q", ""), query.get("label", ""),
        query.get("marked", ""), query.get("sort", "item"),
    )  # fmt: skip


def filter_like(run: OpenRun, wanted: Filter) -> Filter:
    """The same filter for another run, whose own values stand in where it has one of a kind and that is another."""
    if wanted.task not in run.values:
        raise ConfigError(f"run '{run.name}' has no task '{wanted.task}'")
    values = run.values[wanted.task]
    fixed = {}
    for axis, value in wanted.fixed.items():
        if value not in values[axis] and len(values[axis]) > 1:
            raise ConfigError(f"run '{run.name}' has no {axis} '{value}'")
        fixed[axis] = value if value in values[axis] else values[axis][0]
    return replace(wanted, fixed=fixed, only="", query="", label="", marked="")


def address(path: str, parameters: Mapping[str, Any]) -> str:
    """A link with the parameters that are not empty, in a fixed order, so that equal states have equal addresses."""
    kept = {name: value for name, value in sorted(parameters.items()) if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path


def state_of(wanted: Filter) -> dict[str, str]:
    """The parameters of an address that say what a filter does."""
    named = {
        "task": wanted.task,
        "columns": wanted.columns,
        "base": wanted.base,
        "only": wanted.only,
        "q": wanted.query,
    }
    return {**named, "label": wanted.label, "marked": wanted.marked, "sort": wanted.sort, **wanted.fixed}
