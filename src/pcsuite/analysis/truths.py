"""True labels and answers of the items of a profile's tasks, for measures of information."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pcsuite.config.load import Suite
from pcsuite.data.items import Item
from pcsuite.data.loading import load_items
from pcsuite.errors import DataError

CLOSED_UP_TO = 12
"""A task with at most this many answers is a choice among them."""
LABEL_KEYS = ("label", "choice")
"""Keys under which a truth names one of a closed set of answers."""
ANSWER_KEYS = ("best_answer", "answer", "query")
"""Keys under which a truth gives an answer in its own words."""


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


@dataclass(slots=True)
class TruthTexts:
    """What is true, by task and item id."""

    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of tasks whose truth is one of a closed set."""
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of tasks whose truth is an answer in its own words."""


def truth_texts(suite: Suite) -> TruthTexts:
    """The truths of the selected tasks."""
    cache_dir = Path(suite.profile.run.cache_dir)
    found = TruthTexts()
    for task in suite.profile.selection.tasks:
        spec = suite.tasks[task]
        try:
            items = load_items(spec.dataset, spec.split, cache_dir).items
        except DataError:  # the items have gone since the run: what needs them is reported as not computed
            continue
        labels = {
            item.item_id: str(item.truth[key]) for item in items for key in LABEL_KEYS if key in item.truth
        }
        answers = {item.item_id: text for item in items if (text := _answer_text(item.truth))}
        if labels:
            found.labels[task] = labels
        elif answers:
            found.answers[task] = answers
    return found


def _answer_text(truth: Mapping[str, Any]) -> str | None:
    """The answer in words, of several the first."""
    for key in ANSWER_KEYS:
        if truth.get(key) is not None:
            return str(truth[key])
    listed = truth.get("answers")
    return str(listed[0]) if isinstance(listed, list) and listed else None
