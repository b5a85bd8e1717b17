"""Deterministic synthetic logs, written through the row the suite itself writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pcsuite.evaluation.base import Parsed
from pcsuite.logging.log import PromptStore
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    PerturbationRef,
    PromptRecord,
    RunRow,
    TaskRef,
    UsageRecord,
    encode_row,
    outcome_of,
)

OPERATORS = {
    "C0": (),
    "C1": ("ROLE", "GOAL"),
    "C2": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN"),
    "C3": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA"),
    "C4": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER"),
    "C5": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER", "EXEMPLARS"),
    "C6": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "VERIFIER", "TYPE_CONSTRAIN"),
    "C7": ("ROLE", "GOAL", "CONSTRAINTS", "ABSTAIN", "SCHEMA", "REACT_LOOP"),
}
REGIMES = {"D0": (0.0, 1.0), "D1": (0.7, 0.95)}
LABELS = ("World", "Sports", "Business", "Sci/Tech")


def sha(*parts: object) -> str:
    """Hex digest of some values."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def make_row(**given: Any) -> RunRow:
    """One row; every argument has a harmless default.

    Arguments: task, item, model, family, size, provider, condition, operators, decoding, seed, text, score,
    metrics, answer, json_valid, schema_valid, finish_reason, prompt_tokens, completion_tokens, errors, kind,
    perturbation (type) and perturbation_id, timestamp, profile, constraint_backend, attempts, tool_calls.
    """
    get = given.get
    task, item, model = get("task", "agnews_json"), get("item", "i1"), get("model", "m1")
    condition, decoding, seed = get("condition", "C0"), get("decoding", "D0"), get("seed", 0)
    attack = get("perturbation", "none")
    perturbation = (
        PerturbationRef() if attack == "none" else PerturbationRef(attack, get("perturbation_id", attack))
    )
    kind, errors = get("kind", "main"), list(get("errors", ()))
    temperature, top_p = REGIMES.get(decoding, (0.7, 0.95))
    prompt_tokens, completion = get("prompt_tokens", 100), get("completion_tokens", 20)
    text = get("text", "{}")
    generation = GenerationRecord(
        text,
        get("finish_reason", "stop"),
        get("latency_ms", 12.5),
        UsageRecord(prompt_tokens, completion, prompt_tokens + completion),
        constraint_backend=get("constraint_backend"),
        attempts=get("attempts", 1),
        tool_calls=get("tool_calls", 0),
    )
    parsed = Parsed(
        get("json_valid", True), get("schema_valid", True), "strict", get("answer"), get("fields", {}), []
    )
    metrics: dict[str, Any] = {
        "task_score": get("score", 1.0),
        "truncated": generation.finish_reason == "length",
    }
    if generation.constraint_backend is not None:
        metrics["constraint_failed"] = metrics["truncated"] or not parsed.schema_valid
    metrics |= get("metrics", {})
    return RunRow(
        run_id=sha(task, item, model, condition, decoding, seed, perturbation, kind),
        timestamp_utc=get("timestamp", "2030-01-02T03:04:05Z"),
        profile=get("profile", "synthetic"),
        config_hash="c0ffee",
        pcsuite_version="0.0.test",
        git_commit=None,
        task=TaskRef(task, "test", item),
        model=ModelRef(model, get("family", "fam"), get("size", "1B"), get("provider", "simulated")),
        condition=ConditionRef(condition, get("operators", OPERATORS.get(condition, ()))),
        decoding=DecodingRef(decoding, temperature, top_p, 120),
        seed=seed,
        seed_honoured=True,
        perturbation=perturbation,
        prompt=PromptRecord(
            sha("prompt", task, item, condition),
            None,
            "json_base",
            400,
            prompt_tokens,
            0,
            band=get("band", "inside"),
        ),
        outcome="failed" if errors else outcome_of(generation.finish_reason),
        generation=None if errors else generation,
        parsed=None if errors else parsed,
        metrics={} if errors else metrics,
        errors=errors,
        kind=kind,
    )


