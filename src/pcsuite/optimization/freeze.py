"""Freezing a winner: one file with the prompt, where it comes from, and what it came to on the development items."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pcsuite import __version__
from pcsuite.config.load import digest
from pcsuite.errors import LogError
from pcsuite.optimization.problem import CandidateScore, Problem
from pcsuite.optimization.selection import OPTIMISM_METHOD, Winner
from pcsuite.prompts.compiled import CompiledPrompt
from pcsuite.prompts.makeup import makeup_cues, operator_makeup

FORMAT = 1


def makeup_of(prompt: CompiledPrompt) -> tuple[list[str], str]:
    """Operators of a compiled prompt, and how they are known: it is made of them, or its words show their cues."""
    if not prompt.is_text:
        return [block.name for block in prompt.blocks], "operators"
    return list(operator_makeup(prompt.template)), "cues"


def lineage_of(winner: CandidateScore, scores: Mapping[str, CandidateScore]) -> list[dict[str, Any]]:
    """The winner and all it descends from, ancestors first."""
    order: dict[str, CandidateScore] = {}

    def visit(score: CandidateScore) -> None:
        if score.candidate.id in order:
            return
        order[score.candidate.id] = score
        for parent in score.candidate.parents:
            if parent in scores:
                visit(scores[parent])

    visit(winner)
    return [
        {
            "id": score.candidate.id,
            "method": score.candidate.method,
            "origin": score.candidate.origin,
            "parents": list(score.candidate.parents),
            "J": score.value,
            "items": len(score.item_parts),
        }
        for score in reversed(order.values())
    ]


def frozen_document(
    problem: Problem,
    winner: Winner,
    scores: Mapping[str, CandidateScore],
    *,
    seed: int,
    split: str,
    method: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """What the file holds."""
    prompt = winner.score.candidate.prompt
    makeup, judged_by = makeup_of(prompt)
    baseline = problem.baseline
    items = winner.score.item_parts.items
    return {
        "format": FORMAT,
        "task": problem.task_id,
        "model": problem.model_id,
        "method": method,
        "seed": seed,
        "hash": prompt.hash,
        "prompt": prompt.as_dict(),
        "makeup": makeup,
        "makeup_by": judged_by,
        "makeup_cues": makeup_cues(prompt.template) if prompt.is_text else {},
        "candidates": len(scores) - 1,
        "dev": {
            "split": split,
            "items": len(items),
            "items_sha256": digest(sorted(items)),
            "replicates": winner.score.replicates,
            "J": winner.score.value,
            "J_low": winner.value.low,
            "J_high": winner.value.high,
            "level": winner.value.level,
            "interval": winner.value.method,
            "parts": winner.score.parts._asdict(),
            "optimism": winner.optimism,
            "J_corrected": winner.corrected,
            "optimism_method": OPTIMISM_METHOD,
            "baseline": {"condition": "C0", "J": baseline.value, "parts": baseline.parts._asdict()},
            "gain": winner.gain.value,
            "gain_low": winner.gain.low,
            "gain_high": winner.gain.high,
        },
        "weights": {
            "task": problem.objective.task,
            "unsupported": problem.objective.unsupported,
            "entropy": problem.objective.entropy,
            "token_cost": problem.objective.token_cost,
        },
        "lineage": lineage_of(winner.score, scores),
        **more,
        "pcsuite_version": __version__,
        "created_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def freeze(path: Path, document: Mapping[str, Any]) -> Path | None:
    """Write the file whole; an earlier one with another prompt is set aside, and its path returned."""
    content = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    aside: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and _stored_hash(path) != document["hash"]:
            aside = _free_name(path)
            path.rename(aside)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(content, encoding="utf-8", errors="backslashreplace")
        temporary.replace(path)
    except OSError as error:
        raise LogError(f"{path}: cannot be written ({error.strerror})") from error
    return aside


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_suffix(f".old-{number}.json")).exists():
        number += 1
    return aside


def _stored_hash(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["hash"])
    except (ValueError, KeyError, TypeError):
        return None
