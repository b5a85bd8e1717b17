"""A baseline: the item scores of a run in one small file that is committed, so that later runs are held against it.

It keeps what :func:`pcsuite.analysis.compare.compare_runs` needs and no text: scores by item, averaged over replicates,
for every cell, and a digest of each item, so that an item that was edited since is not compared with itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite import __version__
from pcsuite._util.files import replacing, write_errors
from pcsuite.analysis.asked_items import without_items
from pcsuite.analysis.load.item_scores import SCORE, CellKey, CellScores, ItemScores
from pcsuite.analysis.metrics import Metrics
from pcsuite.errors import AnalysisError

FORMAT = "pcsuite baseline 1"
_COUNTS = ("tp", "fp", "fn")
_DIGITS = 6
Digests = Mapping[str, Mapping[str, str]]
"""A short hash of each item, by task and item id."""


@dataclass(frozen=True)
class Baseline:
    """Item scores that a later run is compared with."""

    scores: ItemScores
    name: str = ""
    """Name of the run that they are of."""
    digests: Digests = field(default_factory=dict)

    def write(self, path: Path, metrics: Metrics) -> Path:
        """Write the file, keys sorted, so that a changed baseline shows as a small difference; returns the path.

        Kept are the metrics that ``metrics`` compares between runs, of clean and of perturbed prompts.
        """
        # Counts too: micro-F1 cannot be compared again from the items' own scores.
        stored = {*metrics.compared_in("compare"), *_COUNTS}
        cells = []
        for key, cell in self.scores.cells.items():
            names = self.scores.item_names[key.task]
            columns = {
                name: [None if not np.isfinite(value) else round(float(value), _DIGITS) for value in values]
                for name, values in cell.values.items()
                if name in stored
            }
            ids = [names[item] for item in cell.items.tolist()]
            entry = key._asdict() | {
                "replicates": round(cell.replicates, 3),
                "items": ids,
                "metrics": columns,
            }
            lost = (cell.failed + cell.unscored) if len(cell.unscored) else cell.failed
            missing = {
                names[item]: round(float(share), _DIGITS)
                for item, share in zip(cell.asked.tolist(), lost.tolist(), strict=True)
                if share > 0
            }
            cells.append(entry | ({"missing": missing} if missing else {}))
        head = {
            "format": FORMAT,
            "run": self.name,
            "pcsuite": __version__,
            "pooled": sorted(self.scores.pooled),
            "digests": {task: dict(sorted(ids.items())) for task, ids in sorted(self.digests.items())},
        }
        # Of related items, which stand together: a cluster is a number, its label is nobody's business.
        clusters = {
            task: dict(zip(self.scores.item_names[task], of_items.tolist(), strict=True))
            for task, of_items in sorted(self.scores.clusters.items())
        }
        head |= {"clusters": clusters} if clusters else {}
        # A line for each cell, so that a diff shows which one changed.
        lines = ",\n".join(
            "  " + json.dumps(cell, ensure_ascii=False, separators=(", ", ": ")) for cell in cells
        )
        opened = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
        text = f'{opened},\n "cells": [\n{lines}\n ]\n}}\n'
        with write_errors(AnalysisError, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as partial:
                partial.write_text(text, encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read the file; ``AnalysisError`` of one line where it is missing or is no baseline."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document.get("format") != FORMAT:
                raise ValueError(f"'format' is not '{FORMAT}'")
            return cls(_scores_of(document), str(document["run"]), document.get("digests", {}))
        except FileNotFoundError:
            raise AnalysisError(f"{path}: no such baseline") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise AnalysisError(f"{path}: not a baseline of the suite ({error})") from error

    def without_changed(self, digests: Digests) -> tuple[Baseline, int]:
        """The baseline less the items whose digest differs now, and how many those are."""
        changed = self.changed(digests)
        return replace(self, scores=without_items(self.scores, changed)), len(changed)

    def changed(self, digests: Digests) -> set[tuple[str, str]]:
        """The items whose digest differs now, by task and id."""
        return {
            (task, item)
            for task, by_item in self.digests.items()
            for item, digest in by_item.items()
            if item in digests.get(task, {}) and digests[task][item] != digest
        }


def is_baseline(path: Path) -> bool:
    """Whether a file is a baseline, by its name and its first words: results of other tools are ``.json`` too."""
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as stream:
        return b'"pcsuite baseline' in stream.read(400)


def _scores_of(document: Mapping[str, Any]) -> ItemScores:
    names: dict[str, list[str]] = {}
    for cell in document["cells"]:
        asked = {*map(str, cell["items"]), *map(str, cell.get("missing", ()))}
        names[cell["task"]] = sorted({*names.get(cell["task"], ()), *asked})
    codes = {task: {item: code for code, item in enumerate(ids)} for task, ids in names.items()}
    cells = {}
    for cell in document["cells"]:
        key = CellKey(*(str(cell[name]) for name in CellKey._fields))
        items = np.array([codes[key.task][str(item)] for item in cell["items"]], dtype=np.int64)
        values = {
            name: np.array([np.nan if value is None else value for value in column], dtype=np.float64)
            for name, column in cell["metrics"].items()
        }
        if any(len(column) != len(items) for column in values.values()):
            raise ValueError(f"a cell of task '{key.task}' has another number of values than items")
        missing = {
            codes[key.task][str(item)]: float(share) for item, share in cell.get("missing", {}).items()
        }
        every = np.array(sorted({*items.tolist(), *missing}), dtype=np.int64)
        failed = np.array([missing.get(item, 0.0) for item in every.tolist()])
        cells[key] = CellScores(
            key, items, values, len(items), 0, float(cell["replicates"]), every, failed, np.zeros(len(every))
        )
    clusters = {
        task: np.array([of_items.get(item, -1 - n) for n, item in enumerate(names[task])], dtype=np.int64)
        for task, of_items in document.get("clusters", {}).items()
        if task in names
    }
    return ItemScores(
        cells=cells,
        models={},
        operators={},
        temperature={},
        pooled=frozenset(document["pooled"]),
        metrics=tuple(dict.fromkeys(name for cell in cells.values() for name in cell.values)) or (SCORE,),
        item_names=names,
        clusters=clusters,
    )
