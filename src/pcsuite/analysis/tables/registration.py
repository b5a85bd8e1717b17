"""``registration.csv`` and ``looks.csv``: what was planned before the first call and what came of it, and every look.

What a run registered is read from its manifest, its looks from the file beside its log. A contrast that was not
registered is marked as such in ``effects.csv`` and is never corrected together with those that were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.text import counted
from pcsuite.analysis.load.item_scores import LOGGED_SCORE, SCORE
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.contrasts import ALPHA, is_reliable
from pcsuite.logging.looks import ArmKey, Look, last_looks, read_looks
from pcsuite.logging.manifest import RegisteredPlan, RunManifest

ITEM_MEANS = "mean over items"
"""The measure of a difference that rests on one score an item, each weighing the same."""
_ARM = (
    Column("task", "task id", paper="Task"),
    Column("model", "model id", paper="Model"),
    Column("decoding", "decoding regime", label="regime", paper="Regime"),
    Column("condition", "condition id", paper="Condition"),
    Column("baseline", "what it is compared with", label="against", form="text", paper="Against"),
    Column("metric", "name of the metric", form="text"),
)
REGISTRATION = TableSpec(
    "registration",
    "What was planned",
    "primary contrast on a task, model and regime",
    (
        *_ARM,
        Column("n_items", "items that both conditions have", label="items", form="number", paper="Items"),
        *interval("delta", "condition less baseline", label="difference", form="difference", paper="Change"),
        Column("p_value", "two-sided p-value; anytime-valid where looks were taken", label="p", form="p"),
        Column(
            "p_holm",
            "the same adjusted after Holm over the registered family",
            label="p (Holm)",
            form="p",
            paper="$p$ (Holm)",
        ),
        Column("looks", "looks that were taken", form="number"),
        Column("stopped", "whether the arm was stopped before its items ran out", form="text"),
        Column(
            "outcome",
            "holds or not shown, by p_holm and the registered level; where looks were taken, what the last one decided;"
            " not run where there are no rows",
            form="text",
            paper="Outcome",
        ),
    ),
    note="Primary contrasts as they were hashed into the manifest before the first call; everything else explores.",
    caption=(
        "Primary contrasts as they were registered before the first call, with 95\\,\\% intervals over items;"
        " $p$ after Holm within the registered family."
    ),
    folded=True,
)
LOOKS = TableSpec(
    "looks",
    "Looks",
    "look at a primary contrast on a task, model and regime",
    (
        *_ARM,
        Column("visited", "items of the task that had been visited", form="number"),
        Column("items", "items that both conditions had a score of", form="number"),
        Column("mean", "mean difference, condition less baseline", form="difference"),
        Column("low", "lower limit, valid at all looks of all arms of the family at once", form="number"),
        Column("high", "upper limit", form="number"),
        Column("level", "level of the arm's limits at this look", form="number", digits=4),
        Column(
            "p_value",
            "p-value of no difference that holds at all looks, for the arm alone",
            label="p",
            form="p",
        ),
        Column("margin", "smallest difference that matters", form="number"),
        Column("verdict", "better, worse, equivalent, no worse or undecided", form="text"),
        Column("stopped", "whether the arm was stopped by this look", form="text"),
        Column("at_utc", "when it was taken", shown=False),
        Column("missing", "items visited of which an answer is missing on either side", form="number"),
        Column("clusters", "clusters of the items", form="number"),
        Column(
            "rule",
            "betting after every batch, or how planned looks spend the error that is allowed",
            form="text",
        ),
        Column("number", "which of the planned looks it is; 0 after a batch", form="number"),
        Column("planned", "looks that were planned; 0 where there is one after every batch", form="number"),
        Column("moved", "items that gained or lost, where planned looks go by signs alone", form="number"),
        Column("no_worse", "whether a planned look rules out a loss of the margin", form="text"),
        Column(
            "most_lost",
            "the limit of the loss by which one of the margin is ruled out; empty where none is",
            form="difference",
        ),
        Column(
            "unbiased",
            "mean difference without the bias of stopping, of the look that stopped the arm",
            form="difference",
        ),
    ),
    note=(
        "Confidence sequences by betting (Waudby-Smith & Ramdas 2024) hold however often one looks; planned looks share"
        " the error that is allowed (alpha-spending, Lan & DeMets 1983). Stopping by either leaves the error rate as it"
        " is."
    ),
    folded=True,
)


@dataclass(frozen=True)
class Registered:
    """What the reported runs had registered, and the looks they took."""

    plan: RegisteredPlan | None = None
    looks: Sequence[Look] = ()
    arms: frozenset[ArmKey] = frozenset()
    last: Mapping[ArmKey, Look] = field(default_factory=dict)

    @classmethod
    def of(cls, manifest: RunManifest, logs: Iterable[Path]) -> Registered:
        """From the merged manifest of some logs and the looks beside them."""
        plan = manifest.preregistration
        looks = [look for log in logs for look in read_looks(log)]
        arms = (
            frozenset(ArmKey(*contrast) for contrast in plan.contrasts) if plan is not None else frozenset()
        )
        return cls(plan, looks, arms, last_looks(looks))

    @property
    def metric(self) -> str | None:
        """The metric of the primary contrasts, by the name it has in the tables."""
        return None if self.plan is None else _in_tables(str(self.plan.plan.get("metric")))

    def pairs(self, task: str, model: str, decoding: str) -> list[tuple[str, str]]:
        """The registered contrasts of a group, as condition and baseline."""
        return sorted(arm[3:] for arm in self.arms if arm[:3] == (task, model, decoding))

    def is_primary(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of ``effects.csv`` is a registered contrast on the registered metric."""
        return record["metric"] == self.metric and self._arm(record) in self.arms

    def family(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        """What a record is corrected together with: the registered family, else all of its kind."""
        # What was planned does not pay for what was explored: each has a family of its own.
        if self.plan is not None and self.is_primary(record):
            return ("registered", record["task"] if self.plan.plan.get("family") == "task" else None)
        return ("explored", record["task"], record["metric"], record["kind"])

    def by_looks(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """What the last look at an arm says, in the columns of ``effects.csv``; nothing where none was taken.

        Intervals and p-values for a fixed number of items would be too optimistic for a run that could stop. Looks
        judge the mean of item scores; of a record about pooled counts the difference becomes that of the means.
        """
        look = self.last.get(self._arm(record))
        if look is None or _in_tables(look.metric) != record["metric"]:
            return {}
        means: dict[str, Any] = {}
        if record["measure"] != ITEM_MEANS:
            means = {"measure": ITEM_MEANS, "delta": look.effect}
        elif look.unbiased is not None:
            means = {"delta": look.unbiased}  # the plain mean is too large where the run stopped by it
        return {
            **means,
            "delta_low": look.low,
            "delta_high": look.high,
            "interval_method": f"{'planned looks' if look.planned else 'confidence sequence'} {look.level:.4g}",
            "p_value": look.p_value,
            "p_method": f"planned look {look.number} of {look.planned}, {look.rule} spending"
            if look.planned
            else "betting, anytime-valid",
        }

    def _arm(self, record: Mapping[str, Any]) -> ArmKey:
        return ArmKey(*(record[name] for name in ArmKey._fields))


def _in_tables(metric: str) -> str:
    """The name of a logged metric in the tables, where ``task_score`` is the score."""
    return SCORE if metric == LOGGED_SCORE else metric


def registration_tables(registered: Registered, effects: Iterable[Mapping[str, Any]]) -> list[Table]:
    """``registration.csv`` and ``looks.csv`` (both empty where nothing was registered)."""
    looks_by_arm = Counter(look.arm for look in registered.looks)
    plan = registered.plan.plan if registered.plan is not None else {}
    measured = {
        ArmKey(*(row[name] for name in ArmKey._fields)): row for row in effects if registered.is_primary(row)
    }
    columns = ("n_items", "delta", "delta_low", "delta_high", "p_value", "p_holm")
    records = []
    for arm in sorted(registered.arms):
        row, look = measured.get(arm), registered.last.get(arm)
        record: dict[str, Any] = {**arm._asdict(), "metric": registered.metric, "outcome": "not run"}
        if row is not None:
            holds = is_reliable(row["p_holm"], plan.get("alpha", ALPHA))
            record |= {name: row[name] for name in columns} | {"outcome": "holds" if holds else "not shown"}
        if look is not None:
            record |= {
                "looks": looks_by_arm[arm],
                "stopped": "yes" if look.stopped else "no",
                "outcome": look.verdict,
            }
        records.append(record)
    looks = [
        msgspec.structs.asdict(look)
        | {
            "metric": _in_tables(look.metric),
            "stopped": "yes" if look.stopped else "no",
            "no_worse": "yes" if look.no_worse else "no",
        }
        for look in registered.looks
    ]
    return [Table.of(REGISTRATION, records), Table.of(LOOKS, looks)]


def registration_notices(registered: Registered) -> list[str]:
    """What the head of the report says of the plan: registered or not, deviations, looks and stopped arms."""
    plan, notices = registered.plan, []
    if plan is None:
        return []
    if plan.hash:
        many = counted(len(plan.contrasts), "primary contrast")
        notices.append(
            f"Planned: {many} on {plan.plan.get('metric')}, registered"
            f" {plan.registered_utc[:16].replace('T', ' ')} UTC before the first call (hash {plan.hash[:12]}). They are"
            " corrected by themselves (registration.csv); every other comparison was not planned and explores."
        )
    for entry in plan.deviations:
        notices.append(
            f"Deviation from the plan after {entry['rows']:,} rows: {entry['from'][:12] or 'nothing'} became"
            f" {entry['to'][:12] or 'nothing'}. Reason given: {entry['reason']}"
        )
    if registered.last:
        stopped = sum(look.stopped for look in registered.last.values())
        notices.append(
            f"{len(registered.looks):,} looks were taken while the run went on, and {stopped} of"
            f" {len(registered.last)} arms were stopped by them. Their intervals and p-values are those of"
            f" {'planned looks' if any(look.planned for look in registered.looks) else 'confidence sequences'}, which"
            " hold at every look (looks.csv); levels of stopped arms rest on fewer items."
        )
    return notices
