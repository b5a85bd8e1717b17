"""The hf provider beside vLLM's engine: the same weights, prompts and lengths on the same card in one run.

    python benchmarks/hf_beside_vllm.py --params 7b --rows 1,32,128 --prompt-tokens 420 --tokens 120

The weights are random (see hf_batching.py) and written to a folder, from which vLLM loads them. Each provider gets all
prompts of a size at once, sampled at temperature 0.7 and top-p 0.95 with a seed a row, after a round that warms it up;
one row at a time for the size 1. Printed are tokens a second, the ratio, and for how many rows a round in another order
gives the same text; "invariant" is vLLM with `batch_invariant`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import tempfile
import time

import torch
from hf_batching import prompts_of, random_model, run_batches

from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.vllm_offline import VllmOfflineAdapter, VllmOptions


def ask(adapter, requests, at_once):
    """Answers by request, so many in flight, and seconds."""

    async def ask_all():
        gate = asyncio.Semaphore(at_once)

        async def ask_one(request):
            async with gate:
                return request, await adapter.agenerate(request)

        return dict(await asyncio.gather(*map(ask_one, requests)))

    started = time.perf_counter()
    answers = asyncio.run(ask_all())
    return answers, time.perf_counter() - started


def tokens_of(answers):
    """Tokens that were generated."""
    return sum(answer["usage"]["completion_tokens"] for answer in answers)


def measure_vllm(folder, sizes, requests_of, **options):
    """Tokens a second and rows that are the same in another order, by size."""
    adapter = VllmOfflineAdapter(
        "m", VllmOptions(path=folder, gpu_memory=0.6, context_tokens=2048, batch_size=max(sizes), **options)
    )
    results = {}
    try:
        for size in sizes:
            requests = requests_of(size)
            ask(adapter, requests, size)
            answers, seconds = ask(adapter, requests, size)
            again, _ = ask(adapter, random.Random(0).sample(requests, len(requests)), size)
            same = sum(answers[request]["text"] == again[request]["text"] for request in requests)
            speed = round(tokens_of(answers.values()) / seconds)
            results[size] = {"tokens_per_s": speed, "same": f"{same} of {len(requests)}"}
    finally:
        adapter.close()
    return results


def main() -> None:
    """Measure and print a JSON line a size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--params", default="7b")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rows", default="1,32,128")
    parser.add_argument("--prompt-tokens", type=int, default=420)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--invariant", action="store_true", help="measure batch_invariant too")
    args = parser.parse_args()
    sizes = [int(size) for size in args.rows.split(",")]
    decoding = Decoding("D1", 0.7, 0.95, args.tokens)

    def requests_of(size):
        prompts = prompts_of(max(size, 4), args.prompt_tokens)
        return [Request(prompt, decoding, seed) for seed, prompt in enumerate(prompts)]

    loaded = random_model(args.params, "cuda", args.dtype)
    speeds = {}
    for size in sizes:
        calls = [(request.prompt, request.decoding, request.seed) for request in requests_of(size)]
        answers, seconds = run_batches(loaded, calls, size, "cuda")
        speeds[size] = round(tokens_of(answers) / seconds)
    with tempfile.TemporaryDirectory() as folder:
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
        del loaded
        gc.collect()
        torch.cuda.empty_cache()
        rounds = {"vllm": measure_vllm(folder, sizes, requests_of)}
        if args.invariant:
            rounds["invariant"] = measure_vllm(folder, sizes, requests_of, batch_invariant=True)
    for size in sizes:
        line = {"rows": size, "hf": speeds[size]}
        for name, measured in rounds.items():
            line |= {
                name: measured[size],
                f"{name}/hf": round(measured[size]["tokens_per_s"] / speeds[size], 2),
            }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