def write_log(path: Path, rows: Iterable[RunRow], prompts: bool = False) -> Path:
    """Write rows to a log, and their prompts beside it where wanted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store = PromptStore(path.with_suffix(".prompts.z")) if prompts else None
    with path.open("ab") as stream:
        for row in rows:
            stream.write(encode_row(row))
            if store is not None:
                text = f"Classify {row.task.item_id} under {row.condition.id}: {row.condition.operators}"
                store.add(row.prompt.prompt_hash, text)
    if store is not None:
        store.close()
    return path


@dataclass(frozen=True)
class Design:
    """A grid with known accuracies."""

    tasks: tuple[str, ...] = ("agnews_json",)
    models: Mapping[str, tuple[str, str]] = field(default_factory=lambda: {"m1": ("fam", "1B")})
    """Model ids with family and size."""
    conditions: tuple[str, ...] = ("C0", "C1", "C2", "C3", "C4", "C5", "C6")
    items: int = 30
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"D0": (0,), "D1": (1, 2, 3)})
    accuracy: Mapping[str, float] = field(
        default_factory=lambda: {
            "C0": 0.35, "C1": 0.38, "C2": 0.45, "C3": 0.6, "C4": 0.62, "C5": 0.7, "C6": 0.72, "C7": 0.65
        }
    )  # fmt: skip
    json_valid: Mapping[str, float] = field(
        default_factory=lambda: {
            "C0": 0.3, "C1": 0.35, "C2": 0.4, "C3": 0.8, "C4": 0.82, "C5": 0.9, "C6": 1.0, "C7": 0.85
        }
    )  # fmt: skip
    perturbations: tuple[str, ...] = ("none",)
    provider: str = "simulated"
    error_rate: float = 0.0
    seed: int = 7


def design_rows(design: Design) -> Iterator[RunRow]:
    """Rows of a design: each item has its own difficulty, shared by conditions and seeds."""
    for task in design.tasks:
        for model, (family, size) in design.models.items():
            for item in range(design.items):
                ease = Random(f"{design.seed}/{task}/{item}").random()
                for condition in design.conditions:
                    for perturbation in design.perturbations:
                        for decoding, seeds in design.seeds.items():
                            for seed in seeds:
                                yield _design_row(
                                    design, task, model, family, size, f"{task}-{item:05d}", ease, condition,
                                    perturbation, decoding, seed,
                                )  # fmt: skip


def _design_row(
    design: Design, task: str, model: str, family: str, size: str, item: str, ease: float, condition: str,
    perturbation: str, decoding: str, seed: int,
) -> RunRow:  # fmt: skip
    rng = Random(f"{design.seed}/{task}/{model}/{item}/{condition}/{perturbation}/{decoding}/{seed}")
    level = design.accuracy.get(condition, 0.5) - (0.15 if perturbation != "none" else 0.0)
    right = rng.random() < min(1.0, max(0.0, level + 0.5 * (ease - 0.5)))
    valid = rng.random() < design.json_valid.get(condition, 0.9)
    failed = rng.random() < design.error_rate
    gold = LABELS[int(sha(item), 16) % 4]
    answer = gold if right else LABELS[(LABELS.index(gold) + 1 + rng.randrange(3)) % 4]
    extra: dict[str, Any] = {"abstained": False, "unanswerable": False, "abstain_misuse": False}
    if "ner" in task:
        tp = sum(rng.random() < level for _ in range(3))
        extra |= {"tp": tp, "fp": rng.randrange(2), "fn": 3 - tp}
        score: float = 2 * tp / (2 * tp + int(extra["fp"]) + int(extra["fn"])) if valid else 0.0
        if not valid:
            extra |= {"tp": 0, "fp": 0, "fn": 3}
    else:
        score = float(right and valid)
    if "fever" in task or "ner" in task:
        extra["unsupported_rate"] = rng.random() * (1 - level)
    if "truthful" in task:
        extra["unanswerable"] = int(sha(item), 16) % 5 == 0
        extra["abstained"] = rng.random() < (0.6 if extra["unanswerable"] else 0.1)
    extra["confidence"] = round(0.4 + 0.6 * rng.random(), 2)
    text = (
        f'{{"label": "{answer}", "confidence": {extra["confidence"]}}}'
        if valid
        else f"I think it is {answer}."
    )
    return make_row(
        task=task, item=item, model=model, family=family, size=size, provider=design.provider,
        condition=condition, decoding=decoding, seed=seed, perturbation=perturbation, text=text,
        score=score, answer=answer if valid else None, json_valid=valid, schema_valid=valid,
        prompt_tokens=60 + 40 * len(OPERATORS.get(condition, ())), completion_tokens=15 + rng.randrange(10),
        constraint_backend="simulated" if condition == "C6" else None,
        errors=["timeout after 60 s"] if failed else (), metrics=extra,
    )  # fmt: skip
