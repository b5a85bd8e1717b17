"""Prompts that begin alike on the embedded engine: read whole, or on from where they part, and whether texts stay.

    python benchmarks/beginnings.py                                          SmolLM2, 60 prompts
    python benchmarks/beginnings.py --weights gemma-3-270m-q4_k_m --prompts 500
    python benchmarks/beginnings.py --path model.gguf --answers answers.jsonl --seconds 3000
    python benchmarks/beginnings.py --slots 4 --tokens 48                    several answers in the same passes too

The prompts are those of an ablation: a company-like prompt of some 180 words in ten paragraphs, each arm without one
of them, before invented letters. They are asked as a run asks them with each beginning read once; then shuffled, a
worker being killed every so often; then so that no prompt can use what the one before it left (each after one of
another arm, one beginning kept); then some of them read whole, for the ratio; with ``--slots`` as many answers of a
worker in the same passes, where texts may differ. A round is printed when it ends: rows a second,
processor seconds a row (of the workers, their start included), and how many answers
are those of the first round, in their text and in the log probability of each token and of the four next likely ones,
to the last bit. Prompts that were read whole may differ: another cut rounds differently.

Each answer is written to the file of ``--answers`` when it comes, and what that file has is not asked again (nor
counted in a rate), so a run that was ended goes on where it was. ``--seconds`` ends it by itself: the round that was
under way is then told as far as it came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
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


PROGRESS_S = 15.0
"""Seconds between two lines of progress."""


class Answers:
    """The answers of all rounds, in a file too where one is named: one JSON line each, written as they come."""

    def __init__(self, path: Path | None, of: str) -> None:
        self._of = of
        self._known: dict[tuple[str, str], str] = {}
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path and path.exists() else []
        for line in lines:
            if line.endswith("\n"):  # the last one may be torn
                entry = json.loads(line)
                if entry["of"] == of:
                    self._known[entry["round"], entry["prompt"]] = entry["answer"]
        self._file = None if path is None else path.open("a", encoding="utf-8")
        if self._file is not None and lines and not lines[-1].endswith("\n"):
            self._file.write("\n")

    def of_round(self, name: str, rows: Sequence[Request]) -> dict[Request, str]:
        """What a round has of these prompts already."""
        return {row: self._known[name, row.prompt] for row in rows if (name, row.prompt) in self._known}

    def add(self, name: str, row: Request, answer: str) -> None:
        """Note an answer."""
        if self._file is not None:
            entry = {"of": self._of, "round": name, "prompt": row.prompt, "answer": answer}
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()


class Deadline:
    """When to stop asking."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        return self._end is not None and time.monotonic() > self._end


def ask(
    adapter: LlamaCppAdapter,
    rows: Sequence[Request],
    at_once: int,
    *,
    round_name: str = "",
    answers: Answers | None = None,
    deadline: Deadline | None = None,
    kill_every: int | None = None,
) -> tuple[dict[Request, str], int]:
    """Text and probabilities of each answer, and how often a worker was killed. So many rows are in flight at once."""
    texts: dict[Request, str] = {}
    kills, told = 0, time.monotonic()

    async def ask_one(row: Request, gate: asyncio.Semaphore) -> None:
        nonlocal kills, told
        async with gate:
            while row not in texts and not (deadline and deadline.passed):
                try:
                    texts[row] = await measured(adapter, row)
                except EngineError as error:
                    if not error.retryable:
                        raise
            if row not in texts:
                return
            if answers is not None:
                answers.add(round_name, row, texts[row])
            if round_name and time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                print(f"{round_name}: {len(texts)} of {len(rows)}", file=sys.stderr, flush=True)
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
    parser.add_argument("--path", type=Path, help="a GGUF file instead")
    parser.add_argument("--prompts", type=int, default=60)
    parser.add_argument("--alone", type=int, help="prompts asked without any reuse (default: all)")
    parser.add_argument("--whole", type=int, default=44, help="prompts that are read whole, for the ratio")
    parser.add_argument(
        "--slots", type=int, help="a further round with so many answers of a worker at a time"
    )
    parser.add_argument("--tokens", type=int, default=8, help="length of an answer at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=int, default=50, help="answers after which a worker is killed")
    parser.add_argument("--kept", type=int, default=32, help="beginnings that a worker keeps")
    parser.add_argument("--answers", type=Path, help="file of the answers, of an earlier start too")
    parser.add_argument("--seconds", type=float, help="time for everything; what is there by then is told")
    args = parser.parse_args()
    rows = requests_of(args.prompts, args.tokens)
    shuffled = random.Random("order").sample(rows, len(rows))
    source = {"weights": args.weights} if args.path is None else {"path": args.path}
    named = args.weights if args.path is None else args.path.name
    # Answers are those of the first round only if weights and length are the same.
    answers, deadline = Answers(args.answers, f"{named}, {args.tokens} tokens"), Deadline(args.seconds)
    first: dict[Request, str] = {}

    def round_of(
        name: str,
        order: Sequence[Request],
        kept: int,
        workers: int,
        at_once: int | None = None,
        kill_every: int | None = None,
        slots: int = 1,
    ) -> None:
        texts = answers.of_round(name, order)
        left = [row for row in order if row not in texts]
        seconds, kills, new = 0.0, 0, dict[Request, str]()
        before = os.times()
        if left and not deadline.passed:
            adapter = LlamaCppAdapter(
                "model", LlamaCppOptions(**source, workers=workers, kept_beginnings=kept, slots=slots)
            )
            with_probabilities(adapter)
            try:
                ask(adapter, [Request("Good morning.", Decoding("D0", 0.0, 1.0, 4), 0)], 1)
                started = time.perf_counter()
                new, kills = ask(
                    adapter,
                    left,
                    at_once or adapter.max_concurrency,
                    round_name=name,
                    answers=answers,
                    deadline=deadline,
                    kill_every=kill_every,
                )
                seconds = time.perf_counter() - started
            finally:
                adapter.close()
        texts |= new
        after = os.times()
        processor = (
            after.children_user + after.children_system - before.children_user - before.children_system
        )
        result = {
            "weights": named,
            "round": name,
            "asked": f"{len(texts)} of {len(order)}",
            "rows_per_s": round(len(new) / seconds, 2) if new else None,
            "cpu_s_a_row": round(processor / len(new), 3) if new else None,
            "cut": sum(json.loads(text)[1] is not None for text in texts.values()),
            "kills": kills,
        }
        if first:
            both = [row for row in order if row in texts and row in first]
            same = sum(texts[row] == first[row] for row in both)
            worded = sum(json.loads(texts[row])[0] == json.loads(first[row])[0] for row in both)
            result |= {"same": f"{same} of {len(both)}", "same_text": f"{worded} of {len(both)}"}
        else:
            first.update(texts)
        print(json.dumps(result), flush=True)

    round_of("in the order of a run", rows, args.kept, args.workers)
    round_of("shuffled, workers killed", shuffled, args.kept, args.workers, kill_every=args.kill_every)
    alone = never_alike(rows)[: args.alone]
    round_of("nothing reused", alone, 1, 1, at_once=1)
    if args.whole:
        round_of("read whole", rows[: args.whole], 0, args.workers)
    if args.slots:
        round_of(f"{args.slots} slots", rows, args.kept, args.workers, slots=args.slots)


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
