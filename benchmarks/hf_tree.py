"""What it saves to read prompts that begin alike as a tree: rows a second of the hf provider on a CPU, in bfloat16.

    python benchmarks/hf_tree.py                                    # Qwen2.5-Coder-0.5B, bundled items
    python benchmarks/hf_tree.py --model qwen2.5-coder-1.5b-instruct-q4_k_m --items 12 --batches 48,96

The same prompts are answered both ways by one model in one process: "padded" in batches of prompts of about the same
length, "tree" in batches of prompts that begin alike, of which what is shared is read once. A batch of each size goes
first and is not counted. "prompt_tokens_read" is what went through the model; "same" is how many answers are those of
the first way: in bfloat16 an answer depends on its batch, so neither is more right than the other.
"""

from __future__ import annotations

import argparse
import json
import time

from pcsuite.config.load import load_suite
from pcsuite.engines.adapters import _hf_tree, local_hf
from pcsuite.engines.adapters._hf_tree import reads_trees
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.runners.plan import build_plan

TASKS = "agnews_json,trec,svamp,csqa_json"
CONDITIONS = "C0,C1,C2,C3,C4,C5"


def prompts_of(tasks: str, conditions: str, items: int) -> list[tuple[str, Decoding]]:
    """Every prompt of a grid over bundled items, in the order in which a run asks them."""
    suite = load_suite(
        "quickstart",
        {
            "selection.tasks": tasks.split(","),
            "selection.conditions": conditions.split(","),
            "limits.max_items_per_task": items,
            "limits.per_task_max_items": {},
            "run.cache_dir": "no-such-folder",
        },
    )
    plan = build_plan(suite)
    # The same prompts are asked of every model and in every regime.
    asked = {
        cell.tree(item).assemble(): Decoding("D0", 0.0, 1.0, cell.task.spec.max_tokens)
        for cell in plan.cells
        for item in cell.task.items
    }
    return list(asked.items())


def measure(
    adapter: LocalHfAdapter, prompts: list[tuple[str, Decoding]]
) -> tuple[list[str], float, int, int]:
    """The answers, the seconds they took, the prompt tokens that were read for them and those they have."""
    read = []
    usual_tree, usual_eager = _hf_tree.read_tree, local_hf.EagerSteps

    def tree(model, grown):
        read.append(len(grown.tokens))
        return usual_tree(model, grown)

    def eager(model, rows, *rest):
        read.append(max(map(len, rows)) * len(set(rows)))
        return usual_eager(model, rows, *rest)

    _hf_tree.read_tree, local_hf.EagerSteps = tree, eager
    try:
        started = time.perf_counter()
        waiting = [adapter.submit(prompt, decoding, 0) for prompt, decoding in prompts]
        answers = [future.result() for future in waiting]
        seconds = time.perf_counter() - started
    finally:
        _hf_tree.read_tree, local_hf.EagerSteps = usual_tree, usual_eager
    whole = sum(answer["usage"]["prompt_tokens"] for answer in answers)
    return [answer["text"] for answer in answers], seconds, sum(read), whole


def main() -> None:
    """Measure both ways with each batch size and print a JSON line of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", default="qwen2.5-coder-0.5b-instruct-q4_k_m", help="weights of the catalogue"
    )
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--conditions", default=CONDITIONS)
    parser.add_argument("--items", type=int, default=16, help="items of each task")
    parser.add_argument("--batches", default="24,96,192", help="rows of a batch")
    args = parser.parse_args()
    prompts = prompts_of(args.tasks, args.conditions, args.items)
    loaded, first = None, None
    for size in (int(text) for text in args.batches.split(",")):
        for way in ("padded", "tree"):
            options = HfOptions(weights=args.model, dtype="bfloat16", batch_size=size, batch_wait_ms=200)
            local_hf.reads_trees = reads_trees if way == "tree" else lambda model: False
            adapter = LocalHfAdapter("m", options, loaded=loaded)
            loaded = adapter.loaded
            try:
                for future in [
                    adapter.submit(prompt, Decoding("D0", 0.0, 1.0, 2), 0) for prompt, _ in prompts[:size]
                ]:
                    future.result()
                texts, seconds, read, whole = measure(adapter, prompts)
            finally:
                adapter.close()
            first = first or texts
            line = {
                "way": way,
                "batch": size,
                "rows": len(texts),
                "rows_per_s": round(len(texts) / seconds, 2),
                "prompt_tokens": whole,
                "prompt_tokens_read": read,
                "same": sum(one == other for one, other in zip(texts, first, strict=True)),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
