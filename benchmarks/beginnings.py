"""Prompts that begin alike on the embedded engine: read whole, or on from where they part, and whether texts stay.

    python benchmarks/beginnings.py                                          SmolLM2, 60 prompts
    python benchmarks/beginnings.py --weights qwen2.5-coder-0.5b-instruct-q4_k_m --prompts 500

The prompts are those of an ablation: a company-like prompt of some 180 words in ten paragraphs, each arm without one
of them, before invented letters. They are asked as a run asks them with each beginning read once; then some of them
whole, for the ratio; then all of them shuffled, a worker being killed on the way. Printed are rows a second, their
ratio, and how many texts of the shuffled round are those of the ordered one. Texts of prompts that were read whole may
differ: another cut rounds differently.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Sequence

from pcsuite.engines.adapters.base import Decoding, ModelAdapter, Request
from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.errors import EngineError

PARAGRAPHS = (
    "You work at the service desk of a shop that sells lamps, shelves and garden chairs in three countries.",
    "Read the letter below and say what the customer wants from us, in one of five words.",
    "The words are: refund, repair, delivery, advice, other. Use no word that is not among them.",
    "A letter that asks for money back is a refund, also where the customer is polite about it or only hints at it.",
    "A letter about a broken lamp is a repair, unless the customer writes that a new one would not be welcome.",
    "Letters that ask where a parcel is, or when it will come, belong to delivery, even if the parcel is long late.",
    "Do not greet the customer, do not apologise, and do not explain how you came to your answer.",
    "If the letter is in another language, answer in English all the same; names of products stay as they are.",
    "Where two words fit, take the one that the customer mentions first, since that is what they care about most.",
    "Answer with the word alone, in small letters, without a full stop.",
)
SUBJECTS = ("The lamp", "My shelf", "One of the chairs", "The parcel", "Your bill", "La lampe", "Order 4711")
EVENTS = (
    "came late",
    "has a crack",
    "never arrived",
    "is too high",
    "works well",
    "ne marche plus",
    "was returned",
)
WISHES = (
    "Please call me.",
    "I want my money back.",
    "Can you mend it?",
    "Where is it now?",
    "Thanks anyway.",
)


def letters(count: int) -> list[str]:
    """So many different letters of one to three sentences."""
    rng = random.Random("letters")
    made: dict[str, None] = {}
    while len(made) < count:
        sentences = [f"{rng.choice(SUBJECTS)} {rng.choice(EVENTS)}." for _ in range(rng.randint(1, 3))]
        made[" ".join([*sentences, rng.choice(WISHES), f"No. {rng.randint(1, 9999)}"])] = None
    return list(made)


def requests_of(count: int, tokens: int) -> list[Request]:
    """The prompts of an ablation in the order of a run: eight letters of an arm, then of the next."""
    arms = [PARAGRAPHS] + [
        PARAGRAPHS[:left_out] + PARAGRAPHS[left_out + 1 :] for left_out in range(len(PARAGRAPHS))
    ]
    beginnings = ["\n\n".join(arm) + "\n\nLetter: " for arm in arms]
    items = letters(-(-count // len(arms)))
    decoding = Decoding("D0", 0.0, 1.0, tokens)
    rows = [
        Request(beginning + item, decoding, 0, shared_chars=len(beginning))
        for at in range(0, len(items), 8)
        for beginning in beginnings
        for item in items[at : at + 8]
    ]
    return rows[:count]


def ask(adapter: ModelAdapter, rows: Sequence[Request], kill_at: int | None = None) -> dict[Request, str]:
    """The texts; all rows in flight at once, as many as the adapter takes on. One worker is killed at ``kill_at``."""

    async def ask_all() -> dict[Request, str]:
        gate = asyncio.Semaphore(adapter.max_concurrency or 1)
        texts: dict[Request, str] = {}

        async def ask_one(row: Request) -> None:
            async with gate:
                while row not in texts:
                    try:
                        texts[row] = (await adapter.agenerate(row))["text"]
                    except EngineError as error:
                        if not error.retryable:
                            raise
                if len(texts) == kill_at:
                    os.kill(adapter._pool._workers[0]._process.pid, signal.SIGKILL)

        await asyncio.gather(*(ask_one(row) for row in rows))
        return texts

    return asyncio.run(ask_all())


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", default="smollm2-135m-instruct-q4_1", help="catalogue id")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--whole", type=int, default=44, help="prompts that are read whole, for the ratio")
    parser.add_argument("--tokens", type=int, default=8, help="length of an answer at most")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    rows = requests_of(args.prompts, args.tokens)
    shuffled = random.Random("order").sample(rows, len(rows))

    def timed(
        order: Sequence[Request], kept: int, kill_at: int | None = None
    ) -> tuple[float, dict[Request, str]]:
        options = LlamaCppOptions(weights=args.weights, workers=args.workers, kept_beginnings=kept)
        adapter = LlamaCppAdapter("model", options)
        try:
            ask(adapter, [Request("Good morning.", Decoding("D0", 0.0, 1.0, 4), 0)])
            started = time.perf_counter()
            texts = ask(adapter, order, kill_at)
            return len(order) / (time.perf_counter() - started), texts
        finally:
            adapter.close()

    cut, texts = timed(rows, 2)
    whole, plain = timed(rows[: args.whole], 0)
    mixed, again = timed(shuffled, 2, len(rows) // 2)
    result = {
        "weights": args.weights,
        "prompts": len(rows),
        "rows_per_s": {"whole": round(whole, 2), "in_order": round(cut, 2), "shuffled": round(mixed, 2)},
        "ratio": round(cut / whole, 2),
        "same_shuffled": f"{sum(texts[row] == again[row] for row in rows)} of {len(rows)}",
        "same_as_whole": f"{sum(texts[row] == text for row, text in plain.items())} of {len(plain)}",
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
