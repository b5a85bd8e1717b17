"""Profiles whose one model is a batch server's, and what their logs hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pcsuite.cli import main
from pcsuite.logging.log import iter_rows
from support.batch_server import BatchServer
from support.profiles import write_profile

QUICK = {"gather_s": 0.1, "poll_s": 0.03, "settle_s": 0.2}


def profile_in(
    folder: Path,
    server: BatchServer,
    *,
    provider: str = "openai",
    seeds: int = 2,
    items: int = 6,
    max_requests: int = 1000,
    **more: Any,
) -> Path:
    """Four conditions of AG News, sampled, on the server's model; ``more`` are keys of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    model = {"provider": provider, "family": "f", "size": "1B", "base_url": server.base_url, "model": "m"}
    if provider == "openai":
        model |= {"seed_supported": True}
    return write_profile(
        folder,
        {"served": model | more},
        conditions=("C0", "C1", "C2", "C3"),
        regimes=("D1",),
        items=items,
        repro={"seeds": {"D1": list(range(1, seeds + 1))}, "seeds_per_task": {"default": seeds}},
        limits={"max_items_per_task": items, "retry": {"base_s": 0.02}},
        batch=QUICK | {"max_requests": max_requests},
    )


def log_of(folder: Path) -> Path:
    return folder / "outputs" / "runs" / "t.jsonl"


def rows_of(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Rows by id as an unbatched run would have them: without times, ids of batches and numbers of tries."""
    found: dict[str, tuple[Any, ...]] = {}
    for row in iter_rows(log_of(folder)):
        assert row.run_id not in found
        assert not row.errors
        made = row.generation
        assert made is not None
        found[row.run_id] = (
            row.task.item_id, row.condition.id, row.seed, row.prompt, made.text, made.finish_reason, made.usage,
            made.cache_hit, row.parsed, row.metrics, row.engine, row.seed_honoured,
        )  # fmt: skip
    return found


def run(profile: Path, *more: str) -> int:
    """``pcsuite run`` without the response cache; its exit status."""
    return main(["run", "--quiet", "--no-cache", "--config", str(profile), *more])
