"""The perturbation block of a profile: paraphrases and attacks found, planned and run into the log.

Where the profile names a ``paraphrase_model``, it rewords every prompt. A part that comes back without one of its
labels, field names or formats keeps its own words, because the perturbed prompt must ask for the same thing.
Paraphrases are kept beside the log like attacked prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pcsuite._util.hashing import digest
from pcsuite._util.loops import gather_or_cancel, run_blocking
from pcsuite.config.load import Suite
from pcsuite.config.spellings import regime_id
from pcsuite.engines.adapters.base import Decoding, Generation, Request
from pcsuite.engines.session import ModelClient, open_models
from pcsuite.errors import ConfigError, EngineError, UnansweredError, did_you_mean
from pcsuite.integrations.environments import Report
from pcsuite.integrations.promptbench.attacks import (
    ATTACKS,
    PREFIX,
    AttackRecord,
    AttackStore,
    attackable_parts,
    keeps_literals,
    protected_words,
)
from pcsuite.integrations.promptbench.search import (
    attacked_perturber,
    find_attacks,
    target_of,
    with_attacks,
)
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import RunPaths
from pcsuite.logging.row import PerturbationRef
from pcsuite.perturbations import PERTURBATIONS, WORDING_VARIED
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.runners.edits import perturbation_refs
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.plan import Cell, Plan, Scope, build_plan
from pcsuite.runners.progress import Progress
from pcsuite.runners.run_suite import LOCAL, RunSummary, run_plan

BLOCK = "promptbench"
USUAL_CONDITIONS = ("C2", "C3", "C4", "C6")
"""Conditions to attack where the profile names none, as far as they are selected."""
DECODING = Decoding("paraphrase", 0.7, 0.95, 400)
_REQUEST = (
    "Reword the text between the lines of dashes. Keep its meaning, its line breaks, its bullet points, and every "
    "quoted or capitalised word exactly as written. Answer with the reworded text only.\n-----\n{text}\n-----"
)
_LONGER = 2.5
"""A rewording that is longer or shorter by this factor says something else."""


def run_promptbench(
    suite: Suite,
    *,
    regimes: Sequence[str] = (),
    report: Report,
    quiet: bool,
    use_cache: bool,
    executor: ExecutorChoice = LOCAL,
) -> RunSummary:
    """Run the block into the profile's log, or go on with it; clean rows that the log has already are not repeated.

    Searches for attacks and paraphrases are made in this process; ``executor`` runs the grid they add to.
    """
    plan, attacks = plan_promptbench(suite, regimes)
    for name in suite.profile.integrations.promptbench.tasks or ():
        if name not in suite.profile.selection.tasks:
            report(f"{name}: named in integrations.{BLOCK}.tasks, but not selected: left out")
    records = find_attacks(plan, attacks, report, use_cache=use_cache, quiet=quiet)
    records += find_paraphrases(plan, report, use_cache=use_cache, quiet=quiet)
    plan, perturber = with_attacks(plan, records), attacked_perturber(records)
    return run_plan(plan, quiet=quiet, use_cache=use_cache, perturber=perturber, executor=executor)


def plan_promptbench(suite: Suite, regimes: Sequence[str] = ()) -> tuple[Plan, list[str]]:
    """The block's plan with its own kinds of perturbation, and the attacks of PromptBench it asks for.

    Without ``regimes`` the greedy ones of the selection are planned, which tell a perturbation from chance, and all
    where none is greedy. Raises :class:`~pcsuite.errors.ConfigError` for a name that is not defined.
    """
    settings, selection = suite.profile.integrations.promptbench, suite.profile.selection
    conditions = attacked_conditions(suite)
    regimes = [regime_id(name) for name in regimes]
    writer = settings.paraphrase_model
    kinds = [*PERTURBATIONS, *(f"{PREFIX}{attack}" for attack in ATTACKS)]
    for key, names, choices, what in (
        ("attack_types", settings.attack_types, kinds, "kind of perturbation"),
        ("tasks", settings.tasks or (), suite.tasks, "task"),
        ("conditions_subset", [name.partition(":")[0] for name in conditions], suite.conditions, "condition"),
        ("--regimes", regimes, suite.regimes, "regime"),
        ("paraphrase_model", [writer] if writer else [], suite.models, "model"),
    ):
        unknown = next((name for name in names if name not in choices), None)
        if unknown is not None:
            raise _problem(suite, key, f"unknown {what} '{unknown}' ({did_you_mean(unknown, choices)})")
    tasks = tuple(name for name in settings.tasks or selection.tasks if name in selection.tasks)
    if not tasks:
        named = f"none of {', '.join(settings.tasks or ())} is selected"
        raise _problem(suite, "tasks", f"{named} (selection.tasks: {', '.join(selection.tasks)})")
    registered = [name for name in settings.attack_types if not name.startswith(PREFIX)]
    attacks = [name.removeprefix(PREFIX) for name in settings.attack_types if name.startswith(PREFIX)]
    # Sampling adds chance of its own to what a perturbation does.
    greedy = tuple(name for name in selection.decoding_regimes if suite.regimes[name].greedy)
    chosen = tuple(regimes) or greedy or selection.decoding_regimes
    scope = Scope(tasks, selection.models, conditions, chosen, settings.max_items, BLOCK)
    plan = build_plan(suite, perturbation_refs(registered, settings.variants), scope)
    used = {name: task for name, task in plan.tasks.items() if any(cell.task is task for cell in plan.cells)}
    return replace(plan, tasks=used), attacks


def attacked_conditions(suite: Suite) -> tuple[str, ...]:
    """Conditions that the block attacks: those it names, else the usual ones that are selected, else all selected.

    The usual ones are :data:`USUAL_CONDITIONS`.
    """
    selected = suite.profile.selection.conditions
    usual = tuple(name for name in USUAL_CONDITIONS if name in selected)
    return suite.profile.integrations.promptbench.conditions_subset or usual or selected


def attacked_parts(suite: Suite, *, only_selected: bool) -> tuple[list[str], list[str]]:
    """Tasks and conditions of the block that a run of the suite has rows of; either may be empty.

    A condition that the block names and the profile does not select is attacked all the same, unless the run was
    narrowed to some conditions (``only_selected``).
    """
    selection = suite.profile.selection
    tasks = suite.profile.integrations.promptbench.tasks or selection.tasks
    conditions = attacked_conditions(suite)
    return (
        [name for name in tasks if name in selection.tasks],
        [name for name in conditions if not only_selected or name in selection.conditions],
    )


def _problem(suite: Suite, key: str, message: str) -> ConfigError:
    """The error for a key of the profile's block, or for a flag."""
    if key.startswith("--"):
        return ConfigError(f"{key}: {message}")
    return ConfigError(suite.sources["profile"].problem(["integrations", BLOCK, key], message))


