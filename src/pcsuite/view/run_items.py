"""The items of a run as its tasks have them: what was asked and what is right, as far as that is at hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pcsuite.config.load import Suite, load_suite
from pcsuite.data.items import Item, task_items
from pcsuite.errors import PcsuiteError

MOST_GROUPS = 40
"""Values that a column may have at most to group items."""


class RunItems:
    """Items by task and id; a task whose items are not at hand has none."""

    def __init__(self, by_task: Mapping[str, Mapping[str, Item]]) -> None:
        self._by_task = by_task

    @classmethod
    def of(
        cls, log: Path, suite: Suite | None, tasks: Iterable[str], asked: Callable[[str], Collection[str]]
    ) -> RunItems:
        """The items of some tasks that a run ``asked``, of which a task's are given by their ids.

        They are those of the profile that was given, of an ablation's own beside its log, or else of the bundled tasks.
        """
        suites = [] if suite is None else [suite]
        profile = log.parent.parent / "profile.yaml"  # an ablation has its profile beside it
        for path in ([profile] if profile.is_file() else []) + ([] if suites else ["quickstart"]):
            with suppress(PcsuiteError):
                suites.append(load_suite(path))
        by_task: dict[str, dict[str, Item]] = {}
        for task in tasks:
            for suite in suites:
                spec = suite.tasks.get(task)
                try:
                    items = (
                        task_items(spec, spec.split, Path(suite.profile.run.cache_dir)).items if spec else ()
                    )
                except PcsuiteError:
                    continue
                if items:
                    ids = asked(task)
                    by_task[task] = {item.item_id: item for item in items if item.item_id in ids}
                    break
        return cls(by_task)

    def get(self, task: str, item: str) -> Item | None:
        """The item itself, where the task's items are at hand."""
        return self._by_task.get(task, {}).get(item)

    def inputs(self, task: str, names: Iterable[str] | None = None) -> dict[str, str]:
        """Inputs of a task's items (or of those that are named) by id, as far as they are at hand."""
        items = self._by_task.get(task, {})
        return {name: items[name].input_text for name in (items if names is None else names) if name in items}

    def truths(self, task: str) -> dict[str, str]:
        """Labels of a task's items by id, where its truth is one word."""
        labels = {}
        for name, item in self._by_task.get(task, {}).items():
            values = [
                value
                for key in ("label", "choice", "answer")
                if isinstance(value := item.truth.get(key), str)
            ]
            if values:
                labels[name] = values[0]
        return labels

    def groups(self, task: str) -> dict[str, list[str]]:
        """Columns of a task's items that group them (2 to :data:`MOST_GROUPS` values), each with its values."""
        by_column: dict[str, set[str]] = {}
        for item in self._by_task.get(task, {}).values():
            for name, value in item.columns.items():
                by_column.setdefault(name, set()).add(value)
        return {name: sorted(values) for name, values in by_column.items() if 2 <= len(values) <= MOST_GROUPS}

    def in_group(self, task: str, column: str, value: str) -> list[str]:
        """Ids of a task's items that have a value in a column."""
        items = self._by_task.get(task, {})
        return [name for name, item in items.items() if item.columns.get(column) == value]
