"""What reading a prompt once for all its replicates saves, and whether the texts stay those of a row alone.

    python benchmarks/prefix_reuse.py                                     llama.cpp, the embedded model
    python benchmarks/prefix_reuse.py --provider hf --batch 8             transformers, the same weights
    python benchmarks/prefix_reuse.py --provider hf --params 7b --device cuda --dtype bfloat16 --batch 32 \\
        --prompts 8 --replicates 16 --tokens 64                           random weights of that shape

Every prompt is asked for several replicates in a row, as a run does, with `prefix_reuse` off and on; "alone" asks
the same rows in an order in which no prompt follows itself, one at a time, and its texts are compared with those of
the run that shared. In half precision and on a GPU texts depend on the batch either way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence

from pcsuite.engines.adapters.base import Decoding, Generation, ModelAdapter, Request
from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter

Row = tuple[str, Decoding, int]
WORDS = (
    "river",
    "hill",
    "stone",
    "bridge",
    "rain",
    "field",
    "road",
    "house",
    "garden",
    "window",
    "table",
    "night",
)
NUMBERED = tuple(f"w{number}" for number in range(2, 2002))
"""The words that a random model's tokenizer knows."""


def prompts_of(count: int, length: int, words: Sequence[str]) -> list[str]:
    """Requests for a story with given words, all different, from half to one and a half times the length."""
    lengths = [length // 2 + (number * 37) % max(length, 1) for number in range(count)]
    chosen = [
        " ".join(words[(number * 5 + place * (number + 3)) % len(words)] for place in range(size))
        for number, size in enumerate(lengths)
    ]
    return [f"Write story {number} with these words: {text}" for number, text in enumerate(chosen)]


def llamacpp_adapter(args: argparse.Namespace, reuse: bool) -> ModelAdapter:
    """The embedded model in one worker."""
    options = LlamaCppOptions(weights=args.weights, workers=args.workers, prefix_reuse=reuse)
    return LlamaCppAdapter("model", options)


def hf_adapter(args: argparse.Namespace, reuse: bool) -> ModelAdapter:
    """The same weights by transformers, or random ones of a larger shape."""
    common = {"batch_size": args.batch, "prefix_reuse": reuse, "dtype": args.dtype, "device_map": args.device}
    if args.params is None:
        return LocalHfAdapter("model", HfOptions(weights=args.weights, **common))
    from hf_batching import random_model

    if not hasattr(args, "loaded"):
        args.loaded = random_model(args.params, args.device, args.dtype)
    return LocalHfAdapter("model", HfOptions(path="random", **common), loaded=args.loaded)


def ask_together(adapter: ModelAdapter, rows: Sequence[Row]) -> list[Generation]:
    """All rows in flight at once, as many as the adapter takes on, in the order of the plan."""

    async def ask_all() -> list[Generation]:
        gate = asyncio.Semaphore(adapter.max_concurrency or 1)

        async def ask(row: Row) -> Generation:
            async with gate:
                return await adapter.agenerate(Request(*row))

        return list(await asyncio.gather(*(ask(row) for row in rows)))

    return asyncio.run(ask_all())


def timed(
    args: argparse.Namespace,
    reuse: bool,
    ask: Callable[[ModelAdapter, Sequence[Row]], list[Generation]],
    rows,
) -> tuple[float, dict[Row, str]]:
    """Seconds and texts, without the time to load."""
    adapter = (llamacpp_adapter if args.provider == "llamacpp" else hf_adapter)(args, reuse)
    try:
        ask(adapter, [("Good morning.", Decoding("warm", 0.0, 1.0, 4), 0)])
        started = time.perf_counter()
        answers = ask(adapter, rows)
        seconds = time.perf_counter() - started
    finally:
        adapter.close()
    return seconds, {row: answer["text"] for row, answer in zip(rows, answers, strict=True)}


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--provider", choices=("llamacpp", "hf"), default="llamacpp")
    parser.add_argument("--weights", default="smollm2-135m-instruct-q4_1", help="catalogue id")
    parser.add_argument("--params", help="hf: random weights of this shape instead (small, 1b, 7b)")
    parser.add_argument("--device", default="cpu", help="hf: device")
    parser.add_argument("--dtype", default="float32", help="hf: precision")
    parser.add_argument("--batch", type=int, default=8, help="hf: rows of a batch")
    parser.add_argument("--workers", type=int, default=1, help="llamacpp: worker processes")
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--words", type=int, default=250, help="words of a prompt, on average")
    parser.add_argument(
        "--replicates", type=int, default=6, help="rows of a prompt: one greedy, the rest sampled"
    )
    parser.add_argument("--tokens", type=int, default=32, help="length of an answer at most")
    parser.add_argument("--skip-alone", action="store_true", help="do not compare with rows alone")
    args = parser.parse_args()
    greedy, sampled = (
        Decoding(name, temperature, top_p, args.tokens)
        for name, temperature, top_p in (("d0", 0.0, 1.0), ("d1", 0.7, 0.95))
    )
    prompts = prompts_of(args.prompts, args.words, WORDS if args.params is None else NUMBERED)
    rows = [
        (prompt, sampled if seed else greedy, seed) for prompt in prompts for seed in range(args.replicates)
    ]
    off, _ = timed(args, False, ask_together, rows)
    on, texts = timed(args, True, ask_together, rows)
    found = {
        "provider": args.provider,
        "rows": len(rows),
        "seconds_off": round(off, 2),
        "seconds_on": round(on, 2),
        "ratio": round(off / on, 2),
    }
    if not args.skip_alone:
        apart = sorted(rows, key=lambda row: row[2])
        _, alone = timed(args, True, lambda adapter, rows: [adapter.generate(*row) for row in rows], apart)
        found["same_as_alone"] = f"{sum(texts[row] == alone[row] for row in rows)} of {len(rows)}"
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
