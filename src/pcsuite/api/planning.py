"""``pcs.plan``: what a profile would run and cost, and what it could find, before anything is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from pcsuite.analysis.frame import Frame
from pcsuite.analysis.table import CELL, Column, Table, TableSpec
from pcsuite.api.profiles import Profile, load
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.logging.segments import find_log
from pcsuite.runners.estimate import (
    CellEstimate,
    DesignPower,
    PowerSettings,
    estimate_plan,
    plan_power,
    total_cost,
)
from pcsuite.runners.plan import Plan, build_plan


def plan(
    profile: Profile,
    *,
    power: bool = False,
    effect: float | None = None,
    pilot: str | Path | None = None,
    assume: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Planned:
    """What a profile would run: cells, rows, tokens and price, and what is not applicable; nothing is called.

        pcs.plan("quickstart", limit=20).cells().to_pandas()
        pcs.plan("quickstart", power=True).power()

    ``power`` asks what it can find: ``effect`` is one that is wanted, ``pilot`` a run that the spread is taken from,
    and ``assume`` what is stated without one (``accuracy``, ``correlation``, ``noise``, ``alpha``, …). Takes what
    :func:`load` takes besides and raises what it raises.
    """
    planned = build_plan(load(profile, **overrides))
    if not (power or effect is not None or pilot is not None or assume):
        return Planned(planned)
    known = [entry.name for entry in fields(PowerSettings)]
    for name in assume or {}:
        if name not in known:
            raise ConfigError(f"assume: unknown '{name}'", hint=did_you_mean(name, known))
    section = planned.suite.profile.preregistration
    stated = {"alpha": section.alpha} if section is not None else {}
    settings = PowerSettings(**(stated | dict(assume or {}) | {"effect": effect}))
    log = None if pilot is None else find_log(pilot, planned.suite.profile.run.output_dir)
    return Planned(planned, settings, log)


@dataclass
class Planned:
    """What a profile would run, cost and leave out; nothing has been called."""

    plan: Plan
    power_settings: PowerSettings | None = field(default=None, repr=False)
    """What is asked and assumed of its power; ``None`` where it was not asked for."""
    pilot: Path | None = field(default=None, repr=False)

    @cached_property
    def designs(self) -> list[DesignPower]:
        """What every task, model and regime can find; raises ``AnalysisError`` for settings out of range."""
        return plan_power(self.plan, self.power_settings or PowerSettings(), self.pilot)

    def power(self) -> Frame:
        """What every task, model and regime can find, with the report's own test and correction.

        One row each: the smallest gain and loss that are found with 80 % power, were the rest as assumed
        (``pcsuite plan --power`` prints the same).
        """
        return Table.of(POWER, power_records(self.designs))

    @cached_property
    def estimates(self) -> list[CellEstimate]:
        """Size and price of every cell."""
        return estimate_plan(self.plan)

    @property
    def rows(self) -> int:
        """Rows of the whole plan, those that the log has already included.

        One row is one answer; further calls of a loop belong to the row they end in.
        """
        return self.plan.calls

    @property
    def max_cost_usd(self) -> float | None:
        """Price of the rows still to run if every answer is as long as it may be; ``None`` where it is not known.

        0 where nothing is left to run; embedded and self-hosted models cost nothing.
        """
        return total_cost(self.estimates)

    def cells(self) -> Frame:
        """Every cell with its rows, tokens and price at most.

        One row per task, model, decoding regime and condition. Token figures are upper bounds, as ``pcsuite plan``
        has them.
        """
        return Table.of(
            PLANNED,
            [
                {
                    "task": entry.cell.task.id,
                    "model": entry.cell.model_id,
                    "decoding": entry.cell.decoding.id,
                    "condition": entry.cell.condition.id,
                    "rows": entry.cell.calls,
                    "done": entry.done,
                    "prompt_tokens": entry.prompt_tokens,
                    "max_tokens": entry.max_tokens,
                    "max_cost_usd": entry.max_cost_usd,
                }
                for entry in self.estimates
            ],
        )

    def __repr__(self) -> str:
        power = "" if self.power_settings is None else f"\n{self.power()!r}"
        return f"{self._totals_line()}\n{self.cells()!r}{power}"

    def _repr_html_(self) -> str:
        power = "" if self.power_settings is None else self.power()._repr_html_()
        return f"<p>{self._totals_line()}</p>{self.cells()._repr_html_()}{power}"

    def _totals_line(self) -> str:
        to_run = sum(entry.left for entry in self.estimates)
        skipped = len(self.plan.not_applicable)
        na = f", {skipped} cells not applicable" if skipped else ""
        name = self.plan.suite.profile.run.name
        cost = self.max_cost_usd
        price = "at an unknown price" if cost is None else f"at most ${cost:,.2f}"
        return f"{name}: {self.rows:,} rows, {to_run:,} to run, {price}{na}"


PLANNED = TableSpec(
    "plan",
    "What would run",
    "cell",
    (
        *CELL,
        Column("rows", "rows of the cell"),
        Column("done", "rows that the log has already"),
        Column("prompt_tokens", "tokens of a prompt, about"),
        Column("max_tokens", "tokens of the rows still to run at most"),
        Column("max_cost_usd", "their price at most"),
    ),
)
POWER = TableSpec(
    "power",
    "What a plan can find",
    "task, model and regime",
    (
        Column("task", "task id"),
        Column("model", "model id"),
        Column("decoding", "decoding regime"),
        Column("items", "items of the task"),
        Column("clusters", "clusters of the items; as many as items where no two are related"),
        Column("units", "unrelated items that these are worth"),
        Column("replicates", "answers an item"),
        Column("comparisons", "comparisons that are corrected together"),
        Column("smallest_gain", "smallest gain found with the wanted power; empty where none is"),
        Column("smallest_loss", "smallest loss, a negative number, likewise"),
        Column("can_hold", "whether an effect that stands alone can hold at all"),
        Column("items_to_hold", "items below which none can"),
    ),
)


def power_records(designs: Sequence[DesignPower]) -> list[dict[str, Any]]:
    """What designs can find, a record each with the columns of :data:`POWER`."""
    return [
        {
            **dict(zip(("task", "model", "decoding"), design.key, strict=True)),
            "items": design.items,
            "clusters": design.clusters,
            "units": design.units,
            "replicates": design.replicates,
            "comparisons": design.comparisons,
            "smallest_gain": design.gain,
            "smallest_loss": design.loss,
            "can_hold": design.can_hold,
            "items_to_hold": design.items_to_hold,
        }
        for design in designs
    ]
