"""True labels of the items of a profile's tasks, for measures of information."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pcsuite.config.load import Suite
from pcsuite.data.items import Item
from pcsuite.data.loading import load_items
from pcsuite.errors import DataError

CLOSED_UP_TO = 12
"""A task with at most this many answers is a choice among them."""
LABEL_KEYS = ("label", "choice")
"""Keys under which a truth names one of a closed set of answers."""


def closed_answers(items: Iterable[Item]) -> int | None:
    """How many answers a task with these items allows: its labels or options, and one for anything else.

    ``None`` where the truths name no closed set, or so many that the answers are as good as open.
    """
    labels: set[str] = set()
    for item in items:
        found = [str(item.truth[key]) for key in LABEL_KEYS if key in item.truth]
        if not found:
            return None
        labels.update(found)
        labels.update(str(option) for option in item.truth.get("choices") or ())
    return len(labels) + 1 if 2 <= len(labels) <= CLOSED_UP_TO else None


def truth_labels(suite: Suite) -> dict[str, dict[str, str]]:
    """Labels by task and item id, of the selected tasks whose truth is one of a closed set."""
    cache_dir = Path(suite.profile.run.cache_dir)
    found: dict[str, dict[str, str]] = {}
    for task in suite.profile.selection.tasks:
        spec = suite.tasks[task]
        try:
            items = load_items(spec.dataset, spec.split, cache_dir).items
        except DataError:  # the items have gone since the run: what needs them is reported as not computed
            continue
        labels = {
            item.item_id: str(item.truth[key]) for item in items for key in LABEL_KEYS if key in item.truth
        }
        if labels:
            found[task] = labels
    return found
