"""The journal of a search, its winner, how much of the gain is luck, and the file it is frozen to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from pcsuite import __version__
from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import digest
from pcsuite.analysis.table import number
from pcsuite.errors import AnalysisError, LogError
from pcsuite.logging.segments import AppendFile, read_lines
from pcsuite.optimization.problem import CandidateScore, Problem
from pcsuite.prompts.compiled import CompiledPrompt, makeup_cues, operator_makeup
from pcsuite.stats.bootstrap import bootstrap_means, paired_bootstrap
from pcsuite.stats.estimate import Estimate

# The journal of a search: every candidate with its lineage and score, and every text that was asked for.
#
# It lies beside the log of the candidates' rows, one JSON object a line, append-only. The rows are what a score rests
# on; the journal says which candidate was made of which, how, and in what order.


class Journal:
    """The journal file of one task and model; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._answers: dict[str, str] = {}
        self._known: set[str] = set()
        self._file = AppendFile(path)
        for line in read_lines(path):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("kind") == "ask":
                self._answers[entry["key"]] = entry["text"]
            elif entry.get("kind") == "candidate":
                self._known.add(entry["key"])

    def close(self) -> None:
        """Bring it to the disk and close it."""
        self._file.sync()
        self._file.close()

    def answer(self, key: str) -> str | None:
        """The text that was given to a question before."""
        return self._answers.get(key)

    def add_answer(self, key: str, text: str, facts: dict[str, Any]) -> None:
        """Keep what a model answered."""
        with self._lock:
            self._answers[key] = text
            self._write({"kind": "ask", "key": key, **facts, "text": text})

    def add_score(self, score: CandidateScore, *, seed: int) -> None:
        """Keep a candidate's score; the same score of the same candidate is kept once."""
        candidate = score.candidate
        entry = {
            "id": candidate.id,
            "method": candidate.method,
            "seed": seed,
            "origin": candidate.origin,
            "parents": list(candidate.parents),
            "prompt": candidate.prompt.as_dict(),
            "J": score.value,
            "parts": score.parts._asdict(),
            "items": len(score.item_parts),
            "complete": score.complete,
            "replicates": score.replicates,
            "crashed": score.crashed,
            "errors": list(score.errors),
        }
        key = digest([entry, list(score.item_parts.items)])
        with self._lock:
            if key not in self._known:
                self._known.add(key)
                self._write({"kind": "candidate", "key": key, **entry})

    def _write(self, entry: dict[str, Any]) -> None:
        stamped = {**entry, "timestamp_utc": datetime.now(timezone.utc).isoformat(timespec="milliseconds")}
        line = json.dumps(stamped, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._file.write(line + b"\n")


# The winner of a search, and how much of its J is luck.


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
    """What having chosen the best adds to J, on average."""
    gain: Estimate
    """J minus the baseline's, paired over items (mean of the items' own J)."""

    @property
    def corrected(self) -> float:
        """J less the optimism."""
        return self.score.value - self.optimism


def best_score(scores: Iterable[CandidateScore]) -> CandidateScore:
    """The best of the completely measured candidates; of equals the cheaper, then the first."""
    complete = [score for score in scores if score.complete]
    if not complete:
        raise AnalysisError("no candidate was measured on every development item")
    return max(complete, key=lambda score: (*score.rank, -score.parts.token_cost))


def judge_winner(
    scores: Sequence[CandidateScore], baseline: CandidateScore, rng: np.random.Generator
) -> Winner:
    """The winner with its interval, its optimism and its gain over the baseline."""
    winner = best_score([*scores, baseline])
    gain = paired_bootstrap(winner.item_values, baseline.item_values, rng=rng)
    return Winner(
        winner,
        winner.item_parts.estimate(winner.objective, rng),
        selection_optimism([baseline, *scores], rng),
        gain,
    )


def selection_optimism(
    scores: Sequence[CandidateScore], rng: np.random.Generator, resamples: int = OPTIMISM_RESAMPLES
) -> float:
    """Mean over resamples of J(chosen; resample) − J(chosen; all items), over complete candidates."""
    rivals = {score.candidate.id: score for score in scores if score.complete and not score.crashed}
    if len(rivals) < 2:
        return 0.0
    listed = list(rivals.values())
    size = len(listed[0].item_parts)
    if size < 2:
        return 0.0
    weights = rng.multinomial(size, np.full(size, 1 / size), size=resamples)
    inside = np.stack([score.item_parts.resampled(score.objective, weights) for score in listed])
    chosen = inside.argmax(axis=0)
    whole = np.array([score.value for score in listed])
    return float((inside[chosen, np.arange(resamples)] - whole[chosen]).mean())


# Which operators earn their tokens: the effect of each on J, from all block candidates of a search together.


def operator_ledger(scores: Sequence[CandidateScore], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Effect of each operator on an item's J, on its task score and on its tokens, with the interval over items.

    Least squares of the items' J on which operators a candidate has (wordings, options and order averaged over), item
    by item with one design, then the mean over items with its bootstrap interval. ``earns_its_tokens`` is ``yes`` or
    ``no`` where the interval of the effect on J lies on one side of zero, and ``unclear`` elsewhere, also where the
    candidates cannot tell two operators apart.
    """
    usable = [s for s in scores if s.complete and not s.crashed and not s.candidate.prompt.is_text]
    names = list(dict.fromkeys(block.name for s in usable for block in s.candidate.prompt.blocks))
    if len(usable) < 2 or not names:
        return []
    has = [{block.name for block in s.candidate.prompt.blocks} for s in usable]
    design = np.array([[1.0, *(float(name in held) for name in names)] for held in has])
    solve = np.linalg.pinv(design)
    told_apart = np.abs(solve @ design - np.eye(design.shape[1])).max(axis=1) < 1e-8
    effects = {
        "J": solve @ np.stack([s.item_values for s in usable]),
        "task": solve @ np.stack([s.item_parts.task for s in usable]),
        "entropy": solve @ np.stack([s.item_parts.entropy for s in usable]),
        "token_cost": solve @ np.stack([s.item_parts.token_cost for s in usable]),
    }
    intervals = bootstrap_means(effects["J"].T, rng=rng)
    ledger = []
    for place, name in enumerate(names, start=1):
        estimate = intervals[place]
        verdict = "unclear"
        if told_apart[place]:
            verdict = "yes" if estimate.low > 0 else "no" if estimate.high < 0 else "unclear"
        ledger.append(
            {
                "operator": name,
                "candidates": sum(name in held for held in has),
                "effect_J": number(estimate.value),
                "effect_J_low": number(estimate.low),
                "effect_J_high": number(estimate.high),
                "effect_task": number(effects["task"][place].mean()),
                "effect_entropy": number(effects["entropy"][place].mean()),
                "effect_token_cost": number(effects["token_cost"][place].mean()),
                "earns_its_tokens": verdict,
            }
        )
    return sorted(ledger, key=lambda entry: -(entry["effect_J"] or 0.0))


# Freezing a winner: one file with the prompt, where it comes from, and what it came to on the development items.


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
        replace_atomically(path, content)
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
