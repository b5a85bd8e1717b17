"""True labels of the items of a profile's tasks, for measures of information."""

from __future__ import annotations

from pathlib import Path

from pcsuite.config.load import Suite
from pcsuite.data.loading import load_items
from pcsuite.errors import DataError

LABEL_KEYS = ("label", "choice")
"""Keys under which a truth names one of a closed set of answers."""


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
