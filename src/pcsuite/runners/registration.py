"""What a study is about, spelled out and hashed into the manifest before the first call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import msgspec

from pcsuite._util.hashing import digest
from pcsuite.analysis.load.item_scores import control_among
from pcsuite.config.load import Suite
from pcsuite.config.profile import PreregistrationSection, PrimaryContrast
from pcsuite.errors import ConfigError, LogError, did_you_mean
from pcsuite.logging.log import RunLog
from pcsuite.logging.looks import ArmKey
from pcsuite.logging.manifest import RegisteredPlan, read_manifest
from pcsuite.runners.plan import Cell, Plan

GroupKey = tuple[str, str, str]
"""Task, model and decoding regime."""


def cells_by_group(plan: Plan) -> dict[GroupKey, dict[str, Cell]]:
    """The cells of a plan by task, model and regime, and within those by condition.

    Conditions that are not applicable to a group are not in it.
    """
    groups: dict[GroupKey, dict[str, Cell]] = defaultdict(dict)
    for cell in plan.cells:
        groups[cell.task.id, cell.model_id, cell.decoding.id][cell.condition.id] = cell
    return groups


def check_contrast_names(suite: Suite, members: Iterable[str]) -> None:
    """Refuse a registered contrast of a condition that nothing defines; a design is named by its ``members``.

    One that is left out of this part of the study is known, and has no contrast in it. Raises :class:`ConfigError`.
    """
    section = suite.profile.preregistration
    known = dict.fromkeys([*members, *(name for name, spec in suite.conditions.items() if not spec.design)])
    for contrast in section.primary if section is not None else ():
        for name in filter(None, (contrast.condition, contrast.baseline)):
            if name not in known:
                problem = f"unknown selected condition '{name}' ({did_you_mean(name, known)})"
                raise ConfigError(suite.sources["profile"].problem(["preregistration", "primary"], problem))


def planned_contrasts(plan: Plan, section: PreregistrationSection) -> list[ArmKey]:
    """Every primary contrast of a plan, one for each task, model and regime that it is about and applies to.

    Raises :class:`ConfigError` for a condition that the plan has nowhere.
    """
    groups = cells_by_group(plan)
    names = [name for cells in groups.values() for name in cells]
    check_contrast_names(plan.suite, [*names, *(entry.condition_id for entry in plan.not_applicable)])
    arms: dict[ArmKey, None] = {}
    for (task, model, decoding), cells in groups.items():
        control = control_among({name: cell.operators for name, cell in cells.items()})
        against_control = [PrimaryContrast(condition=name) for name in cells if name != control]
        for contrast in section.primary or against_control:
            baseline = contrast.baseline or control
            about = (
                (contrast.tasks, task), (contrast.models, model), (contrast.regimes, decoding)
            )  # fmt: skip
            if not all(not names or name in names for names, name in about):
                continue
            if contrast.condition in cells and baseline in cells and contrast.condition != baseline:
                arms[ArmKey(task, model, decoding, contrast.condition, str(baseline))] = None
    return list(arms)


def section_content(section: PreregistrationSection) -> dict[str, Any]:
    """A profile's section as it is hashed: without keys that came later and that it does not use."""
    content = section.model_dump(mode="json")
    if section.stopping.looks is None:
        for name in ("looks", "spending"):
            del content["stopping"][name]
    return content


def registered_plan(plan: Plan) -> RegisteredPlan | None:
    """What a plan's profile registers, hashed; ``None`` where it registers nothing.

    The hash covers the section, the conditions it stands for where it names no contrast, and under a stopping rule
    every contrast, since those share the error that the rule allows, and the columns that cluster the items.
    """
    section = plan.suite.profile.preregistration
    if section is None:
        return None
    contrasts = [list(arm) for arm in planned_contrasts(plan, section)]
    content = section_content(section)
    if not section.primary:
        content["conditions"] = list(plan.scope.conditions)
    if section.stops_early:
        content["contrasts"] = contrasts
        # Looks are taken where clusters end: clustered otherwise, the items come in another order.
        clusters = {task: list(columns) for task in plan.tasks if (columns := plan.suite.clusters_of(task))}
        content |= {"clusters": clusters} if clusters else {}
    return RegisteredPlan(
        digest(content), content, contrasts, datetime.now(timezone.utc).isoformat(timespec="seconds")
    )


def register(plan: Plan, log: RunLog, deviation: str | None = None) -> RegisteredPlan | None:
    """What the manifest of a run is to say of its plan: registered before the first row, or as it was then.

    A plan that changed after rows were logged is refused (:class:`ConfigError`, with both hashes) unless ``deviation``
    gives a reason, which is kept with it.
    """
    new = registered_plan(plan)
    try:
        manifest = read_manifest(log.paths.log)
    except LogError:
        manifest = None
    old = manifest.preregistration if manifest is not None else None
    rows = log.index.rows
    # Nothing was seen yet, so any plan may still be registered.
    if not rows:
        return new
    before, after = (entry.hash if entry is not None else "" for entry in (old, new))
    if before == after:
        if old is None or new is None:
            return None
        more = [contrast for contrast in new.contrasts if contrast not in old.contrasts]
        return msgspec.structs.replace(old, contrasts=old.contrasts + more)
    if deviation is None:
        raise ConfigError(
            f"the plan changed after {rows:,} rows: registered was {before[:12] or 'nothing'}, now it is"
            f" {after[:12] or 'nothing'} (preregistration, --until, --margin and, with --until, --cluster make it up)",
            hint="restore it, give this run another name with --name, or keep both with --deviation 'the reason'",
        )
    kept = new or old
    assert kept is not None, "plans that differ are not both missing"
    entry = {
        "from": before,
        "to": after,
        "reason": deviation,
        "rows": rows,
        "at_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    earlier = old.deviations if old is not None else []
    return msgspec.structs.replace(kept, deviations=[*earlier, entry])
