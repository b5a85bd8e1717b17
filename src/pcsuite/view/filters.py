"""What a page of a run is about, and the address that says so: every state of a page is in its address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from pcsuite._util.text import shorten
from pcsuite.config.spellings import regime_id
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.view.marks import LABELS
from pcsuite.view.where import parse_where

if TYPE_CHECKING:
    from starlette.requests import Request

    from pcsuite.view.data import OpenRun

AXES = {
    "condition": "condition_id",
    "model": "model_id",
    "decoding": "decoding_id",
    "perturbation": "perturbation_type",
}
"""What the columns of a matrix may be; the others are filters."""
OUTCOMES = ("ambiguous", "unreadable", "truncated", "abstained", "failed")


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
    group: str = ""
    """``NAME:VALUE``: value that the items have in one of their columns (a domain, say)."""
    tokens_from: int | None = None
    tokens_to: int | None = None
    """Length of the prompt that the items have under ``base``, in tokens."""
    marked: str = ""
    where: str = ""
    """A condition in the language of :mod:`pcsuite.view.where`."""
    sort: str = "item"
    """``item``, ``score:COLUMN`` or ``gain:COLUMN``; a leading ``-`` turns it round."""

    @property
    def is_slice(self) -> bool:
        """Whether items are left out."""
        limits = (self.tokens_from, self.tokens_to)
        named = (self.only, self.query, self.label, self.group, self.marked, self.where)
        return any(named) or any(limit is not None for limit in limits)


def filter_of(run: OpenRun, query: Mapping[str, str]) -> Filter:
    """The filter that an address asks for; what it does not say is the first of its kind.

    Raises ``ConfigError`` for a task, axis, value or column that the run does not have.
    """
    if not run.values:
        raise ConfigError(f"run '{run.name}' has no answers of the main kind yet")
    task = query.get("task") or next(iter(run.values))
    _one_of("task", task, run.values)
    columns = query.get("columns") or "condition"
    _one_of("columns", columns, AXES)
    values = run.values[task]
    fixed = {}
    for axis in AXES:
        if axis != columns:
            value = regime_id(query.get(axis)) or values[axis][0]  # addresses may be older than the ids
            _one_of(axis, value, values[axis])
            fixed[axis] = value
    base = regime_id(query.get("base")) or values[columns][0]
    _one_of("base", base, values[columns])
    only, sort = query.get("only", ""), query.get("sort") or "item"
    kind, _, name = only.partition(":")
    if kind in ("fixed", "broken"):
        _one_of(f"only={kind}", name, values[columns])
    elif only:
        _one_of("only", only, ("differ", *OUTCOMES))
    kind, _, name = sort.removeprefix("-").partition(":")
    if kind in ("score", "gain"):
        _one_of(f"sort={kind}", name, values[columns])
    else:
        _one_of("sort", sort.removeprefix("-"), ("item",))
    marked = query.get("marked", "")
    if marked:
        _one_of("marked", marked, ("any", *LABELS))
    where = query.get("where", "").strip()
    if where:
        parse_where(where, values[columns])
    return Filter(
        task, columns, fixed, base, only, query.get("q", ""), query.get("label", ""), query.get("group", ""),
        whole_number(query, "tokens_from"), whole_number(query, "tokens_to"), marked, where, sort,
    )  # fmt: skip


def _one_of(name: str, value: str, known: Collection[str]) -> None:
    """Refuse a value that an address may not have, naming those that it may."""
    if value not in known:
        raise ConfigError(f"{name}: there is no '{shorten(value, 80)}' here", hint=did_you_mean(value, known))


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """A whole number of an address from 0 on, ``None`` where it has none; a ``ConfigError`` for anything else."""
    text = query.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ConfigError(f"{name}: '{shorten(text)}' is no whole number from 0 on")
    return int(text)


def filter_like(run: OpenRun, selection: Filter) -> Filter:
    """The same filter for another run, whose own values stand in where it has one of a kind and that is another."""
    if selection.task not in run.values:
        raise ConfigError(f"run '{run.name}' has no task '{selection.task}'")
    values = run.values[selection.task]
    fixed = {}
    for axis, value in selection.fixed.items():
        if value not in values[axis] and len(values[axis]) > 1:
            raise ConfigError(f"run '{run.name}' has no {axis} '{value}'")
        fixed[axis] = value if value in values[axis] else values[axis][0]
    left_out: dict[str, Any] = {"only": "", "query": "", "label": "", "group": "", "marked": "", "where": ""}
    return replace(selection, fixed=fixed, tokens_from=None, tokens_to=None, **left_out)


def address(path: str, parameters: Mapping[str, Any]) -> str:
    """A link with the parameters that are not empty, in a fixed order, so that equal states have equal addresses."""
    kept = {name: value for name, value in sorted(parameters.items()) if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path


def path_of(request: Request) -> str:
    """The path of a request as the browser wrote it, so that a link back to it is the same address."""
    raw: bytes = request.scope.get("raw_path") or quote(request.url.path).encode()
    return raw.decode("ascii", "replace").partition("?")[0]


def named_item(segment: str) -> str:
    """The item that the last part of an address means; the filter ``segment`` of the templates wrote it."""
    return segment.removeprefix("~")


def state_of(selection: Filter) -> dict[str, str]:
    """The parameters of an address that say what a filter does."""
    names = ("task", "columns", "base", "only", "query", "label", "group", "marked", "where", "sort")
    limits = {"tokens_from": selection.tokens_from, "tokens_to": selection.tokens_to}
    return {
        **{"q" if name == "query" else name: getattr(selection, name) for name in names},
        **selection.fixed,
        **{name: "" if value is None else str(value) for name, value in limits.items()},
    }
