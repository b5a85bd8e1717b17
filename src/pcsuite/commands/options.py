"""Arguments that several commands share, and the tables they print."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pcsuite.config.load import Suite, load_suite
from pcsuite.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from pcsuite.runners.executors import ExecutorChoice
    from pcsuite.runners.plan import NotApplicable

# The console that commands print tables on.


_PIPE_WIDTH = 160


def output_console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that tables keep their words whole."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH, soft_wrap=False)


def not_applicable_lines(entries: Iterable[NotApplicable]) -> list[str]:
    """What cannot run and why: one line for a condition on a model, with the tasks that share the reason."""
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        tasks.setdefault((entry.condition_id, entry.model_id, entry.reason), []).append(entry.task_id)
    return [
        f"{condition} × {', '.join(names)} × {model}: {reason}"
        for (condition, model, reason), names in tasks.items()
    ]


# Plain tables for the terminal.


ERROR_HEADINGS = {
    "omission": "omitted",
    "hallucination": "invented",
    "format_error": "mistyped",
    "wrong_value": "wrong",
}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content; numbers to the right."""
    columns = list(zip(headings, *rows, strict=True)) if rows else [(heading,) for heading in headings]
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [bool(rows) and all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return cell in ("", "-") or cell.replace(".", "", 1).lstrip("+-").isdigit()


def score(value: float | None) -> str:
    """A score to three places."""
    return "-" if value is None else f"{value:.3f}"


def error_cells(counts: dict[str, int] | None) -> list[str]:
    """Error counts in the order of :data:`ERROR_HEADINGS`."""
    return [str(counts[kind]) if counts else "-" for kind in ERROR_HEADINGS]


def add_profile_arguments(
    parser: argparse.ArgumentParser, *, selection: bool = True, tasks: bool = True
) -> None:
    """``--config`` and the flags that narrow or override a profile."""
    parser.add_argument(
        "--config",
        "-c",
        default="quickstart",
        metavar="PROFILE",
        help="profile file or bundled name (default: quickstart)",
    )
    parser.add_argument("--name", help="name of the run, instead of the profile's")
    parser.add_argument("--output-dir", metavar="DIR", help="folder of results, instead of the profile's")
    if selection:
        if tasks:
            parser.add_argument("--tasks", metavar="A,B", help="only these tasks")
        parser.add_argument("--models", metavar="A,B", help="only these models")
        parser.add_argument("--conditions", metavar="A,B", help="only these conditions")
        parser.add_argument("--regimes", metavar="A,B", help="only these decoding regimes")
        parser.add_argument("--limit", type=int, metavar="N", help="at most N items a task")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override any profile key, e.g. limits.max_cost_usd=5",
    )


def run_log(given: Path, output_dir: str | Path = "outputs") -> Path:
    """The log a user means: a file, or the name of a run."""
    named = Path(output_dir) / "runs" / f"{given}.jsonl"
    return named if not given.exists() and named.is_file() else given


def suite_from(args: argparse.Namespace, more: Mapping[str, Any] | None = None) -> Suite:
    """The profile with the command line's overrides applied, and ``more`` by dotted key.

    From here on the command's messages go to standard error from the profile's ``run.log_level`` up.
    """
    overrides: dict[str, Any] = dict(more or {})
    for key, flag in (("run.name", "name"), ("run.output_dir", "output_dir")):
        if getattr(args, flag, None):
            overrides[key] = getattr(args, flag)
    lists = {"tasks": "tasks", "models": "models", "conditions": "conditions", "regimes": "decoding_regimes"}
    for flag, key in lists.items():
        if getattr(args, flag, None):
            overrides[f"selection.{key}"] = [
                part.strip() for part in getattr(args, flag).split(",") if part.strip()
            ]
    if getattr(args, "limit", None) is not None:
        overrides["limits.max_items_per_task"] = args.limit
        overrides["limits.per_task_max_items"] = {}
    for entry in args.set:
        key, sep, value = entry.partition("=")
        if not sep:
            raise ConfigError(f"--set {entry}: expected KEY=VALUE, for example limits.max_cost_usd=5")
        overrides[key.strip()] = yaml.safe_load(value)
    suite = load_suite(args.config, overrides)
    logger = logging.getLogger("pcsuite")
    logger.setLevel(suite.profile.run.log_level)
    logger.handlers = [logging.StreamHandler(sys.stderr)]
    return suite


def add_executor_arguments(parser: argparse.ArgumentParser) -> None:
    """``--executor`` and where it finds its workers."""
    parser.add_argument(
        "--executor",
        default="local",
        metavar="NAME",
        help="who makes the calls: local (this process, the default) or ray (a cluster)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="with --executor ray: an existing cluster (auto: the one on this machine); "
        "without it one is started for the run",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="with --executor ray: worker processes, instead of as many as the cluster has room for",
    )


def executor_from(args: argparse.Namespace) -> ExecutorChoice:
    """The executor that the command line asks for."""
    from pcsuite.runners.executors import EXECUTORS, ExecutorChoice

    if args.executor == "local" and (args.address or args.workers):
        raise ConfigError(
            "--address and --workers are for a cluster: add --executor ray",
            hint="in this process, repro.max_inflight says how many calls run at once",
        )
    if args.workers is not None and args.workers < 1:
        raise ConfigError(f"--workers {args.workers}: at least 1 is needed")
    if args.executor not in EXECUTORS:
        raise ConfigError(
            f"--executor: unknown '{args.executor}'", hint=did_you_mean(args.executor, EXECUTORS)
        )
    return ExecutorChoice(args.executor, args.address, args.workers)
