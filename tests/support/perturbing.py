"""Every unit of every bundled task, condition and variant, for tests of perturbations."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pcsuite.config.load import Suite, load_suite
from pcsuite.perturbations import PERTURBATIONS
from pcsuite.programs import PROGRAMS
from pcsuite.prompts.conditions.conditions import PromptCondition, apply_condition
from pcsuite.runners.edits import perturbation_refs, registered_perturbation
from pcsuite.runners.plan import Plan, Scope, Unit, build_plan
from support.profiles import write_profile

CONDITIONS = ("C0", "C1", "C2", "C3", "C4", "C5", "C6", *(("C7",) if "react" in PROGRAMS else ()))


def suite_of_everything(folder: Path) -> Suite:
    """A profile that selects every bundled task and condition but the compiled one."""
    retrieval = {"retrieval": {"enabled_for_tasks": ["fever_json"]}}
    bundled = load_suite("quickstart")
    path = write_profile(
        folder,
        tasks=tuple(bundled.tasks),
        conditions=CONDITIONS,
        regimes=("D0",),
        integrations=retrieval,
    )
    return load_suite(path)


def plan_of_everything(folder: Path, kinds: Sequence[str] | None = None, items: int = 2) -> Plan:
    """A plan over all of it."""
    suite = suite_of_everything(folder)
    chosen = suite.profile.selection
    scope = Scope(chosen.tasks, chosen.models, chosen.conditions, chosen.decoding_regimes, items)
    return build_plan(suite, perturbation_refs(kinds if kinds is not None else list(PERTURBATIONS)), scope)


def conditions_of(plan: Plan) -> Iterator[tuple[Unit, PromptCondition, PromptCondition]]:
    """Each perturbed unit with its clean and its perturbed condition."""
    for unit in plan.units("sim"):
        edit = registered_perturbation(unit)
        if edit is None:
            continue
        ctx = unit.cell.task.prompting.context(unit.item.input_text)
        clean = apply_condition(unit.cell.condition, ctx)
        yield unit, clean, apply_condition(unit.cell.condition, ctx, perturb=edit)


def fingerprint(plan: Plan) -> str:
    """One hash over every perturbed prompt, in order."""
    total = hashlib.sha256()
    for unit, _, perturbed in conditions_of(plan):
        total.update(f"{unit.run_id}\0{perturbed.prompt}\0".encode())
    return total.hexdigest()
