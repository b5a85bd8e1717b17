"""``pcsuite helm``, ``promptbench`` and ``integrations``: other tools beside the suite."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pcsuite.commands.options import add_profile_arguments, executor_from, suite_from
from pcsuite.commands.run import add_run_arguments, print_summary
from pcsuite.config.load import Suite
from pcsuite.integrations.environments import (
    INTEGRATIONS,
    environment_dir,
    find_integration,
    install,
    is_installed,
)
from pcsuite.integrations.helm.models import BUILT_IN
from pcsuite.integrations.helm.run import HelmImport, import_helm, plan_helm, run_helm
from pcsuite.integrations.promptbench.block import run_promptbench

# ``pcsuite helm``: run HELM's scenarios on a profile's models and import what it finds as external evidence.


HELM_EXAMPLES = f"""examples:
  pcsuite integrations install helm
  pcsuite helm --config quickstart --data DIR --models {BUILT_IN},smollm2-135m --limit 50
  pcsuite helm --config quickstart --data DIR --scenarios truthful_qa,gsm,mmlu:subject=econometrics
  pcsuite helm --config quickstart --import-only some/benchmark_output

DIR holds the scenarios' published files: truthfulqa/v1/TruthfulQA.csv, gsm8k/train.jsonl and test.jsonl,
mmlu/data/<split>/<subject>_<split>.csv. {BUILT_IN} is HELM's own toy model. The same command goes on where an
interrupted one ended. Tables go to tables/helm_*.csv; pcsuite report then shows them beside the run's own."""


def configure_helm(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = HELM_EXAMPLES
    add_profile_arguments(parser, selection=False)
    parser.add_argument("--scenarios", metavar="A,B", help="HELM run entries, instead of the profile's")
    parser.add_argument("--models", metavar="A,B", help=f"models of the profile's file, or {BUILT_IN}")
    parser.add_argument("--limit", "-m", type=int, metavar="N", help="at most N instances a scenario")
    parser.add_argument("--data", metavar="DIR", help="folder of the scenarios' published files")
    parser.add_argument(
        "--import-only", type=Path, metavar="DIR", help="run nothing: import the results HELM left in DIR"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress lines")


def execute_helm(args: argparse.Namespace) -> int:
    """Run the command; 1 where a run of HELM has no results."""
    model_ids = _names(args.models)
    suite = _suite(args, [name for name in model_ids if name != BUILT_IN])
    if args.import_only is not None:
        tables = Path(suite.profile.run.output_dir) / "tables"
        return _print(import_helm(suite, args.import_only, tables), args.config)
    suite.profile.integrations.check_allowed("helm")
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


INTEGRATIONS_EXAMPLES = """examples:
  pcsuite integrations list
  pcsuite integrations install promptbench
  pcsuite integrations install helm
"""


def configure_integrations(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = INTEGRATIONS_EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|install")
    listing = actions.add_parser("list", help="tools, and whether they are installed")
    listing.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    adding = actions.add_parser("install", help="install a tool into a virtual environment of its own")
    adding.add_argument("name", metavar="NAME", help="a name of the list")
    adding.add_argument("--force", action="store_true", help="make the environment anew")
    adding.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)


def execute_integrations(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.action == "list":
        for tool in INTEGRATIONS.values():
            state = (
                f"installed in {environment_dir(tool)}"
                if is_installed(tool)
                else f"not installed: {tool.command}"
            )
            print(f"{tool.name} {tool.version}  {tool.summary}\n  {state} ({tool.size})")
        return 0
    tool = find_integration(args.name)
    if is_installed(tool) and not args.force:
        print(f"{tool.title} {tool.version} is already installed in {environment_dir(tool)}")
        return 0
    print(f"{tool.title} {tool.version}: {tool.size}")
    folder = install(tool, lambda line: print(f"  {line}", flush=True), force=args.force)
    print(f"{tool.title} {tool.version} is installed in {folder}")
    return 0


# ``pcsuite promptbench``: perturb prompts, run them into the profile's log, and table what it cost.


PROMPTBENCH_EXAMPLES = """examples:
  pcsuite promptbench --config configs/profile_A.yaml
  pcsuite promptbench --config quickstart --tasks agnews_json --conditions C0,C4 --limit 5 --variants 1
  pcsuite promptbench --config quickstart --attacks reorder,paraphrase,promptbench:deepwordbug

Clean prompts are run too, so that every perturbed row has its pair; rows that the log has are not repeated.
The same command goes on where a killed run ended."""

_LISTS = {
    "tasks": "integrations.promptbench.tasks",
    "conditions": "integrations.promptbench.conditions_subset",
    "attacks": "integrations.promptbench.attack_types",
    "models": "selection.models",
}
_NUMBERS = {"limit": "max_items", "variants": "variants", "budget": "query_budget"}


def configure_promptbench(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = PROMPTBENCH_EXAMPLES
    add_profile_arguments(parser, selection=False)
    parser.add_argument("--tasks", metavar="A,B", help="tasks, instead of integrations.promptbench.tasks")
    parser.add_argument("--models", metavar="A,B", help="only these models")
    parser.add_argument("--conditions", metavar="A,B", help="conditions, instead of the block's")
    parser.add_argument("--attacks", metavar="A,B", help="kinds of perturbation, instead of the block's")
    parser.add_argument("--regimes", metavar="A,B", help="decoding regimes (default: the greedy ones)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N items a task")
    parser.add_argument("--variants", type=int, metavar="N", help="at most N variants of each kind")
    parser.add_argument("--budget", type=int, metavar="N", help="prompts a search of PromptBench may try")
    parser.add_argument("--no-tables", action="store_true", help="only run; write no tables and figures")
    add_run_arguments(parser)


def execute_promptbench(args: argparse.Namespace) -> int:
    """Run the command."""
    suite = _promptbench_suite(args)
    suite.profile.integrations.check_allowed("promptbench")
    summary = run_promptbench(
        suite,
        regimes=_promptbench_names(args.regimes),
        report=lambda line: print(f"  {line}", flush=True),
        quiet=args.quiet,
        use_cache=not args.no_cache,
        executor=executor_from(args),
    )
    print_summary(suite, summary, args.config)
    if not args.no_tables:
        _write_tables(summary.paths.log, Path(suite.profile.run.output_dir))
    return 0


def _promptbench_suite(args: argparse.Namespace) -> Suite:
    """The profile, with the flags applied to its perturbation block instead of its selection."""
    section = "integrations.promptbench"
    changes: dict[str, Any] = {}
    for flag, key in _LISTS.items():
        if getattr(args, flag):
            changes[key] = _promptbench_names(getattr(args, flag))
    for flag, key in _NUMBERS.items():
        if getattr(args, flag) is not None:
            changes[f"{section}.{key}"] = getattr(args, flag)
    if args.overwrite:
        changes["run.overwrite"] = True
    profile_flags = {key: getattr(args, key) for key in ("config", "name", "output_dir", "set", "limit")}
    return suite_from(argparse.Namespace(**profile_flags), changes)


def _promptbench_names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _write_tables(log: Path, output_dir: Path) -> None:
    from pcsuite.report.build import write_robustness

    written = write_robustness([log], output_dir)
    for path in written.tables + written.figures:
        print(f"wrote {path}")
    for note in written.notes:
        print(f"note: {note}")
