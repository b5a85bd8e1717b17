"""``pcsuite plan``: the grid before it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite.commands.console import not_applicable_lines, output_console
from pcsuite.commands.options import add_profile_arguments, suite_from
from pcsuite.runners.estimate import CellEstimate, estimate_plan
from pcsuite.runners.plan import Plan, build_plan
from pcsuite.runners.power import DesignPower, PowerSettings, plan_power


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n"
        "  pcsuite plan --config quickstart\n"
        "  pcsuite plan --config configs/profile_A.yaml --tasks gsm8k --cells\n"
        "  pcsuite plan --config configs/profile_A.yaml --power --effect 0.03\n"
        "  pcsuite plan --config configs/profile_A.yaml --power --pilot outputs/runs/pilot.jsonl"
    )
    add_profile_arguments(parser)
    parser.add_argument(
        "--cells", action="store_true", help="list every cell, not only the totals by task and model"
    )
    _add_power_arguments(parser)


def _add_power_arguments(parser: argparse.ArgumentParser) -> None:
    power = parser.add_argument_group(
        "power", "the smallest effect the plan can detect, and what a wanted one needs"
    )
    power.add_argument("--power", action="store_true", help="show the smallest detectable effects")
    power.add_argument("--pilot", type=Path, metavar="LOG", help="take variances from this run log")
    power.add_argument(
        "--effect", type=float, metavar="D", help="wanted effect, e.g. 0.03: items and replicates needed"
    )
    power.add_argument(
        "--accuracy", type=float, default=0.5, help="stated accuracy without a pilot (default 0.5)"
    )
    power.add_argument(
        "--correlation",
        type=float,
        default=0.5,
        help="stated correlation of item means between conditions (default 0.5)",
    )
    power.add_argument(
        "--noise", type=float, default=0.5, help="stated share of variance within the item (default 0.5)"
    )
    power.add_argument(
        "--alpha", type=float, default=0.05, help="two-sided level over all comparisons (default 0.05)"
    )
    power.add_argument("--target", type=float, default=0.8, help="wanted power (default 0.8)")


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    plan = build_plan(suite_from(args))
    estimates = estimate_plan(plan)
    _print_tables(plan, estimates, cells=args.cells)
    if args.power or args.pilot is not None or args.effect is not None:
        settings = PowerSettings(
            args.alpha, args.target, args.effect, args.accuracy, args.correlation, args.noise
        )
        _print_power(plan_power(plan, settings, args.pilot), settings)
    return 0


def _print_power(designs: list[DesignPower], settings: PowerSettings) -> None:
    from rich.table import Table

    table = Table(title="smallest detectable effect")
    for column in ("task", "model", "regime"):
        table.add_column(column)
    for column in ("items", "replicates", "comparisons", "detectable"):
        table.add_column(column, justify="right")
    if settings.effect is not None:
        table.add_column(f"items for {settings.effect:g}", justify="right")
        table.add_column(f"replicates for {settings.effect:g}", justify="right")
    for design in designs:
        cells = [*design.key, str(design.items), str(design.replicates), str(design.comparisons)]
        cells.append(f"{design.detectable:.3f}" + ("" if design.from_pilot else " *"))
        if settings.effect is not None:
            cells.append(str(design.items_needed))
            cells.append(
                "none suffices" if design.replicates_needed is None else str(design.replicates_needed)
            )
        table.add_row(*cells)
    console = output_console()
    console.print(table)
    console.print(
        f"power {settings.power:g} at level {settings.alpha:g} shared over the comparisons (Bonferroni); "
        "paired over items; replicates shrink only the variance within items (Miller 2024)"
    )
    if not all(design.from_pilot for design in designs):
        console.print(
            f"* variances are stated, not measured: accuracy {settings.accuracy:g}, correlation "
            f"{settings.correlation:g}, noise {settings.noise:g}; --pilot LOG takes them from a run"
        )


def _print_tables(plan: Plan, estimates: list[CellEstimate], *, cells: bool) -> None:
    from rich.table import Table

    console = output_console()
    run = plan.suite.profile.run
    console.print(f"[bold]{run.name}[/bold]  {plan.suite.path}  config {plan.suite.config_hash[:12]}")
    for task in plan.tasks.values():
        console.print(f"  {task.id}: {len(task.items)} items ({task.source.describe()})")
    table = Table(title="cells" if cells else "by task and model")
    for column in ("task", "model", "condition" if cells else "conditions", "regime" if cells else "regimes"):
        table.add_column(column)
    for column in ("rows", "done", "prompt tokens ≈", "tokens at most ≈", "USD at most ≈"):
        table.add_column(column, justify="right")
    for names, group in _groups(estimates, cells=cells):
        rows = sum(entry.cell.calls for entry in group)
        prompt = round(sum(entry.prompt_tokens * entry.cell.calls for entry in group) / max(rows, 1))
        table.add_row(
            *names,
            f"{rows:,}",
            f"{sum(entry.done for entry in group):,}",
            f"{prompt:,}",
            f"{sum(entry.max_tokens for entry in group):,}",
            f"{sum(entry.max_cost_usd for entry in group):.2f}",
        )
    console.print(table)
    left = sum(entry.left for entry in estimates)
    tokens = sum(entry.max_tokens for entry in estimates)
    cost = sum(entry.max_cost_usd for entry in estimates)
    console.print(f"{plan.calls:,} rows, {left:,} to run, at most about {tokens:,} tokens and ${cost:,.2f}")
    for limit, value in _limits(plan, tokens, cost):
        console.print(f"[yellow]over the budget:[/yellow] {limit} is {value}; the run will stop there")
    if plan.not_applicable:
        console.print("[bold]not applicable[/bold]")
        for line in not_applicable_lines(plan.not_applicable):
            console.print(f"  {line}")


def _groups(
    estimates: list[CellEstimate], *, cells: bool
) -> list[tuple[tuple[str, str, str, str], list[CellEstimate]]]:
    if cells:
        return [
            ((e.cell.task.id, e.cell.model_id, e.cell.condition.id, e.cell.decoding.id), [e])
            for e in estimates
        ]
    grouped: dict[tuple[str, str], list[CellEstimate]] = {}
    for entry in estimates:
        grouped.setdefault((entry.cell.task.id, entry.cell.model_id), []).append(entry)
    result = []
    for (task, model), group in grouped.items():
        conditions = " ".join(dict.fromkeys(entry.cell.condition.id for entry in group))
        regimes = " ".join(dict.fromkeys(entry.cell.decoding.id for entry in group))
        result.append(((task, model, conditions, regimes), group))
    return result


def _limits(plan: Plan, tokens: int, cost: float) -> list[tuple[str, str]]:
    limits = plan.suite.profile.limits
    over = []
    if limits.max_tokens_overall is not None and tokens > limits.max_tokens_overall:
        over.append(("limits.max_tokens_overall", f"{limits.max_tokens_overall:,}"))
    if limits.max_cost_usd is not None and cost > limits.max_cost_usd:
        over.append(("limits.max_cost_usd", f"${limits.max_cost_usd:,.2f}"))
    return over
