"""Targets for tests: small programs on disk, built into adapters as a profile's entry is, and asked."""

from __future__ import annotations

import asyncio
import random
import textwrap
from pathlib import Path
from typing import Any

from pcsuite.config.definitions import ModelSpec
from pcsuite.config.targets import target_entry, with_identity
from pcsuite.engines.adapters.base import CallContext, Decoding, Generation, ModelAdapter, Request
from pcsuite.engines.session import build_adapter

GREEDY = Decoding("D0", 0.0, 1.0, 64)


def program(folder: Path, name: str, source: str) -> Path:
    """Write a program below a folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source).lstrip(), encoding="utf-8")
    return path


def adapter_for(folder: Path, spec: str, **options: Any) -> ModelAdapter:
    """The adapter of a target whose files lie in a folder."""
    name, entry = target_entry(spec, {**options, "target_folder": str(folder)})
    entry["target_folder"] = str(folder)
    return build_adapter(name, with_identity(name, ModelSpec.model_validate(entry), ()))


def request_for(prompt: str = "Be brief.", item: dict[str, Any] | None = None, **more: Any) -> Request:
    """A request with an item's columns beside the prompt."""
    context = CallContext(
        "t", "1", "full", (), "none", gold=str, wrong=lambda rng: "", given=item or {}, **more
    )
    return Request(prompt, GREEDY, seed=7, context=context)


def ask(adapter: ModelAdapter, *requests: Request) -> list[Generation]:
    """The answers to some requests, asked at once; the adapter is closed afterwards."""

    async def all_of_them() -> list[Generation]:
        try:
            return list(await asyncio.gather(*(adapter.agenerate(request) for request in requests)))
        finally:
            await adapter.aclose()

    return asyncio.run(all_of_them())


RULES = """# Tone

Be kind to everyone.

# Rules

Answer with the queue.

# Noise

Think of the weather first.
"""
"""Instructions without a place for the item; `Answer with the queue.` is what the agents below need."""
AGENT = """
import json, sys

call = json.load(sys.stdin)
right = "Answer with the queue." in call["prompt"]
steps = 3 + ("weather" in call["prompt"])
print(f"asked about {call['item']['text']}", file=sys.stderr)
answer = call["item"]["text"].split()[-1] if right else "no idea"
json.dump({"output": answer, "steps": steps, "cost_usd": 0.002}, sys.stdout)
"""


def write_study(folder: Path, items: int = 24, rules: str = RULES, agent: str = AGENT) -> Path:
    """``AGENTS.md``, ``tickets.csv`` (text, queue) and ``agent.py`` in a folder; returns it."""
    rng = random.Random(5)
    (folder / "AGENTS.md").write_text(rules, encoding="utf-8")
    lines = [
        f"ticket {n} about {(queue := rng.choice(['billing', 'delivery']))},{queue}" for n in range(items)
    ]
    (folder / "tickets.csv").write_text("\n".join(["text,queue", *lines]) + "\n", encoding="utf-8")
    program(folder, "agent.py", agent)
    return folder
