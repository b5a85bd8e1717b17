"""The winner of a search: which candidate it is, how much of its gain is luck, what operators are worth, its file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite import __version__
from pcsuite._util.changes import changing_files, settle_changes
from pcsuite._util.files import next_free, write_errors
from pcsuite._util.hashing import digest
from pcsuite.analysis.table import number
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.contrasts import verdict_of_limits
from pcsuite.errors import AnalysisError, LogError
from pcsuite.optimization.problem import CandidateScore, Problem
from pcsuite.prompts.compiled import CompiledPrompt, makeup_cues
from pcsuite.stats.attribution import solved_design
from pcsuite.stats.bootstrap import bootstrap_means, bounds_of_differences, paired_bootstrap
from pcsuite.stats.estimate import Estimate

FORMAT = 1
OPTIMISM_RESAMPLES = 1_000
OPTIMISM_METHOD = (
    "bootstrap of the selection: items are resampled, the best of the fully measured candidates is chosen anew, and"
    " its J on the resample is compared with its J on all items (Efron & Gong 1983; Harrell 2015). It covers the"
    " choice among these candidates, not that later candidates were made from earlier ones' scores on the same items."
)


@dataclass(frozen=True, slots=True)
class Winner:
    """The best candidate with what is known of it."""

    score: CandidateScore
    value: Estimate
    """J with its interval over items."""
    optimism: float
    """Selection bias: how much choosing the best adds to J, on average."""
    gain: Estimate
    """J minus the baseline's, paired over items (mean of the items' own J)."""


def best_score(scores: Iterable[CandidateScore]) -> CandidateScore:
    """The best of the completely measured candidates; of equals the cheaper, then the first.

    Raises :class:`~pcsuite.errors.AnalysisError` where none was measured on every development item.
    """
    complete = [score for score in scores if score.complete]
    if not complete:
        raise AnalysisError("no candidate was measured on every development item")
    return max(complete, key=lambda score: (*score.rank, -score.parts.token_cost))


def judge_winner(
    scores: Sequence[CandidateScore], baseline: CandidateScore, rng: np.random.Generator
) -> Winner:
    """The winner among candidates and baseline, with its interval, its optimism and its gain over the baseline.

    The gain is paired over the baseline's items, so all complete scores must be of the same items.
    """
    winner = best_score([*scores, baseline])
    gain = paired_bootstrap(winner.item_values, baseline.item_values, rng=rng)
    value = winner.item_parts.estimate(winner.objective, rng)
    return Winner(winner, value, selection_optimism([baseline, *scores], rng), gain)


def selection_optimism(
    scores: Sequence[CandidateScore], rng: np.random.Generator, resamples: int = OPTIMISM_RESAMPLES
) -> float:
    """Mean over resamples of J(chosen; resample) − J(chosen; all items), over complete candidates.

    0 where there are fewer than two candidates to choose from, or fewer than two items.
    """
    # Candidates measured on fewer items were never in the choice.
    rivals = {score.candidate.id: score for score in scores if score.complete and not score.crashed}
    listed = list(rivals.values())
    if len(listed) < 2 or (size := len(listed[0].item_parts)) < 2:
        return 0.0
    weights = rng.multinomial(size, np.full(size, 1 / size), size=resamples)
    inside = np.stack([score.item_parts.resampled(score.objective, weights) for score in listed])
    chosen = inside.argmax(axis=0)
    overall = np.array([score.value for score in listed])
    return float((inside[chosen, np.arange(resamples)] - overall[chosen]).mean())


def operator_effects(scores: Sequence[CandidateScore], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Effect of each operator on an item's J, on its task score and on its tokens, with the interval over items.

    Least squares of the items' J on which operators a candidate has (wordings, options and order averaged over), item
    by item with one design, then the mean over items with its bootstrap interval. ``earns_its_tokens`` is ``yes`` or
    ``no`` where the interval of the effect on J lies on one side of zero, and ``unclear`` elsewhere, also where the
    candidates cannot tell two operators apart. Empty where fewer than two candidates are made of operators.
    """
    usable = [s for s in scores if s.complete and not s.crashed and not s.candidate.prompt.is_text]
    names = list(dict.fromkeys(block.name for s in usable for block in s.candidate.prompt.blocks))
    if len(usable) < 2 or not names:
        return []
    has = [{block.name for block in s.candidate.prompt.blocks} for s in usable]
    solve, separable = solved_design(has, names)
    on_task, on_entropy, on_cost = (
        (solve @ np.stack([getattr(s.item_parts, part) for s in usable])).mean(axis=1)
        for part in ("task", "entropy", "token_cost")
    )
    on_objective = (solve @ np.stack([s.item_values for s in usable])).T
    bounds = [bounds_of_differences(column) for column in on_objective.T]
    intervals = bootstrap_means(on_objective, rng=rng, bounds=bounds)
    effects = []
    for index, name in enumerate(names, start=1):  # column 0 of the design is the intercept
        estimate = intervals[index]
        earns = {"better": "yes", "worse": "no"}.get(
            verdict_of_limits(estimate.low, estimate.high) if separable[index] else "not tested", "unclear"
        )
        effects.append(
            {
                "operator": name,
                "candidates": sum(name in held for held in has),
                "effect_J": number(estimate.value),
                "effect_J_low": number(estimate.low),
                "effect_J_high": number(estimate.high),
                "effect_task": number(on_task[index]),
                "effect_entropy": number(on_entropy[index]),
                "effect_token_cost": number(on_cost[index]),
                "earns_its_tokens": earns,
            }
        )
    return sorted(effects, key=lambda entry: -(entry["effect_J"] or 0.0))


