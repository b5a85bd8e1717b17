"""Searching attacked prompts with PromptBench, on development items, against the model that is measured.

The search sees the development split only. Had it seen the scored items, the worst prompt it finds would look
worse than it is, because it was chosen for being bad on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from pcsuite._util.hashing import digest
from pcsuite._util.loops import gather_or_cancel, run_blocking
from pcsuite.config.load import Suite
from pcsuite.data.items import Item, sample_items, task_items
from pcsuite.engines.adapters.base import Request
from pcsuite.engines.session import ModelClient, open_models
from pcsuite.errors import DataError, EngineError, UnansweredError
from pcsuite.evaluation.base import Answer, score_answer
from pcsuite.integrations.environments import PROMPTBENCH, Report, environment_python
from pcsuite.integrations.promptbench.attacks import (
    PREFIX,
    SEPARATOR,
    AttackNotApplicableError,
    AttackRecord,
    AttackRequest,
    AttackStore,
    PromptBenchWorker,
    attackable_parts,
    protected_words,
    with_parts,
)
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import RunPaths
from pcsuite.logging.row import PerturbationRef
from pcsuite.programs import PROGRAMS
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.prompt import fit
from pcsuite.runners.edits import Edit, Perturber, registered_perturbation
from pcsuite.runners.plan import Cell, Plan, Unit, refuse_judges
from pcsuite.runners.progress import Progress


class Target(NamedTuple):
    """A prompt to attack: one condition of one task on one model (decoding regimes share it)."""

    task: str
    model: str
    condition: str


def find_attacks(
    plan: Plan, attacks: Sequence[str], report: Report, *, use_cache: bool = True, quiet: bool = True
) -> list[AttackRecord]:
    """An attacked prompt for each attack and prompt of a plan; those not stored yet are searched.

    ``report`` gets one line for each search and for each attack that does not apply; unless ``quiet`` the calls are
    shown as those of a run are. Raises :class:`~pcsuite.errors.IntegrationError` where PromptBench is not installed,
    and what ends a run: a used-up budget, too many errors, and :class:`~pcsuite.errors.UnansweredError` for a prompt
    that no item was answered under.
    """
    if not attacks:
        return []
    environment_python(PROMPTBENCH)  # raises for a missing install before anything else starts
    run = plan.suite.profile.run
    paths = RunPaths.of(run.output_dir, run.name)
    store, log = AttackStore.of(paths), paths.log
    cells = {target_of(cell): cell for cell in reversed(plan.cells)}

    refuse_judges(plan, "attacks that are searched for")

    async def search_all(progress: Progress) -> list[AttackRecord]:
        records: list[AttackRecord] = []
        worker = PromptBenchWorker()
        try:
            # One model after the other: a local one may need the whole machine.
            for model_id in plan.scope.models:
                model_cells = [cell for target, cell in sorted(cells.items()) if target.model == model_id]
                async with open_models(plan.suite, [model_id], use_cache=use_cache) as session:
                    session.watch = progress.count_call
                    search = ModelSearch(plan.suite, session.clients[model_id], store, worker)
                    with counting(log, session.budget, plan.suite.profile.limits):
                        for cell in model_cells:
                            for attack in attacks:
                                record = await search.find(cell, attack, report)
                                records += [record] if record is not None else []
        finally:
            await worker.aclose()
        return records

    with Progress(None, unit="calls", quiet=quiet) as progress:
        return run_blocking(search_all(progress))


def with_attacks(plan: Plan, records: Sequence[AttackRecord]) -> Plan:
    """The plan with each cell's attacked prompts among its perturbations.

    Run it with :func:`attacked_perturber` of the same records.
    """
    by_target: dict[Target, list[PerturbationRef]] = {}
    for one in records:
        by_target.setdefault(Target(one.task, one.model, one.condition), []).append(one.perturbation)

    def attacked(cell: Cell) -> Cell:
        refs = dict.fromkeys((*cell.perturbations, *by_target.get(target_of(cell), ())))
        return replace(cell, perturbations=tuple(refs))

    return replace(plan, cells=tuple(map(attacked, plan.cells)))


def attacked_perturber(records: Sequence[AttackRecord]) -> Perturber:
    """Edits of a unit's prompt: attacked parts put in where a record has them, else the registered kinds.

    Give it the records that :func:`with_attacks` put into the plan: a unit's attack is looked up by task, model,
    condition and perturbation.
    """
    by_ref = {(Target(one.task, one.model, one.condition), one.perturbation): one for one in records}

    def edit_of(unit: Unit) -> Edit | None:
        record = by_ref.get((target_of(unit.cell), unit.perturbation))
        if record is None:
            return registered_perturbation(unit)
        ctx = unit.cell.task.prompting.context(unit.item.input_text)
        return lambda tree: with_parts(tree, ctx, record.parts)

    return edit_of


def target_of(cell: Cell) -> Target:
    """What a cell's prompts belong to."""
    return Target(cell.task.id, cell.model_id, cell.condition.id)


