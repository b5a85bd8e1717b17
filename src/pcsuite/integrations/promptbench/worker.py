"""PromptBench's side of the conversation; run by the interpreter of its own environment, never imported here.

Requests come as JSON lines on stdin, one at a time; messages go out as JSON lines on what was stdout when the
process started (PromptBench prints much, which is sent to stderr):

    -> {"attack": "deepwordbug", "text": "...", "protected": ["..."], "seed": 1, "budget": 40}
    <- {"ask": "a changed text"}          the score of this text is wanted
    -> {"score": 0.5}
    <- {"done": {"attacked": "...", "attacked_score": ..., "original_score": ..., "queries": ..., ...}}
    <- {"not_applicable": "why"}          in place of "done": this text has nothing for the attack
    <- {"error": "what went wrong"}       in place of "done"
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any

ABOVE_ZERO = 1e-9
"""PromptBench divides by the clean score; all scores are lifted by this much, and ours are reported."""
MASK = "[UNK]"
"""What a word is replaced by while words are ranked; such a text is no attack."""


class NothingToAttackError(Exception):
    """The attack has nothing to do on this text."""


class Scores:
    """Asks for scores, counts the questions and remembers every text that was tried."""

    def __init__(self, ask: Callable[[str], float]) -> None:
        self._ask = ask
        self.tried: dict[str, float] = {}

    def __call__(self, text: str, *_: Any) -> float:
        """Score of a text, as PromptBench wants it."""
        if text not in self.tried:
            self.tried[text] = self._ask(text)
        return self.tried[text] + ABOVE_ZERO


def run_attack(request: dict[str, Any], ask: Callable[[str], float]) -> dict[str, Any]:
    """Attack one text and report the worst version that was found, with its score and the number of questions.

    ``ask`` gives the score of a changed text. Raises :class:`NothingToAttackError` where no text was changed.
    """
    import numpy
    import torch  # type: ignore[import-not-found,unused-ignore]

    scores = Scores(ask)
    text, seed = request["text"], int(request["seed"])
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    ranking = "none"
    if request["attack"] == "semantic":
        _try_canned(request, scores)
    else:
        ranking = _search(request, scores)
    same = text.strip()
    changed = {
        tried: score for tried, score in scores.tried.items() if tried.strip() != same and MASK not in tried
    }
    if not changed:
        raise NothingToAttackError(f"{request['attack']} changed nothing within {request['budget']} queries")
    # The last of the worst: a greedy search adds to what it found before.
    worst = min(changed.values())
    attacked = [tried for tried, score in changed.items() if score == worst][-1]
    return {
        "attacked": attacked,
        "attacked_score": worst,
        "original_score": scores.tried[text],
        "queries": len(scores.tried),
        "ranking": ranking,
    }


def _search(request: dict[str, Any], scores: Scores) -> str:
    from promptbench.prompt_attack import attack as module  # type: ignore[import-not-found]

    budget = int(request["budget"])
    # attack.py holds its own copy of the settings, imported from "__init__" as a module.
    module.attack_config["goal_function"]["query_budget"] = budget
    protected = [form for word in request["protected"] for form in (word, word + "'")]
    attack = module.Attack(
        None, request["attack"], None, request["text"], scores, unmodifiable_words=protected, verbose=False
    )
    search = attack.prompt_attack.search_method
    ranking = getattr(search, "wir_method", "none")
    words = len(request["text"].split())
    if ranking == "unk" and words * 2 > budget:
        # Ranking asks once for every word and would leave nothing of the budget for the attack itself.
        search.wir_method = ranking = "random"
    attack.attack()
    return str(ranking)


def _try_canned(request: dict[str, Any], scores: Scores) -> None:
    from promptbench.prompts.semantic_atk_prompts import (  # type: ignore[import-not-found]
        SEMANTIC_ADV_PROMPT_SET,
    )

    dataset = request.get("dataset", "")
    if dataset not in SEMANTIC_ADV_PROMPT_SET:
        datasets = ", ".join(sorted(SEMANTIC_ADV_PROMPT_SET))
        why = f"semantic has no canned prompts for dataset '{dataset}'; it has them for {datasets}"
        raise NothingToAttackError(why)
    groups = SEMANTIC_ADV_PROMPT_SET[dataset].values()
    canned = [prompt.strip() for group in groups for prompt in group if "{" not in prompt]
    random.shuffle(canned)
    scores(request["text"])
    for prompt in canned[: int(request["budget"]) - 1]:
        scores(request["text"].replace(request["instruction"], prompt, 1))


def main() -> None:
    """Serve requests until stdin ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    def ask(text: str) -> float:
        send({"ask": text})
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        return float(json.loads(line)["score"])

    send({"ready": True})
    for line in sys.stdin:
        try:
            send({"done": run_attack(json.loads(line), ask)})
        except NothingToAttackError as reason:
            send({"not_applicable": str(reason)})
        except Exception as error:
            send({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