def makeup_of(
    prompt: CompiledPrompt, operators: Mapping[str, OperatorSpec] | None = None
) -> tuple[list[str], str]:
    """Operators of a compiled prompt, and how they are known.

    ``operators`` where it is made of them, ``cues`` where the words of a free text show their work: cues of the suite's
    ``operators``, and of the bundled ones.
    """
    if not prompt.is_text:
        return [block.name for block in prompt.blocks], "operators"
    return list(makeup_cues(prompt.template, operators)), "cues"


def lineage_of(winner: CandidateScore, scores: Mapping[str, CandidateScore]) -> list[dict[str, Any]]:
    """The winner and all it descends from, ancestors first.

    ``scores`` has the measured candidates by id; parents that were never measured are left out.
    """
    order: dict[str, CandidateScore] = {}

    def visit(score: CandidateScore) -> None:
        if score.candidate.id not in order:
            order[score.candidate.id] = score
            for parent in score.candidate.parents:
                if parent in scores:
                    visit(scores[parent])

    visit(winner)
    return [score.facts() for score in reversed(order.values())]


def frozen_document(
    problem: Problem,
    winner: Winner,
    scores: Mapping[str, CandidateScore],
    *,
    operators: Mapping[str, OperatorSpec],
    seed: int,
    split: str,
    method: str,
    **more: Any,
) -> dict[str, Any]:
    """Content of the frozen file: the prompt, its origin, and its scores on the development items.

    ``scores`` has every measured candidate by id, the baseline included; ``operators`` are all of the suite's, by whose
    cues a free text is judged; ``split`` names the development split; ``more`` are further keys, as they are.
    """
    best, baseline = winner.score, problem.baseline
    prompt, items = best.candidate.prompt, best.item_parts.items
    makeup, judged_by = makeup_of(prompt, operators)
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
        "makeup_cues": makeup_cues(prompt.template, operators) if prompt.is_text else {},
        "candidates": len(scores) - 1,
        "dev": {
            "split": split,
            "items": len(items),
            "items_sha256": digest(sorted(items)),
            "replicates": best.replicates,
            "J": best.value,
            "J_low": number(winner.value.low),
            "J_high": number(winner.value.high),
            "level": winner.value.level,
            "interval": winner.value.method,
            "parts": best.parts._asdict(),
            "optimism": winner.optimism,
            "J_corrected": best.value - winner.optimism,
            "optimism_method": OPTIMISM_METHOD,
            "baseline": {"condition": "C0", "J": baseline.value, "parts": baseline.parts._asdict()},
            "gain": winner.gain.value,
            "gain_low": number(winner.gain.low),
            "gain_high": number(winner.gain.high),
        },
        "weights": asdict(problem.objective),
        "lineage": lineage_of(best, scores),
        **more,
        "pcsuite_version": __version__,
        "created_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def freeze(path: Path, document: Mapping[str, Any]) -> Path | None:
    """Write the file whole; an earlier one with another prompt is set aside, and its path returned.

    Raises :class:`~pcsuite.errors.LogError` where the folder cannot be written to.
    """
    content = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    aside: Path | None = None
    with write_errors(LogError, path):
        journal = path.with_name(f".{path.name}.changes")
        settle_changes(journal)
        if path.exists():
            try:
                stored = str(json.loads(path.read_text(encoding="utf-8"))["hash"])
            except (ValueError, KeyError, TypeError):
                stored = None
            if stored != document["hash"]:
                aside = next_free(lambda number: path.with_suffix(f".old-{number}.json"))
        with changing_files(journal) as changes:
            if aside is not None:
                changes.move(path, aside)
            changes.write(path, content)
    return aside
