"""``pcsuite list``: what a profile can name (tasks, conditions, operators, models), and the runs there are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pcsuite.commands import options
from pcsuite.commands.options import Group
from pcsuite.config.load import Suite
from pcsuite.data.items import load_items
from pcsuite.errors import DataError
from pcsuite.prompts.conditions.conditions import expand_conditions

Record = dict[str, Any]
SHOWN: Mapping[str, tuple[str, ...]] = {
    "tasks": ("id", "selected", "kind", "dataset", "items", "source", "evaluator", "title"),
    "conditions": ("id", "selected", "operators", "title"),
    "operators": ("id", "type", "used_in"),
    "models": ("id", "selected", "provider", "family", "size"),
    "runs": ("name", "modified", "tasks", "models", "conditions", "planned_rows", "megabytes", "log"),
}
"""What can be listed, and the columns of the table; JSON has more."""
_MOST_NAMED = 5
"""Conditions, tasks or models that the line of a run names; an ablation has dozens, which JSON lists."""


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite list``.

    examples:
      pcsuite list tasks                              # of the bundled files, with the items that are here
      pcsuite list conditions --config mine.yaml      # members of designs too: abl:all, abl:-ROLE
      pcsuite list operators
      pcsuite list models                             # pcsuite models list says which files are here
      pcsuite list runs --output-dir results --json
    """
    parser.add_argument("what", choices=tuple(SHOWN), metavar="|".join(SHOWN), help="what to list")
    flags = [
        options.CONFIG.but("profile whose files are read; what it selects is marked (default: quickstart)"),
        options.OUTPUT_DIR.but("folder of runs (default: the profile's)", *options.OUTPUT_DIR.keys),
        options.JSON.but("print JSON: one list of objects"),
    ]
    options.add_flags(parser, Group("", flags))


def execute_list(args: argparse.Namespace) -> int:
    """Print one table, or its records as JSON; nothing there is an empty list."""
    suite = options.suite_from(args)
    makers: Mapping[str, Callable[[Suite], list[Record]]] = {
        "tasks": _tasks,
        "conditions": _conditions,
        "operators": _operators,
        "models": _models,
        "runs": lambda suite: _runs(Path(suite.profile.run.output_dir)),
    }
    records = makers[args.what](suite)
    if args.json:
        print(json.dumps(records, indent=1, ensure_ascii=False))
        return 0
    if not records:
        where = Path(suite.profile.run.output_dir) / "runs"
        print(
            f"no {args.what}"
            + (f" in {where}: pcsuite run --config PROFILE makes one" if args.what == "runs" else "")
        )
        return 0
    from rich.table import Table

    def shown(value: Any) -> str:
        if isinstance(value, bool):
            return "✓" if value else ""
        if isinstance(value, list):
            most = _MOST_NAMED if args.what == "runs" else len(value)
            left = f"… {len(value) - most} more" if len(value) > most else ""
            return " ".join([*map(str, value[:most]), *filter(None, [left])])
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in SHOWN[args.what]:
        numeric = any(
            isinstance(record[name], (int, float)) and not isinstance(record[name], bool)
            for record in records
        )
        table.add_column(
            name.replace("_", " "), justify="right" if numeric else "left", overflow="fold",
            no_wrap=name in ("id", "name"),
        )  # fmt: skip
    for record in records:
        table.add_row(*(shown(record[name]) for name in SHOWN[args.what]))
    options.output_console().print(table)
    return 0


def _tasks(suite: Suite) -> list[Record]:
    chosen, records = suite.profile.selection.tasks, []
    for name, spec in suite.tasks.items():
        items = source = None
        try:
            loaded = load_items(spec.dataset, spec.split, Path(suite.profile.run.cache_dir))
            items, source = len(loaded.items), loaded.source.describe()
        except DataError:
            source = "not here: pcsuite export-datasets"
        records.append(
            {
                "id": name, "selected": name in chosen, "kind": spec.kind, "dataset": spec.dataset, "split": spec.split,
                "items": items, "source": source, "evaluator": spec.evaluator, "metric": spec.primary_metric,
                "title": spec.title,
            }
        )  # fmt: skip
    return records


def _conditions(suite: Suite) -> list[Record]:
    """Conditions in the order of the file; of a design its members, each as ``--conditions`` takes it."""
    chosen, records = suite.profile.selection.conditions, []
    for name, spec in suite.conditions.items():
        for bundle in expand_conditions([name], suite.conditions, suite.operators):
            operators = ["|".join(operator.label for operator in step) for step in bundle.steps]
            records.append(
                {
                    "id": bundle.id, "selected": name in chosen or bundle.id in chosen,
                    "operators": operators or (["(compiled)"] if bundle.compiled else []),
                    "design": spec.design, "title": bundle.title,
                }
            )  # fmt: skip
    return records


def _operators(suite: Suite) -> list[Record]:
    used: dict[str, list[str]] = {}
    for name in suite.conditions:
        for bundle in expand_conditions([name], suite.conditions, suite.operators):
            for step in bundle.steps:
                for operator in step:
                    conditions = used.setdefault(operator.name, [])
                    if name not in conditions:
                        conditions.append(name)
    return [
        {"id": name, "type": spec.type, "alias_of": spec.alias_of, "used_in": used.get(name, [])}
        for name, spec in suite.operators.items()
    ]


def _models(suite: Suite) -> list[Record]:
    chosen = suite.profile.selection.models
    return [
        {
            "id": name, "selected": name in chosen, "provider": spec.provider, "family": spec.family,
            "size": spec.size, "params_b": spec.params_b,
        }
        for name, spec in suite.models.items()
    ]  # fmt: skip


def _runs(output_dir: Path) -> list[Record]:
    """Runs of an output folder, ablations among them, the newest first."""
    from pcsuite.view.runs import list_runs

    return [
        {
            "name": entry.name, "modified": entry.modified.strftime("%Y-%m-%d %H:%M"),
            "tasks": list(entry.manifest.tasks), "models": list(entry.manifest.models),
            "conditions": list(entry.manifest.conditions), "planned_rows": entry.manifest.planned_rows,
            "megabytes": round(entry.size / 1e6, 1), "log": str(entry.log),
        }
        for entry in list_runs(output_dir)
    ]  # fmt: skip
