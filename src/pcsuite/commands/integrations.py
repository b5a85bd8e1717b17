"""``pcsuite helm``, ``promptbench`` and ``integrations``: other tools beside the suite."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pcsuite._util.text import limits_text
from pcsuite.commands import DIR
from pcsuite.commands.options import (
    add_models,
    add_profile_arguments,
    add_tasks,
    executor_from,
    listed,
    next_line,
    suite_from,
)
from pcsuite.commands.run import add_run_arguments, print_summary
from pcsuite.errors import Exit
from pcsuite.integrations import environments
from pcsuite.integrations.helm.models import BUILT_IN
from pcsuite.integrations.helm.run import import_helm, plan_helm, run_helm
from pcsuite.integrations.promptbench.block import run_promptbench
from pcsuite.logging.log import RunPaths
from pcsuite.logging.segments import log_exists


def configure_helm(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite helm``.

    examples:
      pcsuite integrations install helm
      pcsuite helm --config quickstart --data DIR --models simple/model1,smollm2-135m --limit 50
      pcsuite helm --config quickstart --data DIR --scenarios truthful_qa,gsm,mmlu:subject=econometrics
      pcsuite helm --config quickstart --import-only some/benchmark_output

    DIR holds the scenarios' published files: truthfulqa/v1/TruthfulQA.csv, gsm8k/train.jsonl and test.jsonl,
    mmlu/data/<split>/<subject>_<split>.csv. simple/model1 is HELM's own toy model. The same command goes on where an
    interrupted one ended. Tables go to tables/helm_*.csv; pcsuite report then shows them beside the run's own.
    """
    add = parser.add_argument
    add_profile_arguments(parser, selection=False)
    add("--scenarios", metavar="A,B", help="HELM run entries, instead of the profile's")
    add_models(parser, f"models of the profile's file, or {BUILT_IN}")
    add("--limit", "-m", dest="instances", type=int, metavar="N", help="at most N instances a scenario")
    add("--data", metavar="DIR", help="folder of the scenarios' published files")
    add("--import-only", **DIR, help="run nothing: import the results HELM left in DIR")
    add("--quiet", "-q", action="store_true", help="no progress lines")


def execute_helm(args: argparse.Namespace) -> int:
    """Run HELM, or import what it left, and print its main figures.

    Returns 4 where a run of HELM has no results. ``--scenarios``, ``--limit`` and ``--data`` change the profile's HELM
    block, ``--models`` its selection.
    """
    model_ids = list(dict.fromkeys(listed(args.models, "--models")))
    changes: dict[str, Any] = {
        "selection.models": [name for name in model_ids if name != BUILT_IN] or None,
        "integrations.helm.scenarios": args.scenarios.split(",") if args.scenarios else None,
        "integrations.helm.max_instances": args.instances,
        "integrations.helm.data_dir": args.data or None,
    }
    given = {key: value for key, value in changes.items() if value is not None}
    suite = suite_from(args, given, lists={}, check_selection=model_ids != [BUILT_IN])
    run = suite.profile.run
    if args.import_only is not None:
        imported = import_helm(suite, args.import_only, Path(run.output_dir) / "tables")
    else:
        suite.profile.integrations.check_allowed("helm")
        plan = plan_helm(suite, model_ids or list(suite.profile.selection.models))
        imported = run_helm(plan, lambda line: None if args.quiet else print(f"  {line}", flush=True))
    for record in imported.tables[1].records():
        if record["main"]:
            limits = limits_text(record["value_low"], record["value_high"], 3)
            print(
                f"{record['scenario']} on {record['model']}: {record['metric']} {record['value']:.3f}{limits},"
                f" {record['n_instances']} instances"
            )
    for record in imported.tables[0].records():
        if record["status"] == "unfinished":
            print(f"no results: {record['scenario']} on {record['model']}: {record['reason']}")
    for note in imported.notes:
        print(f"note: {note}")
    for path in imported.written:
        print(f"wrote {path}")
    # A report is one of a run: where there is none yet, it comes first.
    print(next_line(args, "report" if log_exists(RunPaths.of(run.output_dir, run.name).log) else "run"))
    return Exit.FAILED_ROWS if imported.unfinished else Exit.DONE