def find_paraphrases(
    plan: Plan, report: Report, *, use_cache: bool = True, quiet: bool = True
) -> list[AttackRecord]:
    """Paraphrases of every prompt of a plan by the profile's ``paraphrase_model``; none where it names none.

    ``variants`` of each are asked for, and taken from the run's ``.attacks.json`` where they were written before.
    Raises :class:`~pcsuite.errors.UnansweredError` where calls failed, after all were tried.
    """
    writer = plan.suite.profile.integrations.promptbench.paraphrase_model
    if writer is None:
        return []
    suite, run = plan.suite, plan.suite.profile.run
    paths = RunPaths.of(run.output_dir, run.name)
    store = AttackStore.of(paths)
    cells = {target_of(cell): cell for cell in reversed(plan.cells)}

    async def write_all(progress: Progress) -> list[AttackRecord]:
        records: list[AttackRecord] = []
        unwritten: list[EngineError] = []
        async with open_models(suite, [writer], use_cache=use_cache) as session:
            session.watch = progress.count_call
            with counting(paths.log, session.budget, suite.profile.limits):
                for _, cell in sorted(cells.items()):
                    for number in range(1, suite.profile.integrations.promptbench.variants + 1):
                        try:
                            record = await _write(cell, number, session.clients[writer], store, report)
                        except EngineError as error:
                            unwritten.append(error)
                        else:
                            records += [record] if record is not None else []
        if unwritten:
            raise UnansweredError(
                f"{len(unwritten)} paraphrases were not written, the last one because: {unwritten[-1].message}",
                hint="the others are kept; the same command asks for these again",
            )
        return records

    with Progress(None, unit="calls", quiet=quiet) as progress:
        return run_blocking(write_all(progress))


async def _write(
    cell: Cell, number: int, client: ModelClient, store: AttackStore, report: Report
) -> AttackRecord | None:
    ctx = cell.task.prompting.context("")
    tree = apply_condition(cell.condition, ctx).tree
    parts, protected = attackable_parts(tree, ctx), protected_words(tree, ctx)
    kind = f"{WORDING_VARIED}:{client.model_id}"
    key = digest([kind, number, parts, protected, dict(client.identity), list(target_of(cell))])
    if key in store.records:
        return store.records[key]

    async def reworded(part: str) -> Generation | EngineError:
        try:
            return await client.ask_counted(Request(_REQUEST.format(text=part), DECODING, number))
        except EngineError as error:  # the other parts are asked to their end: their answers are paid for
            return error

    replies = await gather_or_cancel(map(reworded, parts))
    reworded_parts = []
    for old, reply in zip(parts, replies, strict=True):
        if isinstance(reply, EngineError):
            raise reply
        is_complete = reply["finish_reason"] == "stop"
        new = reply["text"].strip().strip("-").strip() if is_complete else old
        fits = len(old) / _LONGER <= len(new) <= len(old) * _LONGER
        reworded_parts.append(new if new and fits and keeps_literals(old, new, protected) else old)
    changed = sum(new != old for old, new in zip(parts, reworded_parts, strict=True))
    where = f"{kind} {number} × {cell.condition.id} × {cell.task.id} × {cell.model_id}"
    if not changed:
        report(f"{where}: not applicable: no rewording kept every label and format")
        return None
    record = AttackRecord(
        attack=kind,
        **target_of(cell)._asdict(),
        parts=reworded_parts,
        original=parts,
        queries=len(parts),
        budget=len(parts),
        seed=number,
        version=client.model_id,
        perturbation=PerturbationRef(kind, f"{kind}-{digest(reworded_parts)[:12]}"),
    )
    store.put(key, record)
    report(f"{where}: {changed} of {len(parts)} parts reworded")
    return record
