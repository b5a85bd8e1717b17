"""A model that says what it is told to, for programs without an engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pcsuite.config.load import bundled_configs
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import Decoding, Generation, Request
from pcsuite.evaluation.fever import FeverEvaluator
from pcsuite.programs.base import Job
from pcsuite.retrieval.base import Passage

SCHEMA = json.loads((bundled_configs() / "schemas" / "fever_json.json").read_text())
CLAIM = Item(
    "claim",
    "Lorvik is the capital of Karvenia.",
    {
        "label": "SUPPORTS",
        "evidence_sets": [[{"page": "Karvenia", "sentence": 1, "text": "Its capital is Lorvik."}]],
    },
)
CORPUS = {
    "lorvik": [
        Passage("Lorvik", 0, "Lorvik is a town.", 3.0),
        Passage("Karvenia", 1, "Its capital is Lorvik.", 2.0),
    ],
    "karvenia": [
        Passage("Karvenia", 1, "Its capital is Lorvik.", 2.0),
        Passage("Karvenia", 0, "A country.", 1.0),
    ],
}


def verdict(label: str = "SUPPORTS", *evidence: tuple[str, int]) -> str:
    """An answer of the FEVER task."""
    cited = [{"page": page, "sentence": number} for page, number in evidence]
    return json.dumps({"label": label, "evidence": cited})


class ScriptedModel:
    """Answers the n-th call with the n-th line; the last line is repeated. Keeps what it was asked."""

    def __init__(self, *lines: str | tuple[str, str] | tuple[str, str, int]) -> None:
        self.lines = lines
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, request: Request) -> Generation:
        line = self.lines[min(len(self.asked), len(self.lines) - 1)]
        text, finish, tokens = (line, "stop", 10) if isinstance(line, str) else (*line, 10)[:3]
        self.asked.append(
            {
                "prompt": request.prompt,
                "step": request.step,
                "constraint": request.constraint,
                "max_tokens": request.decoding.max_tokens,
            }
        )
        usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
        return {"text": text, "finish_reason": finish, "latency_ms": 1.0, "usage": usage}


class ScriptedSearch:
    """Finds what :data:`CORPUS` has under the lower-cased query."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def __call__(self, query: str, k: int) -> Sequence[Passage]:
        self.queries.append(query)
        return CORPUS.get(query.casefold(), [])[:k]


def fever_job(search: ScriptedSearch | None = None, *, max_steps: int = 5, max_tokens: int = 260) -> Job:
    """A job on the claim above."""
    return Job(
        task_id="fever_json",
        item=CLAIM,
        request=Request("PROMPT", Decoding("D0", 0.0, 1.0, max_tokens)),
        evaluator=FeverEvaluator(schema=SCHEMA),
        max_steps=max_steps,
        retrieve=search,
    )
