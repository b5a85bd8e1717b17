"""``pcsuite helm``, ``promptbench`` and ``integrations``: other tools beside the suite."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite._util.text import limits_text
from pcsuite.commands import DIR, options
from pcsuite.commands.options import Group, flag, several, switch
from pcsuite.commands.run import print_summary
from pcsuite.errors import Exit
from pcsuite.integrations import environments
from pcsuite.integrations.helm.models import BUILT_IN
from pcsuite.integrations.helm.run import import_helm, plan_helm, run_helm
from pcsuite.integrations.promptbench.block import run_promptbench
from pcsuite.logging.log import RunPaths
from pcsuite.logging.segments import log_exists

_HELM, _BLOCK = "integrations.helm", "integrations.promptbench"


def _of_the_suite(names: list[str]) -> list[str] | None:
    return [name for name in names if name != BUILT_IN] or None


HELM = (
    Group("", [
        options.CONFIG,
        several("--scenarios", "HELM run entries, instead of the profile's", f"{_HELM}.scenarios"),
        several("--models --model", f"models of the profile's file, or {BUILT_IN}", options.KEYS["models"],
             read=_of_the_suite, dest="models"),
        flag("--limit -m", "at most N instances a scenario", f"{_HELM}.max_instances", type=int, metavar="N"),
        flag("--data", "folder of the scenarios' published files", f"{_HELM}.data_dir", metavar="DIR"),
        flag("--import-only", "run nothing: import the results HELM left in DIR", **DIR),
    ]),
    options.PROFILE,
    Group("calls", [options.MODEL_OPTION, options.QUIET.but("no progress lines")]),
)  # fmt: skip


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
    options.add_flags(parser, *HELM)


def execute_helm(args: argparse.Namespace) -> int:
    """Run HELM, or import what it left, and print its main figures.

    Returns 4 where a run of HELM has no results. ``--scenarios``, ``--limit`` and ``--data`` change the profile's HELM
    block, ``--models`` its selection.
    """
    return run_scenarios(args, args.import_only)


def run_scenarios(args: argparse.Namespace, left_behind: Path | None = None) -> int:
    """Run HELM as the flags of :data:`HELM` say, or import what it left in a folder; print its main figures.

    Returns 4 where a run of HELM has no results.
    """
    model_ids = list(dict.fromkeys(args.models or ()))
    suite = options.suite_from(args, HELM, check_selection=model_ids != [BUILT_IN])
    run = suite.profile.run
    if left_behind is not None:
        imported = import_helm(suite, left_behind, Path(run.output_dir) / "tables")
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
    print(
        options.next_line(args, "report" if log_exists(RunPaths.of(run.output_dir, run.name).log) else "run")
    )
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
    options.add_flags(adding, Group("", [switch("--force", "make the environment anew")]))


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


PROMPTBENCH = (
    Group("", [
        options.CONFIG,
        # The block attacks what is selected.
        options.TASKS.but("tasks, instead of integrations.promptbench.tasks", options.KEYS["tasks"],
             f"{_BLOCK}.tasks"),
        options.MODELS,
        options.CONDITIONS.but("conditions, instead of the block's", f"{_BLOCK}.conditions_subset"),
        several("--attacks", "kinds of perturbation, instead of the block's", f"{_BLOCK}.attack_types"),
        options.LIMIT.but(None, options.KEYS["limit"], f"{_BLOCK}.max_items"),
        options.REGIMES.but("decoding regimes (default: the greedy ones)"),
        switch("--no-tables", "only run; write no tables and figures"),
        options.EXECUTOR,
    ]),
    options.PROFILE,
    options.CALLS,
)  # fmt: skip
"""Its flags change the profile's perturbation block (``integrations.promptbench``), not its selection."""


def configure_promptbench(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite promptbench``.

    examples:
      pcsuite promptbench --config configs/profile_A.yaml
      pcsuite promptbench --config quickstart --tasks agnews_json --conditions C0,C4 --limit 5
      pcsuite promptbench --config quickstart --attacks reorder,paraphrase,promptbench:deepwordbug

    Clean prompts are run too, so that every perturbed row has its pair; rows that the log has are not repeated.
    The same command goes on where a killed run ended.
    """
    options.add_flags(parser, *PROMPTBENCH)


def execute_promptbench(args: argparse.Namespace) -> int:
    """Run perturbed prompts into the profile's log and write the robustness tables; 4 where rows failed."""
    return perturb(args, options.calls_from(args), tables=not args.no_tables)


def perturb(args: argparse.Namespace, calls: options.Calls, *, tables: bool = True) -> int:
    """Run the perturbation block as the flags of :data:`PROMPTBENCH` say, and print what came of it.

    Returns 4 where rows failed.
    """
    suite = options.suite_from(args, PROMPTBENCH)
    suite.profile.integrations.check_allowed("promptbench")
    summary = run_promptbench(
        suite, regimes=args.regimes or (), report=lambda line: print(f"  {line}", flush=True), **calls
    )
    status = print_summary(args, summary, suite.profile.run.name)
    if tables:
        from pcsuite.reporting.build import write_robustness

        written = write_robustness([summary.paths.log], Path(suite.profile.run.output_dir))
        for path in written.tables + written.figures:
            print(f"wrote {path}")
        for note in written.notes:
            print(f"note: {note}")
    return status
