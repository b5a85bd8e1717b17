"""A row of the log for tests."""

import hashlib
from typing import Any

from pcsuite.evaluation.base import Parsed
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
)


def make_row(
    *,
    item: str = "item-1",
    condition: str = "C0",
    seed: int = 0,
    text: str = '{"label": "World"}',
    metrics: dict[str, Any] | None = None,
    errors: tuple[str, ...] = (),
) -> RunRow:
    """A complete row with a run id that follows from its item, condition and seed."""
    name = f"{item}|{condition}|{seed}"
    return RunRow(
        run_id=hashlib.sha256(name.encode()).hexdigest(),
        timestamp_utc="2026-01-01T00:00:00.000+00:00",
        profile="test",
        config_hash="0" * 64,
        pcsuite_version="0",
        git_commit=None,
        task=TaskRef("agnews_json", "test", item, f"cluster of {item}"),
        model=ModelRef("sim", "simulated", "7B", "simulated"),
        condition=ConditionRef(condition, ("ROLE",)),
        decoding=DecodingRef("D0", 0.0, 1.0, 120),
        seed=seed,
        seed_honoured=True,
        perturbation=PerturbationRef(),
        prompt=PromptRecord(hashlib.sha256(name.encode()).hexdigest(), None, "json_base.j2", 10, 3, 0),
        generation=None if errors else GenerationRecord(text, "stop", 1.0, UsageRecord(3, 4, 7)),
        parsed=None if errors else Parsed(True, True, "strict", "World", {"label": "World"}, [], "read"),
        metrics={"task_score": 1.0} if metrics is None else metrics,
        errors=list(errors),
        outcome="failed" if errors else "answered",
    )
