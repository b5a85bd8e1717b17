"""Tokens per second of every constraint backend beside unconstrained decoding, in one run on one model.

    python benchmarks/constraint_overhead.py                    the embedded model, on the CPU
    python benchmarks/constraint_overhead.py --device cuda --tokens 128

The answers are forced to have the same length everywhere (a pattern of that many letters and blanks), so that
only the time differs. Backends whose library is not installed are left out and named.
"""

from __future__ import annotations

import argparse
import json
import time

from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.engines.constrained import CONSTRAINTS

PROMPT = "Write a long story about a river, in plain words, without any punctuation."


def speed(call, tokens: int, repeats: int) -> dict[str, float]:
    """Tokens a second by wall clock and by processor time, after one call to warm up."""
    call(0)
    wall, cpu, made = time.perf_counter(), time.process_time(), 0
    for seed in range(1, repeats + 1):
        made += call(seed)["usage"]["completion_tokens"]
    return {
        "tokens": made,
        "tokens_per_s": round(made / (time.perf_counter() - wall), 2),
        "tokens_per_cpu_s": round(made / max(time.process_time() - cpu, 1e-9), 2),
    }


def main() -> None:
    """Measure and print one JSON line per backend."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights", default="smollm2-135m-instruct-q4_1", help="catalogue id of the model file"
    )
    parser.add_argument("--device", default="cpu", help="device of the hf provider")
    parser.add_argument("--tokens", type=int, default=32, help="length of an answer")
    parser.add_argument("--repeats", type=int, default=2, help="answers per backend")
    args = parser.parse_args()
    decoding = Decoding("d1", 0.7, 0.95, args.tokens)
    free = Constraint("regex", "[a-zA-Z ,.\\n]{4000}")
    hf = LocalHfAdapter("hf", HfOptions(weights=args.weights, device_map=args.device, batch_wait_ms=0))
    try:
        report("hf", "unconstrained", lambda seed: hf.generate(PROMPT, decoding, seed), args)
        for name in ("outlines_json", "guidance_cfg", "lmql_program"):
            backend = CONSTRAINTS.get(name)()
            if backend.missing() is not None:
                print(json.dumps({"engine": "hf", "backend": name, "missing": backend.missing()}), flush=True)
                continue
            report("hf", name, steered(backend, hf, decoding, free), args)
    finally:
        hf.close()
    native = LlamaCppAdapter("llamacpp", LlamaCppOptions(weights=args.weights, workers=1))
    try:
        report("llamacpp", "unconstrained", lambda seed: native.generate(PROMPT, decoding, seed), args)
        report("llamacpp", "native", steered(CONSTRAINTS.get("native")(), native, decoding, free), args)
    finally:
        native.close()


def steered(backend, adapter, decoding: Decoding, constraint: Constraint):
    """A call under the constraint."""
    return lambda seed: backend.generate_constrained(
        adapter, Request(PROMPT, decoding, seed, constraint), constraint
    )


def report(engine: str, name: str, call, args: argparse.Namespace) -> None:
    """Measure one backend and print its line."""
    measured = speed(call, args.tokens, args.repeats)
    if engine == "llamacpp":
        del measured["tokens_per_cpu_s"]  # another process computes
    print(json.dumps({"engine": engine, "backend": name, **measured}), flush=True)


if __name__ == "__main__":
    main()
