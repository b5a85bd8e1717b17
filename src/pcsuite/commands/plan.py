"""``pcsuite plan``: the grid before it runs."""

from __future__ import annotations

import argparse

from pcsuite.commands.options import add_profile_arguments, suite_from
from pcsuite.runners.estimate import CellEstimate, estimate_plan
from pcsuite.runners.plan import Plan, build_plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n"
        "  pcsuite plan --config quickstart\n"
        "  pcsuite plan --config configs/profile_A.yaml --tasks gsm8k --cells"
    )
    add_profile_arguments(parser)
    parser.add_argument(
        "--cells", action="store_true", help="list every cell, not only the totals by task and model"
    )


def execute(args: argparse.Namespace) -> int:
    """Run the command."""
    plan = build_plan(suite_from(args))
    estimates = estimate_plan(plan)
    _print_tables(plan, estimates, cells=args.cells)
    return 0


def _print_tables(plan: Plan, estimates: list[CellEstimate], *, cells: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
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
        for entry in plan.not_applicable:
            console.print(f"  {entry.condition_id} × {entry.task_id} × {entry.model_id}: {entry.reason}")


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
