"""Prompts that begin alike on the embedded engine: read whole, or on from where they part, and whether texts stay.

    python benchmarks/beginnings.py                                          SmolLM2, 60 prompts
    python benchmarks/beginnings.py --weights gemma-3-270m-q4_k_m --prompts 500

The prompts are those of an ablation: a company-like prompt of some 180 words in ten paragraphs, each arm without one
of them, before invented letters. They are asked as a run asks them with each beginning read once; then shuffled, a
worker being killed every so often; then so that no prompt can use what the one before it left (each after one of
another arm, one beginning kept); then some of them read whole, for the ratio. A round is printed when it ends: rows a
second, and how many answers are those of the first round, in their text and in the log probability of each token and
of the four next likely ones, to the last bit. Prompts that were read whole may differ: another cut rounds differently.
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
from itertools import pairwise, zip_longest
from typing import Any

from pcsuite.engines.adapters.base import Decoding, Request
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


def ask(
    adapter: LlamaCppAdapter, rows: Sequence[Request], at_once: int, kill_every: int | None = None
) -> tuple[dict[Request, str], int]:
    """Text and probabilities of each answer, and how often a worker was killed. So many rows are in flight at once."""
    texts: dict[Request, str] = {}
    kills = 0

    async def ask_one(row: Request, gate: asyncio.Semaphore) -> None:
        nonlocal kills
        async with gate:
            while row not in texts:
                try:
                    texts[row] = await measured(adapter, row)
                except EngineError as error:
                    if not error.retryable:
                        raise
            if kill_every and len(texts) % kill_every == 0:
                os.kill(adapter._pool._workers[0]._process.pid, signal.SIGKILL)
                kills += 1

    async def ask_all() -> None:
        gate = asyncio.Semaphore(at_once)
        await asyncio.gather(*(ask_one(row, gate) for row in rows))

    asyncio.run(ask_all())
    return texts, kills


async def measured(adapter: LlamaCppAdapter, row: Request) -> str:
    """The answer's text and the probabilities behind it, as the worker wrote them."""
    reply = await asyncio.wrap_future(adapter._submit(row))
    generation = adapter._generation(reply, None)
    probabilities = json.dumps(reply["result"]["choices"][0]["logprobs"])
    return json.dumps([generation["text"], generation.get("prompt_cut"), probabilities])


def with_probabilities(adapter: LlamaCppAdapter) -> None:
    """Have every call ask for the probabilities of its tokens."""
    generate = adapter._pool.generate

    def asking(body: dict[str, Any], chat: bool, reading: Any) -> Any:
        asked = {"logprobs": True, "top_logprobs": 5} if chat else {"logprobs": 5}
        return generate({**body, **asked}, chat, reading)

    adapter._pool.generate = asking  # type: ignore[method-assign]


def main() -> None:
    """Measure, and print a JSON line for each round."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", default="smollm2-135m-instruct-q4_1", help="catalogue id")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--alone", type=int, help="prompts asked without any reuse (default: all)")
    parser.add_argument("--whole", type=int, default=44, help="prompts that are read whole, for the ratio")
    parser.add_argument("--tokens", type=int, default=8, help="length of an answer at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=int, default=50, help="answers after which a worker is killed")
    args = parser.parse_args()
    rows = requests_of(args.prompts, args.tokens)
    shuffled = random.Random("order").sample(rows, len(rows))
    first: dict[Request, str] = {}

    def round_of(
        name: str,
        order: Sequence[Request],
        kept: int,
        workers: int,
        at_once: int | None = None,
        kill_every: int | None = None,
    ) -> None:
        options = LlamaCppOptions(weights=args.weights, workers=workers, kept_beginnings=kept)
        adapter = LlamaCppAdapter("model", options)
        with_probabilities(adapter)
        try:
            ask(adapter, [Request("Good morning.", Decoding("D0", 0.0, 1.0, 4), 0)], 1)
            started = time.perf_counter()
            texts, kills = ask(adapter, order, at_once or adapter.max_concurrency, kill_every)
            seconds = time.perf_counter() - started
        finally:
            adapter.close()
        result = {
            "weights": args.weights,
            "round": name,
            "rows_per_s": round(len(order) / seconds, 2),
            "cut": sum(json.loads(text)[1] is not None for text in texts.values()),
            "kills": kills,
        }
        if first:
            same = sum(texts[row] == first[row] for row in order)
            worded = sum(json.loads(texts[row])[0] == json.loads(first[row])[0] for row in order)
            result |= {"same": f"{same} of {len(order)}", "same_text": f"{worded} of {len(order)}"}
        else:
            first.update(texts)
        print(json.dumps(result), flush=True)

    round_of("in the order of a run", rows, 2, args.workers)
    round_of("shuffled, workers killed", shuffled, 2, args.workers, kill_every=args.kill_every)
    alone = never_alike(rows)[: args.alone]
    round_of("nothing reused", alone, 1, 1, at_once=1)
    if args.whole:
        round_of("read whole", rows[: args.whole], 0, args.workers)


def never_alike(rows: Sequence[Request]) -> list[Request]:
    """The prompts so that each comes after one with another beginning."""
    groups: dict[str, list[Request]] = {}
    for row in rows:
        groups.setdefault(row.prompt[: row.shared_chars], []).append(row)
    order = [row for turn in zip_longest(*groups.values()) for row in turn if row is not None]
    beginnings = [row.prompt[: row.shared_chars] for row in order]
    assert all(one != other for one, other in pairwise(beginnings))
    return order


if __name__ == "__main__":
    main()
