"""Paraphrases that a model writes, where the profile names one; kept beside the log like attacked prompts.

A part that comes back without one of its labels, field names or formats keeps its own words: the perturbed prompt
must ask for the same thing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pcsuite.config.load import digest
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.response_cache import ResponseCache
from pcsuite.logging.row import PerturbationRef
from pcsuite.logging.writer import RunPaths
from pcsuite.perturbations import WORDING_VARIED
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.runners.attack_search import Report, single_client, target_of
from pcsuite.runners.attack_store import AttackRecord, AttackStore
from pcsuite.runners.attacked_text import attackable_parts, keeps_literals, protected_words
from pcsuite.runners.client import ModelClient
from pcsuite.runners.plan import Cell, Plan

DECODING = Decoding("paraphrase", 0.7, 0.95, 400)
_REQUEST = (
    "Reword the text between the lines of dashes. Keep its meaning, its line breaks, its bullet points, and every "
    "quoted or capitalised word exactly as written. Answer with the reworded text only.\n-----\n{text}\n-----"
)
_LONGER = 2.5
"""A rewording that is longer or shorter by this factor says something else."""


def find_paraphrases(plan: Plan, report: Report, *, use_cache: bool = True) -> list[AttackRecord]:
    """Paraphrases of every prompt of a plan by the profile's ``paraphrase_model``; none where it names none."""
    writer = plan.suite.profile.integrations.promptbench.paraphrase_model
    if writer is None:
        return []
    return asyncio.run(_write_all(plan, writer, report, use_cache=use_cache))


async def _write_all(plan: Plan, writer: str, report: Report, *, use_cache: bool) -> list[AttackRecord]:
    suite, run = plan.suite, plan.suite.profile.run
    store = AttackStore.of(RunPaths.of(run.output_dir, run.name))
    cache = ResponseCache(Path(run.cache_dir) / "responses.sqlite") if use_cache else None
    client = single_client(suite, writer, cache)
    found: list[AttackRecord] = []
    try:
        cells = {target_of(cell): cell for cell in reversed(plan.cells)}
        for _, cell in sorted(cells.items()):
            for number in range(1, suite.profile.integrations.promptbench.variants + 1):
                record = await _write(cell, number, client, store, report)
                found += [record] if record is not None else []
    finally:
        await client.adapter.aclose()
        if cache is not None:
            cache.close()
    return found


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
    written = await asyncio.gather(*(_reworded(part, number, client) for part in parts))
    kept = [new if _acceptable(old, new, protected) else old for old, new in zip(parts, written, strict=True)]
    changed = sum(new != old for old, new in zip(parts, kept, strict=True))
    where = f"{kind} {number} × {cell.condition.id} × {cell.task.id} × {cell.model_id}"
    if not changed:
        report(f"{where}: not applicable: no rewording kept every label and format")
        return None
    record = AttackRecord(
        attack=kind,
        task=cell.task.id,
        model=cell.model_id,
        condition=cell.condition.id,
        parts=kept,
        original=parts,
        original_score=None,
        attacked_score=None,
        queries=len(parts),
        budget=len(parts),
        seed=number,
        ranking="none",
        search_items=[],
        version=client.model_id,
        perturbation=PerturbationRef(kind, f"{kind}-{digest(kept)[:12]}"),
    )
    store.put(key, record)
    report(f"{where}: {changed} of {len(parts)} parts reworded")
    return record


async def _reworded(part: str, number: int, client: ModelClient) -> str:
    reply = await client.ask(_REQUEST.format(text=part), DECODING, number)
    return reply.text.strip().strip("-").strip() if reply.finish_reason == "stop" else part


def _acceptable(old: str, new: str, protected: Sequence[str]) -> bool:
    fits = len(old) / _LONGER <= len(new) <= len(old) * _LONGER
    return bool(new) and new != old and fits and keeps_literals(old, new, protected)
