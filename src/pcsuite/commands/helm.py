"""``pcsuite helm``: run HELM's scenarios on a profile's models and import what it finds as external evidence."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pcsuite.commands.options import add_profile_arguments, suite_from
from pcsuite.config.load import Suite
from pcsuite.integrations.helm_models import BUILT_IN
from pcsuite.runners.run_helm import HelmImport, import_helm, plan_helm, run_helm

EXAMPLES = f"""examples:
  pcsuite integrations install helm
  pcsuite helm --config quickstart --data DIR --models {BUILT_IN},smollm2-135m --limit 50
  pcsuite helm --config quickstart --data DIR --scenarios truthful_qa,gsm,mmlu:subject=econometrics
  pcsuite helm --config quickstart --import-only some/benchmark_output

DIR holds the scenarios' published files: truthfulqa/v1/TruthfulQA.csv, gsm8k/train.jsonl and test.jsonl,
mmlu/data/<split>/<subject>_<split>.csv. {BUILT_IN} is HELM's own toy model. The same command goes on where an
interrupted one ended. Tables go to tables/helm_*.csv; pcsuite report then shows them beside the run's own."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    add_profile_arguments(parser, selection=False)
    parser.add_argument("--scenarios", metavar="A,B", help="HELM run entries, instead of the profile's")
    parser.add_argument("--models", metavar="A,B", help=f"models of the profile's file, or {BUILT_IN}")
    parser.add_argument("--limit", "-m", type=int, metavar="N", help="at most N instances a scenario")
    parser.add_argument("--data", metavar="DIR", help="folder of the scenarios' published files")
    parser.add_argument(
        "--import-only", type=Path, metavar="DIR", help="run nothing: import the results HELM left in DIR"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress lines")


def execute(args: argparse.Namespace) -> int:
    """Run the command; 1 where a run of HELM has no results."""
    model_ids = _names(args.models)
    suite = _suite(args, [name for name in model_ids if name != BUILT_IN])
    if args.import_only is not None:
        tables = Path(suite.profile.run.output_dir) / "tables"
        return _print(import_helm(suite, args.import_only, tables), args.config)
    plan = plan_helm(suite, model_ids or list(suite.profile.selection.models))
    report = _silent if args.quiet else _tell
    return _print(run_helm(plan, report), args.config)


def _suite(args: argparse.Namespace, model_ids: list[str]) -> Suite:
    section = "integrations.helm"
    changes: dict[str, Any] = {}
    if model_ids:
        changes["selection.models"] = model_ids
    if args.scenarios:
        changes[f"{section}.scenarios"] = [args.scenarios]
    if args.limit is not None:
        changes[f"{section}.max_instances"] = args.limit
    if args.data:
        changes[f"{section}.data_dir"] = args.data
    flags = {key: getattr(args, key) for key in ("config", "name", "output_dir", "set")}
    return suite_from(argparse.Namespace(**flags), changes)


def _names(text: str | None) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _tell(line: str) -> None:
    print(f"  {line}", flush=True)


def _silent(line: str) -> None:
    pass


def _print(imported: HelmImport, config: str) -> int:
    for record in imported.tables[1].records():
        if record["main"]:
            print(
                f"{record['scenario']} on {record['model']}: {record['metric']} {record['value']:.3f}"
                f" [{record['value_low']:.3f}, {record['value_high']:.3f}], {record['n_instances']} instances"
            )
    for record in imported.tables[0].records():
        if record["status"] == "unfinished":
            print(f"no results: {record['scenario']} on {record['model']}: {record['reason']}")
    for note in imported.notes:
        print(f"note: {note}")
    for path in imported.written:
        print(f"wrote {path}")
    print(f"next: pcsuite report --config {config}")
    return 1 if imported.unfinished else 0
