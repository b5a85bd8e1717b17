"""Processor seconds of an answer on the embedded engine: its beginning read anew, put back, or read with the whole.

    python benchmarks/beginning_cost.py ~/.cache/pcsuite/models/1d9614638d18/*.gguf

One engine with one thread in this process, so that a busy machine tells in the clock and less here. Nine paragraphs of
the prompt of ``beginnings.py`` (its arms without one of them), eight tokens an answer. The arms take turns, and so do
the ways. The last line is what an ablation of so many rows and arms takes by both ways where two workers read each
beginning.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from statistics import mean

from beginnings import PARAGRAPHS, letters

from pcsuite.engines.adapters import _llamacpp_worker

ARMS, TURNS, ITEMS = 3, 3, 3


def main() -> None:
    """Measure, and print a line for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", help="a GGUF file")
    parser.add_argument("--rows", type=int, default=456)
    parser.add_argument("--arms", type=int, default=19)
    args = parser.parse_args()
    log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115  lives as long as the engine
    out = os.fdopen(os.dup(1), "w")
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log.fileno(), stream.fileno())  # the engine writes there, and reads it back
    engine = _llamacpp_worker._Engine(args.path, 4096, 1, 1, True, 32)
    paragraphs, items = PARAGRAPHS[:9], letters(ITEMS * TURNS)
    seconds = defaultdict(list)

    def ask(way: str, beginning: str, item: str) -> None:
        message = {"role": "user", "content": beginning + item}
        body = {
            "messages": [message],
            "max_tokens": 8,
            "temperature": 0.0,
            "top_k": 0,
            "min_p": 0.0,
            "seed": 0,
        }
        if way != "whole":
            body["beginning"] = [0, len(beginning), len(beginning)]
        started = time.process_time()
        answer = engine.generate(body, True)
        seconds[way].append(time.process_time() - started)
        if ("cut" in answer) != (way != "whole"):
            raise RuntimeError(f"not read as asked: {way}, {answer.get('cut')}")

    ask("whole", "Good ", "morning.")
    seconds.clear()
    for turn in range(TURNS):
        for arm in range(ARMS):
            beginning = "\n\n".join(paragraphs[:arm] + paragraphs[arm + 1 :]) + "\n\nLetter: "
            for number in range(ITEMS):
                item = items[turn * ITEMS + number]
                ask("put back" if turn or number else "read anew", beginning, item)
            ask("whole", beginning, items[turn * ITEMS])
    for way, values in seconds.items():
        print(
            f"{way}: {mean(values):.3f} s, {min(values):.3f} to {max(values):.3f} ({len(values)})", file=out
        )
    first, further, whole = (mean(seconds[way]) for way in ("read anew", "put back", "whole"))
    once = 2 * args.arms * first + (args.rows - 2 * args.arms) * further
    print(
        f"{args.rows} rows of {args.arms} arms: {args.rows * whole:.0f} s whole, {once:.0f} s now",
        file=out,
        flush=True,
    )
    os._exit(0)  # the engine's threads


if __name__ == "__main__":
    main()
