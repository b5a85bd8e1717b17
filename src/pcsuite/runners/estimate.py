"""What a plan will take: calls, tokens and cost, before anything is called."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pcsuite.logging.index import ResumeIndex
from pcsuite.logging.writer import RunPaths
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.length import fit
from pcsuite.runners.plan import Cell, Plan, cell_worst_case

_SAMPLED_PROMPTS = 5


@dataclass(slots=True)
class CellEstimate:
    """A cell's size."""

    cell: Cell
    done: int
    prompt_tokens: int
    """Estimated mean over a few items, about four characters a token."""
    max_cost_usd: float
    """Cost of what is left if every completion runs to its limit and every loop to its last turn."""
    max_row_tokens: int
    """Tokens of one row in that case."""

    @property
    def left(self) -> int:
        """Rows still to run."""
        return self.cell.calls - self.done

    @property
    def max_tokens(self) -> int:
        """Tokens of what is left if every completion runs to its limit and every loop to its last turn."""
        return self.left * self.max_row_tokens


def estimate_plan(plan: Plan) -> list[CellEstimate]:
    """Size of every cell, less what the log already has."""
    run = plan.suite.profile.run
    index = ResumeIndex.read(RunPaths.of(Path(run.output_dir), run.name).log)
    done: dict[int, int] = defaultdict(int)
    if len(index):
        for model_id in plan.suite.profile.selection.models:
            for unit in plan.units(model_id):
                done[id(unit.cell)] += unit.run_id in index
    estimates = []
    tokens: dict[tuple[str, str], int] = {}
    for cell in plan.cells:
        key = (cell.task.id, cell.condition.id)
        if key not in tokens:
            tokens[key] = _mean_tokens(plan, cell)
        model = plan.suite.models[cell.model_id]
        left = cell.calls - done[id(cell)]
        worst = cell_worst_case(cell)
        prompts = tokens[key] * worst.calls + worst.extra_prompt_tokens
        completions = cell.decoding.max_tokens * worst.completions
        cost = left * model.cost(prompts, completions)
        estimates.append(CellEstimate(cell, done[id(cell)], tokens[key], cost, prompts + completions))
    return estimates


def _mean_tokens(plan: Plan, cell: Cell) -> int:
    counts = []
    for item in cell.task.items[:_SAMPLED_PROMPTS]:
        condition = apply_condition(cell.condition, cell.task.prompting.context(item.input_text))
        measured = fit(condition.tree, cell.task.band, plan.suite.profile.length_control, lambda _: None)
        counts.append(measured.tokens)
    return round(sum(counts) / len(counts))