def configure_integrations(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite integrations``.

    examples:
      pcsuite integrations list
      pcsuite integrations install promptbench
      pcsuite integrations install helm
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|install")
    actions.add_parser("list", help="tools, and whether they are installed")
    adding = actions.add_parser("install", help="install a tool into a virtual environment of its own")
    adding.add_argument("name", metavar="NAME", help="a name of the list")
    adding.add_argument("--force", action="store_true", help="make the environment anew")


def execute_integrations(args: argparse.Namespace) -> int:
    """List the tools that need an environment of their own, or install one.

    Raises ``ConfigError`` for an unknown tool, ``IntegrationError`` where a step of its installation fails.
    """
    if args.action == "list":
        for tool in environments.INTEGRATIONS.values():
            state = f"not installed: {tool.command}"
            if environments.is_installed(tool):
                state = f"installed in {environments.environment_dir(tool)}"
            print(f"{tool.name} {tool.version}  {tool.summary}\n  {state} ({tool.size})")
        return 0
    tool = environments.find_integration(args.name)
    if environments.is_installed(tool) and not args.force:
        print(f"{tool.title} {tool.version} is already installed in {environments.environment_dir(tool)}")
        return 0
    print(f"{tool.title} {tool.version}: {tool.size}")
    folder = environments.install(tool, lambda line: print(f"  {line}", flush=True), force=args.force)
    print(f"{tool.title} {tool.version} is installed in {folder}")
    return 0


_BLOCK = "integrations.promptbench"
_BLOCK_LISTS = {
    "tasks": f"{_BLOCK}.tasks",
    "conditions": f"{_BLOCK}.conditions_subset",
    "attacks": f"{_BLOCK}.attack_types",
    "models": "selection.models",
}


def configure_promptbench(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite promptbench``.

    examples:
      pcsuite promptbench --config configs/profile_A.yaml
      pcsuite promptbench --config quickstart --tasks agnews_json --conditions C0,C4 --limit 5 --variants 1
      pcsuite promptbench --config quickstart --attacks reorder,paraphrase,promptbench:deepwordbug

    Clean prompts are run too, so that every perturbed row has its pair; rows that the log has are not repeated.
    The same command goes on where a killed run ended.
    """
    add_profile_arguments(parser, selection=False)
    add_tasks(parser, "tasks, instead of integrations.promptbench.tasks")
    add_models(parser)
    parser.add_argument("--conditions", metavar="A,B", help="conditions, instead of the block's")
    parser.add_argument("--attacks", metavar="A,B", help="kinds of perturbation, instead of the block's")
    parser.add_argument("--regimes", metavar="A,B", help="decoding regimes (default: the greedy ones)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N items a task")
    parser.add_argument("--variants", type=int, metavar="N", help="at most N variants of each kind")
    parser.add_argument("--budget", type=int, metavar="N", help="prompts a search of PromptBench may try")
    parser.add_argument("--no-tables", action="store_true", help="only run; write no tables and figures")
    add_run_arguments(parser)


def execute_promptbench(args: argparse.Namespace) -> int:
    """Run perturbed prompts into the profile's log and write the robustness tables.

    The flags change the profile's perturbation block (``integrations.promptbench``), not its selection.
    """
    numbers = {"max_items": args.limit, "variants": args.variants, "query_budget": args.budget}
    changes: dict[str, Any] = {
        f"{_BLOCK}.{key}": value for key, value in numbers.items() if value is not None
    }
    if args.tasks is not None:  # the block attacks what is selected
        changes["selection.tasks"] = listed(args.tasks, "--tasks")
    suite = suite_from(args, changes, _BLOCK_LISTS)
    suite.profile.integrations.check_allowed("promptbench")
    summary = run_promptbench(
        suite,
        regimes=listed(args.regimes, "--regimes"),
        report=lambda line: print(f"  {line}", flush=True),
        quiet=args.quiet,
        use_cache=not args.no_cache,
        executor=executor_from(args),
    )
    status = print_summary(args, summary, suite.profile.run.name)
    if not args.no_tables:
        from pcsuite.report.build import write_robustness

        written = write_robustness([summary.paths.log], Path(suite.profile.run.output_dir))
        for path in written.tables + written.figures:
            print(f"wrote {path}")
        for note in written.notes:
            print(f"note: {note}")
    return status
