"""``pcsuite prompt``, ``config`` and ``plan``: what a profile means before it runs."""

from __future__ import annotations

import argparse
import difflib
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite._util.text import counted
from pcsuite.commands import DIR, options
from pcsuite.commands.options import Group, flag, switch
from pcsuite.config import definitions, operator_definitions
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.prices import price_words
from pcsuite.config.profile import PreregistrationSection, Profile
from pcsuite.data.clusters import count_clusters, items_in_clusters
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError, DataError, did_you_mean
from pcsuite.logging.manifest import RegisteredPlan
from pcsuite.logging.segments import find_log
from pcsuite.prompts.conditions.conditions import PromptCondition, apply_condition, expand_conditions
from pcsuite.prompts.verbatim import readable
from pcsuite.runners.estimate import CellEstimate, DesignPower, PowerSettings, total_cost
from pcsuite.runners.plan import Plan, with_compiled_prompt
from pcsuite.runners.plan_checks import check_components
from pcsuite.runners.registration import check_contrast_names, registered_plan
from pcsuite.runners.task_plan import TaskPlan, plan_task
from pcsuite.runners.until import check_metric
from pcsuite.stats.clustered import too_few_clusters

if TYPE_CHECKING:
    from rich.console import Console


def configure_prompt(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite prompt``.

    examples:
      pcsuite prompt agnews_json C3
      pcsuite prompt agnews_json C4 --diff C3
      pcsuite prompt gsm8k C5 --item gsm8k-test-0007
      pcsuite prompt agnews_json C8 --model smollm2-135m
    """
    parser.add_argument("task", help="task id")
    parser.add_argument("condition", help="condition id")
    flags = [
        flag("--diff", "show what changes from condition OTHER to this one", metavar="OTHER"),
        flag("--item", "item id (default: the first of the profile's sample)", metavar="ID"),
        options.one("model", "model of a compiled prompt (default: the profile's first)"),
        options.CONFIG,
        options.NO_CODE,
    ]
    options.add_flags(parser, Group("", [*flags, options.SET]))


def execute_prompt(args: argparse.Namespace) -> int:
    """Print the prompt that a model gets for one item, or a diff of two conditions.

    The prompt alone goes to standard output, what else the condition decides to standard error.
    """
    suite = options.suite_from(args, check_selection=args.model is None)
    if args.task not in suite.tasks:
        raise ConfigError(f"unknown task '{args.task}'", hint=did_you_mean(args.task, suite.tasks))
    with options.code_as_asked(args):
        task = plan_task(suite, args.task)
    items = {item.item_id: item for item in task.items}
    if args.item is not None and args.item not in items:
        hint = did_you_mean(args.item, items)
        raise DataError(f"task '{task.id}' has no item '{args.item}' in this profile's sample", hint=hint)
    item = task.items[0] if args.item is None else items[args.item]
    model = args.model or suite.profile.selection.models[0]
    if model not in suite.models:
        raise ConfigError(f"--model: unknown model '{model}'", hint=suite.models.hint(model))
    shown = _build(suite, task, item, args.condition, model)
    if args.diff is None:
        print(readable(shown.prompt))
        print(f"\n[{_policy(shown)}]", file=sys.stderr)
        return 0
    other = _build(suite, task, item, args.diff, model)
    before, after = (readable(one.prompt).splitlines() for one in (other, shown))
    lines = difflib.unified_diff(before, after, args.diff, args.condition, lineterm="", n=1)
    print("\n".join(lines) or f"{args.diff} and {args.condition} have the same prompt")
    print(f"\n{args.diff}: {_policy(other)}\n{args.condition}: {_policy(shown)}")
    return 0


def _build(suite: Suite, task: TaskPlan, item: Item, condition_id: str, model_id: str) -> PromptCondition:
    members = expand_conditions([condition_id], suite.conditions, suite.operators)
    if len(members) > 1:
        hint = ", ".join(one.id for one in members[:8])
        raise ConfigError(
            f"'{condition_id}' is a design of {len(members)} conditions", hint=f"name one: {hint}"
        )
    chosen = with_compiled_prompt(suite, members[0], task.id, model_id)
    return apply_condition(chosen, task.prompting.context(item.input_text, item.columns))


def _policy(condition: PromptCondition) -> str:
    """What a condition decides, in one line: operators, decoding, program, length."""
    enforced = condition.constraint
    parts = [
        f"operators: {', '.join(condition.operators) or 'none'}",
        f"decoding: {enforced.kind} enforced ({enforced.backend})" if enforced else "decoding: free",
    ]
    if condition.program is not None:
        parts.append(f"program: {condition.program}")
    return "; ".join([*parts, f"{len(condition.prompt)} characters"])


SCHEMAS: dict[str, type[definitions.Definition]] = {
    "profile": Profile,
    "tasks": definitions.TasksFile,
    "models": definitions.ModelsFile,
    "operators": operator_definitions.OperatorsFile,
    "conditions": operator_definitions.ConditionsFile,
    "decoding": definitions.DecodingFile,
    "metrics": definitions.MetricsFile,
}


def configure_config(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite config``.

    examples:
      pcsuite config check configs/profile_A.yaml
      pcsuite config schema profile > profile.schema.json
      pcsuite config schema --out .schemas      # all of them, for an editor's YAML plugin
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|schema")
    check = actions.add_parser("check", help="check a profile and everything it refers to")
    check.add_argument("file", help="profile file or bundled name")
    options.add_flags(check, Group("", [options.NO_CODE]))
    schema = actions.add_parser("schema", help="print or write JSON schemas")
    schema.add_argument("kind", nargs="?", choices=sorted(SCHEMAS), help="which file's schema to print")
    options.add_flags(schema, Group("", [flag("--out", "write all schemas into a folder", **DIR)]))


def execute_config(args: argparse.Namespace) -> int:
    """Check a profile with all it refers to, or print or write JSON schemas.

    The first file that is wrong is raised, with all of its mistakes.
    """
    if args.action == "check":
        suite = load_suite(args.file)
        for task_id in suite.profile.selection.tasks:
            suite.schema(task_id)
            suite.grammar(task_id)
        for line in suite.schema_warnings():
            print(f"warning: {line}")
        with options.code_as_asked(args):
            check_components(suite)
        suite.check_made_from()
        chosen = suite.profile.selection
        conditions = [
            one.id for one in expand_conditions(chosen.conditions, suite.conditions, suite.operators)
        ]
        check_contrast_names(suite, conditions)
        sizes = {
            "task": chosen.tasks,
            "model": chosen.models,
            "condition": conditions,
            "regime": chosen.decoding_regimes,
        }
        words = ", ".join(counted(len(names), noun) for noun, names in sizes.items())
        print(f"{suite.path}: fine. {words} (config hash {suite.config_hash[:12]})")
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


ASSUMED = {
    "accuracy": (0, 1),
    "correlation": (-1, 1),
    "noise": (0, 1),
    "alpha": (0, 1),
    "power": (0, 1),
    "affected": (1, math.inf),
    "related": (0, 1),
}
"""What ``plan --assume`` states, between which figures; of correlation, noise, affected and related the ends too."""
POWER = Group("power", [
    switch("--power", "show the smallest detectable gains and losses"),
    flag("--effect", "wanted effect, e.g. 0.03 (a loss: -0.03): its power, and the items and replicates it needs",
         type=float, metavar="D"),
    flag("--pilot", "take accuracy, correlation and noise from this run log", type=Path, metavar="LOG"),
    flag("--assume",
         "without a pilot: accuracy of the control (0.5), correlation of item means between conditions (0.5), noise,"
         " the share of variance within the item (0.5); and alpha after correction (as registered, else 0.05), power"
         " (0.8), affected, the comparisons of a task that have the effect (1, the hardest to find), related, the share"
         " of the variance of differences between clusters (1: related items answer alike)",
         action="append", default=[], metavar="KEY=X"),
], "what the plan can find, simulated with the report's own test and correction (over all conditions, models and"
   " regimes of a task, or over the contrasts that the profile registers)")  # fmt: skip


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite plan``.

    examples:
      pcsuite plan --config quickstart
      pcsuite plan --config configs/profile_A.yaml --tasks gsm8k --cells
      pcsuite plan --config quickstart --models openai/my-model --base-url http://127.0.0.1:8000/v1
      pcsuite plan --config configs/profile_A.yaml --power --effect 0.03
      pcsuite plan --config configs/profile_A.yaml --power --pilot outputs/runs/pilot.jsonl
      pcsuite plan --config configs/profile_A.yaml --power --assume accuracy=0.7 --assume alpha=0.01
    """
    cells = switch("--cells", "list every cell, not only the totals by task and model")
    options.add_flags(
        parser,
        options.SELECTION,
        options.TARGET,
        Group("", [cells, options.JSON, options.NO_CODE]),
        POWER,
        Group("the profile", [*options.PROFILE.flags, options.MODEL_OPTION, options.MODELS_URL]),
        options.STOPPING,
        Group("what counts as evidence", [options.RELATED]),
    )


def execute_plan(args: argparse.Namespace) -> int:
    """Print the grid with its size and cost, what is not applicable and, where asked, its statistical power.

    Nothing is run. Every answer is taken to be as long as it may be; prompts are estimated at four characters a token,
    without what a chat template adds.
    """
    from rich.table import Table

    asks_power = args.power or args.pilot is not None or args.effect is not None
    assumed = _checked_power(args)  # a mistake is told before the grid is printed
    pilot = None if args.pilot is None else find_log(args.pilot, args.output_dir or "outputs")
    options.check_stopping(args)
    from pcsuite.api.planning import plan as plan_of

    with options.code_as_asked(args):
        suite = options.suite_from(args)
        planned = plan_of(suite, power=asks_power, effect=args.effect, pilot=pilot, assume=assumed)
    plan, estimates, settings = planned.plan, planned.estimates, planned.power_settings
    registered = registered_plan(plan)  # so is one in what is registered
    section = plan.suite.profile.preregistration
    if args.json:
        powers = planned.designs if asks_power else None
        options.print_json(_plan_document(plan, estimates, powers, registered))
        return 0
    console = options.output_console()
    run = plan.suite.profile.run
    console.print(f"{run.name}  {plan.suite.path}  config {plan.suite.config_hash[:12]}")
    for task in plan.tasks.values():
        related = items_in_clusters(task.items, plan.suite.clusters_of(task.id))
        console.print(f"  {task.id}: {related} ({task.source.describe()})", markup=False)
    for line in plan.suite.seeds_left_out(plan.scope.tasks, plan.scope.regimes, plan.scope.models):
        console.print(f"  {line}", markup=False)
    names = ("condition", "regime") if args.cells else ("conditions", "regimes")
    table = Table("task", "model", *names, title="cells" if args.cells else "by task and model")
    for column in ("rows", "done", "tokens a prompt ≈", "tokens left ≈", "USD left ≈"):
        table.add_column(column, justify="right")
    grouped: dict[tuple[str, ...], list[CellEstimate]] = {}
    for entry in estimates:
        cell = entry.cell
        key = (cell.task.id, cell.model_id, cell.condition.id, cell.decoding.id)
        grouped.setdefault(key if args.cells else key[:2], []).append(entry)
    for (task_id, model_id, *_), group in grouped.items():
        rows = sum(entry.cell.calls for entry in group)
        prompt = round(sum(entry.prompt_tokens * entry.cell.calls for entry in group) / max(rows, 1))
        table.add_row(
            task_id,
            model_id,
            " ".join(dict.fromkeys(entry.cell.condition.id for entry in group)),
            " ".join(dict.fromkeys(entry.cell.decoding.id for entry in group)),
            f"{rows:,}",
            f"{sum(entry.done for entry in group):,}",
            f"{prompt:,}",
            f"{sum(entry.max_tokens for entry in group):,}",
            "unknown" if total_cost(group) is None else f"{total_cost(group):.2f}",
        )
    console.print(table)
    left = sum(entry.left for entry in estimates)
    tokens = sum(entry.max_tokens for entry in estimates)
    cost = sum(entry.max_cost_usd or 0.0 for entry in estimates)
    unpriced = sorted({entry.cell.model_id for entry in estimates if entry.max_cost_usd is None})
    beyond = f" and what {', '.join(unpriced)} costs" if unpriced else ""
    console.print(
        f"{plan.calls:,} rows, {left:,} to run: about {tokens:,} tokens and ${cost:,.2f}{beyond}"
        " if every answer runs to its limit (prompts at four characters a token)"
    )
    for model_id in plan.scope.models:
        console.print(f"  {model_id}: {price_words(plan.suite.models[model_id])}")
    limits, over = plan.suite.profile.limits, "over the budget:"
    if limits.max_tokens_overall is not None and tokens > limits.max_tokens_overall:
        value = f"{limits.max_tokens_overall:,}"
        console.print(f"{over} limits.max_tokens_overall is {value}; the run will stop there")
    if limits.max_cost_usd is not None and cost > limits.max_cost_usd:
        console.print(f"{over} limits.max_cost_usd is ${limits.max_cost_usd:,.2f}; the run will stop there")
    if plan.not_applicable:
        console.print("not applicable", style="bold")
        for line in options.not_applicable_lines(plan.not_applicable):
            console.print(f"  {line}")
    if plan.enforced_in_part:
        console.print("enforced in part (no evidence for H2)", style="bold")
        for line in options.not_applicable_lines(plan.enforced_in_part):
            console.print(f"  {line}")
    _print_registered(console, plan, registered)
    if asks_power and settings is not None:
        _print_power(console, planned.designs, settings, section)
    return 0


def _checked_power(args: argparse.Namespace) -> dict[str, Any]:
    """What ``--assume`` states, by the fields of ``PowerSettings``; raises ``ConfigError`` for impossible figures."""
    assumed = options.key_values(args.assume, "--assume", "accuracy=0.7")
    effect = {} if args.effect is None else {"--effect": ("effect", args.effect)}
    for shown, (name, value) in (effect | {f"--assume {k}": (k, v) for k, v in assumed.items()}).items():
        if name not in ASSUMED and name != "effect":
            raise ConfigError(f"--assume: unknown '{name}'", hint=did_you_mean(name, ASSUMED))
        low, high = ASSUMED.get(name, (-1, 1))
        if not isinstance(value, (int, float)) or (name == "affected" and not isinstance(value, int)):
            raise ConfigError(f"{shown}={value}: a {'whole ' * (name == 'affected')}number is wanted")
        ends = name in ("correlation", "noise", "affected", "related")
        if not (low <= value <= high if ends else low < value < high) or (name == "effect" and value == 0):
            bounds = "be at least 1" if name == "affected" else f"lie between {low} and {high}"
            raise ConfigError(f"{shown}{' ' if name == 'effect' else '='}{value:g}: it must {bounds}")
    return assumed


def _plan_document(
    plan: Plan,
    estimates: list[CellEstimate],
    powers: list[DesignPower] | None,
    registered: RegisteredPlan | None,
) -> dict[str, Any]:
    """What ``plan --json`` prints; ``power`` is null where it was not asked for."""
    from pcsuite.api.planning import power_records

    return {
        "run": plan.suite.profile.run.name,
        "profile": plan.suite.path,
        "config_hash": plan.suite.config_hash,
        "tasks": {
            task.id: {
                "items": len(task.items),
                "clusters": count_clusters(task.items),
                "source": task.source.describe(),
            }
            for task in plan.tasks.values()
        },
        "cells": [
            {
                "task": entry.cell.task.id,
                "model": entry.cell.model_id,
                "condition": entry.cell.condition.id,
                "decoding": entry.cell.decoding.id,
                "rows": entry.cell.calls,
                "done": entry.done,
                "prompt_tokens": entry.prompt_tokens,
                "max_tokens": entry.max_tokens,
                "max_cost_usd": entry.max_cost_usd,
            }
            for entry in estimates
        ],
        "rows": plan.calls,
        "rows_left": sum(entry.left for entry in estimates),
        "max_tokens": sum(entry.max_tokens for entry in estimates),
        "max_cost_usd": total_cost(estimates),
        "prices": {model_id: price_words(plan.suite.models[model_id]) for model_id in plan.scope.models},
        "not_applicable": [options.not_applicable_entry(entry) for entry in plan.not_applicable],
        "enforced_in_part": [options.not_applicable_entry(entry) for entry in plan.enforced_in_part],
        "registered": None if registered is None else registered.hash,
        "power": None if powers is None else power_records(powers),
    }


def _print_registered(console: Console, plan: Plan, registered: RegisteredPlan | None) -> None:
    """Say what the profile registers: the primary contrasts, what they share, and when the run stops."""
    section = plan.suite.profile.preregistration
    if registered is None or section is None:
        return
    console.print("registered", style="bold", end="")
    console.print(f"  {registered.hash[:12]}, judged by {section.metric}")
    names = dict.fromkeys(f"{condition} − {baseline}" for *_, condition, baseline in registered.contrasts)
    together = "of a task" if section.family == "task" else "of all tasks"
    console.print(
        f"  {counted(len(registered.contrasts), 'primary contrast')} ({', '.join(names)}),"
        f" those {together} corrected together"
    )
    margin = "" if section.margin is None else f", margin {section.margin:g}"
    rule = section.stopping.rule
    if rule == "all_items":
        console.print(f"  stops when all items are asked{margin}")
    else:
        check_metric(plan.suite, section.metric)
        console.print(
            f"  stops an arm when it is {rule.replace('_', ' ')}{margin}: a look every {section.stopping.batch} items,"
            f" false decisions in at most {section.alpha:g} of studies over all looks and arms"
        )
        for task in plan.tasks.values():
            if section.metric == "task_score" and task.evaluator.pooling == "micro_f1":
                console.print(f"  {task.id}: {options.BY_ITEM_MEANS}")


def _print_power(
    console: Console,
    designs: list[DesignPower],
    settings: PowerSettings,
    registered: PreregistrationSection | None,
) -> None:
    from rich.table import Table

    table = Table("task", "model", "regime", title="smallest detectable effect")
    for column in ("items", "replicates", "comparisons", "gain", "loss"):
        table.add_column(column, justify="right")
    if settings.effect is not None:
        for column in ("power for", "items for", "replicates for"):
            table.add_column(f"{column} {settings.effect:g}", justify="right")

    def shown(value: float | None) -> str:
        return "none" if value is None else f"{value:+.3f}"

    for design in designs:
        items = str(design.items)
        if design.clusters < design.items:
            items += f" in {counted(design.clusters, 'cluster')}"
        cells = [*design.key, items, str(design.replicates), str(design.comparisons)]
        mark = "" if design.from_pilot else " *"
        cells += [shown(design.gain) + mark, shown(design.loss) + mark]
        if design.target is not None:
            target = design.target
            cells.append("no room" if target.power is None else f"{target.power:.2f}")
            cells += ["none suffices" if n is None else f"{n:,}" for n in (target.items, target.replicates)]
        table.add_row(*cells)
    console.print(table)
    for design in designs:
        if design.clusters < design.items:
            # What a mean over related items is worth, so that nobody takes a hundred copies for a hundred items.
            reason = too_few_clusters(design.clusters).removeprefix("not tested: ")
            basis = "measured" if design.from_pilot else "stated, --assume related=X"
            console.print(
                f"{' × '.join(design.key)}: {design.items} items in {counted(design.clusters, 'cluster')} are worth"
                f" {design.units} unrelated ones (related {design.related:.2f}, {basis})"
                + (f"; nothing will be tested: {reason}" if reason else ""),
                markup=False,
            )
        elif not design.can_hold:
            together = math.ceil(design.least_p * design.comparisons / settings.alpha)
            joined = f" ({together} that all reach it would)" if together <= design.comparisons else ""
            console.print(
                f"[yellow]{' × '.join(design.key)}: no effect can hold with {design.items} items and"
                f" {design.comparisons} tests: least p {design.least_p:.2g} against"
                f" {settings.alpha / design.comparisons:.2g} for one alone{joined}; at least"
                f" {design.items_to_hold} items needed[/yellow]"
            )
    hit = "one comparison has" if settings.affected == 1 else f"{settings.affected} comparisons have"
    correction = "Benjamini–Hochberg over the comparisons of a task"
    if registered is not None:
        family = "of a task" if registered.family == "task" else "of all tasks"
        correction = f"Holm over the registered contrasts {family}"
    console.print(
        f"power {settings.power:g} of an adjusted p ({correction}, as in the"
        f" report) below {settings.alpha:g} where {hit} the effect and the others none; sign-flip test over items,"
        " simulated; 'none': not even the largest possible change is found"
    )
    pooled = {design.key[0]: design.from_pilot for design in designs if design.measure == "micro_f1"}
    for task, measured in pooled.items():
        how = (
            "planned on micro-F1, as the report states it, by each item's share in the pilot's pooled counts"
            if measured
            else "its report states micro-F1 of pooled counts, of which stated rates say nothing: this is the power of"
            " right-or-wrong items; --pilot LOG plans on micro-F1"
        )
        console.print(f"{task}: {how}")
    if not all(design.from_pilot for design in designs):
        console.print(
            f"* stated, not measured: accuracy {settings.accuracy:g}, correlation "
            f"{settings.correlation:g}, noise {settings.noise:g}; --pilot LOG takes them from a run"
        )