def search_items(suite: Suite, cell: Cell) -> list[Item]:
    """The development items that attacks are tried on, ``search_items`` of the profile.

    Raises :class:`~pcsuite.errors.DataError` where the task has no development split.
    """
    spec, repro = cell.task.spec, suite.profile.repro
    if not spec.dev_split:
        raise DataError(f"task '{cell.task.id}' has no dev_split to search attacks on")
    loaded = task_items(spec, spec.dev_split, Path(suite.profile.run.cache_dir))
    limit = suite.profile.integrations.promptbench.search_items
    return sample_items(loaded.items, limit, repro.global_seed, cell.task.id, repro.deterministic_hash_seed)


class ModelSearch:
    """Searches attacked prompts against one model."""

    def __init__(
        self, suite: Suite, client: ModelClient, store: AttackStore, worker: PromptBenchWorker
    ) -> None:
        self._suite, self._client, self._store, self._worker = suite, client, store, worker

    async def find(self, cell: Cell, attack: str, report: Report) -> AttackRecord | None:
        """One attacked prompt of a cell, stored or searched; ``None`` where the attack does not apply.

        ``report`` gets the outcome in one line; a new record is added to the store.
        """
        where = f"{attack} × {cell.condition.id} × {cell.task.id} × {cell.model_id}"
        reason = await self._why_not(cell)
        if reason is not None:
            report(f"{where}: not applicable: {reason}")
            return None
        items = search_items(self._suite, cell)
        item_ids = [item.item_id for item in items]
        ctx = cell.task.prompting.context(items[0].input_text)
        tree = apply_condition(cell.condition, ctx).tree
        parts = attackable_parts(tree, ctx)
        request = AttackRequest(
            attack=attack,
            text=SEPARATOR.join(parts),
            protected=protected_words(tree, ctx),
            seed=self._suite.profile.repro.global_seed,
            budget=self._suite.profile.integrations.promptbench.query_budget,
            instruction=tree.instruction,
            dataset=cell.task.spec.dataset,
        )
        key = digest([asdict(request), dict(self._client.identity), cell.fingerprint, item_ids])
        if key in self._store.records:
            return self._store.records[key]

        async def score(text: str) -> float:
            """Mean score over the items that were answered."""
            split = text.split(SEPARATOR)
            # A text that lost a part would not be the same prompt: no gain for the attack.
            tried = split if len(split) == len(parts) else parts
            item_scores = await gather_or_cancel(
                self._item_score(cell, attack, tried, item) for item in items
            )
            scores = [score for score in item_scores if score is not None]
            if not scores:
                # A guess would be kept with the record, and the search not made again.
                raise UnansweredError(
                    f"{where}: none of {len(items)} development items was answered",
                    hint="finished searches are kept; the same command goes on",
                )
            return sum(scores) / len(scores)

        try:
            result = await self._worker.attack(request, score)
        except AttackNotApplicableError as why:
            report(f"{where}: not applicable: {why}")
            return None
        attacked, kind = str(result["attacked"]).split(SEPARATOR), f"{PREFIX}{attack}"
        record = AttackRecord(
            attack=attack,
            **target_of(cell)._asdict(),
            parts=attacked,
            original=parts,
            original_score=float(result["original_score"]),
            attacked_score=float(result["attacked_score"]),
            queries=int(result["queries"]),
            budget=request.budget,
            seed=request.seed,
            ranking=str(result["ranking"]),
            search_items=item_ids,
            version=PROMPTBENCH.version,
            perturbation=PerturbationRef(kind, f"{kind}-{digest(attacked)[:12]}"),
        )
        self._store.put(key, record)
        gain = f"{record.original_score:.2f} → {record.attacked_score:.2f}"
        report(f"{where}: {gain} on {len(items)} development items, {record.queries} queries")
        return record

    async def _why_not(self, cell: Cell) -> str | None:
        """Why a cell's prompts cannot be attacked, or ``None``."""
        if cell.program is not PROGRAMS.get("single"):
            return "a search asks once a prompt, and the condition runs a loop"
        constraint = cell.constraint
        return None if constraint is None else await self._client.why_unenforced(constraint)

    async def _item_score(self, cell: Cell, attack: str, parts: Sequence[str], item: Item) -> float | None:
        ctx = cell.task.prompting.context(item.input_text)
        condition = apply_condition(cell.condition, ctx, perturb=lambda tree: with_parts(tree, ctx, parts))
        control = self._suite.profile.length_control
        text = fit(condition.tree, cell.task.band, control, self._client.adapter.count_tokens).text
        context = cell.context(item, f"{PREFIX}{attack}")
        request = Request(text, cell.decoding, cell.seeds[0], cell.constraint, context)
        try:
            reply = await self._client.ask_counted(request)
        except EngineError:  # the others have a mean; the error rate says when there are too few of them
            return None
        evaluation = score_answer(cell.task.evaluator, item, Answer(reply["text"], reply["finish_reason"]))
        return float(evaluation.metrics["task_score"] or 0.0)
