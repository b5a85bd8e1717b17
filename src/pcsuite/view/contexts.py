"""What pages of a run have in common: which slice of it an address asks for, and what each of them shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import Filter, filter_of, whole_number
from pcsuite.view.marks import Mark, Marks
from pcsuite.view.viewer import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request

Page = tuple[str, dict[str, Any]]
"""A template, and what it shows."""
MOST_LABELS = 40
"""Truths that a filter lists; a task with more has no classes."""


def page_number(request: Request, total: int, of_page: int) -> tuple[int, int]:
    """The page that is asked for, at most the last, and how many there are with so many entries on each."""
    pages = max(1, -(-total // of_page))
    return min(max(1, whole_number(request.query_params, "page") or 1), pages), pages


def slice_of(
    viewer: Viewer, request: Request, query: Mapping[str, str], *, beginning: bool = False
) -> tuple[OpenRun, Filter, dict[tuple[str, str], Mark], dict[tuple[str, str], str]]:
    """What a page of a run is about: the run, the filter of a query, the run's marks, and their labels alone.

    With ``beginning`` a run of which only that has been read will do, where what the filter names is in it.
    """
    name = request.path_params["run"]
    run = viewer.beginning(name) if beginning else viewer.run(name)
    try:
        selection = filter_of(run, query)
    except ConfigError:
        if run.share == 1:
            raise
        run = viewer.run(name)
        selection = filter_of(run, query)
    marks = Marks(run.log).read()
    return run, selection, marks, {key: mark.label for key, mark in marks.items()}


def by_condition(query: Mapping[str, str]) -> dict[str, str]:
    """The query of a page whose columns can only be conditions: what names columns of another axis is dropped."""
    if query.get("columns", "condition") == "condition":
        return dict(query)
    return {**query, "columns": "condition", "base": "", "only": "", "sort": ""}


def regimes(run: OpenRun) -> dict[str, str]:
    """Decoding regimes in words, ``D0 (greedy)`` say."""
    return {
        name: f"{name} ({regime['label']})"
        for name, regime in run.manifest.regimes.items()
        if regime.get("label")
    }


def filter_choices(run: OpenRun, selection: Filter, marks: Mapping[tuple[str, str], Mark]) -> dict[str, Any]:
    """What the filters of a page may be set to."""
    truths = sorted(set(run.items.truths(selection.task).values()))
    return {
        "labels": truths if len(truths) <= MOST_LABELS else [],
        "groups": run.items.groups(selection.task),
        "marks": marks,
    }


def known_name(request: Request, name: str, known: Sequence[str], default: str) -> str:
    """The column that a parameter of an address names; a ``ConfigError`` for one that is not there."""
    value = request.query_params.get(name) or default
    if value not in known:
        raise ConfigError(f"{name}: there is no '{value[:80]}' here", hint=did_you_mean(value, known))
    return value


def run_context(run: OpenRun, selection: Filter) -> dict[str, Any]:
    """What every page of a run has."""
    return {
        "run": run,
        "filter": selection,
        "values": run.values[selection.task],
        "tasks": list(run.values),
        "regimes": regimes(run),
        "plain": replace(
            selection,
            only="",
            query="",
            label="",
            group="",
            marked="",
            where="",
            tokens_from=None,
            tokens_to=None,
        ),
    }
