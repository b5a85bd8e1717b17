"""``pcsuite config``: check profiles, and emit JSON schemas for editors."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pcsuite.config.base import Definition
from pcsuite.config.definitions import (
    ConditionsFile,
    DecodingFile,
    MetricsFile,
    ModelsFile,
    OperatorsFile,
    TasksFile,
)
from pcsuite.config.load import load_suite
from pcsuite.config.profile import Profile
from pcsuite.runners.components import check_components

SCHEMAS: dict[str, type[Definition]] = {
    "profile": Profile,
    "tasks": TasksFile,
    "models": ModelsFile,
    "operators": OperatorsFile,
    "conditions": ConditionsFile,
    "decoding": DecodingFile,
    "metrics": MetricsFile,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n"
        "  pcsuite config check configs/profile_A.yaml\n"
        "  pcsuite config schema profile > profile.schema.json\n"
        "  pcsuite config schema --out .schemas      # all of them, for an editor's YAML plugin"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|schema")
    check = actions.add_parser("check", help="check a profile and everything it refers to")
    check.add_argument("file", help="profile file or bundled name")
    schema = actions.add_parser("schema", help="print or write JSON schemas")
    schema.add_argument("kind", nargs="?", choices=sorted(SCHEMAS), help="which file's schema to print")
    schema.add_argument("--out", type=Path, metavar="DIR", help="write all schemas into a folder")


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.action == "check":
        suite = load_suite(args.file)
        for task_id in suite.profile.selection.tasks:
            suite.schema(task_id)
            suite.grammar(task_id)
        check_components(suite)
        chosen = suite.profile.selection
        print(
            f"{suite.path}: fine. {len(chosen.tasks)} tasks, {len(chosen.models)} models, "
            f"{len(chosen.conditions)} conditions, {len(chosen.decoding_regimes)} regimes "
            f"(config hash {suite.config_hash[:12]})"
        )
        return 0
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        for kind, model in SCHEMAS.items():
            path = args.out / f"{kind}.schema.json"
            path.write_text(json.dumps(model.model_json_schema(), indent=2) + "\n", encoding="utf-8")
            print(path)
        return 0
    print(json.dumps(SCHEMAS[args.kind or "profile"].model_json_schema(), indent=2))
    return 0
