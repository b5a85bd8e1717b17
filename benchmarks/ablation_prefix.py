"""How much of the prompts of an ablation a server's prefix cache finds, by the order of calls.

The calls of a real plan are replayed through a prefix cache that keeps the last so many prompts (1 is a llama.cpp slot;
servers with automatic prefix caching keep hundreds) and reuses whole blocks of 64 characters, about 16 tokens. Counted
is the share of characters that need not be read again.

    python benchmarks/ablation_prefix.py
"""

from __future__ import annotations

import tempfile
from collections import deque

from pcsuite.ablation.request import AblationRequest, bundled_example
from pcsuite.ablation.study import prepare
from pcsuite.runners.plan import ITEMS_TOGETHER, build_plan

BLOCK = 64
CAPACITIES = (1, 4, 16, 256)


def hits(prompts, capacity):
    """Share of characters at the beginning of prompts that one of the kept prompts begins with too."""
    kept = deque(maxlen=capacity)
    found = total = 0
    for prompt in prompts:
        best = 0
        for other in kept:
            while best + BLOCK <= len(prompt) and other[: best + BLOCK] == prompt[: best + BLOCK]:
                best += BLOCK
        found += best
        total += len(prompt)
        if prompt in kept:
            kept.remove(prompt)
        kept.append(prompt)
    return found / total


def main():
    prompt, settings = bundled_example()
    with tempfile.TemporaryDirectory() as folder:
        study = prepare(AblationRequest(prompt, **settings | {"model": "simulated", "output_dir": folder}))
        listed = [arm.id for arm in study.design.arms]
        plan = build_plan(study.write(study.design.arms))
        (task,) = plan.tasks.values()
        cells = {cell.condition.id: cell for cell in plan.cells}
        sent = {
            (name, item.item_id): cell.tree(item).assemble()
            for name, cell in cells.items()
            for item in task.items
        }
        ordered = [cell.condition.id for cell in plan.cells]
        groups = [task.items[at : at + ITEMS_TOGETHER] for at in range(0, len(task.items), ITEMS_TOGETHER)]
        orders = {
            f"arms by shared beginning, {ITEMS_TOGETHER} items together (ours)": [
                (arm, item.item_id) for group in groups for arm in ordered for item in group
            ],
            "arms by shared beginning, item by item": [
                (arm, item.item_id) for item in task.items for arm in ordered
            ],
            "arms as the design lists them, item by item": [
                (arm, item.item_id) for item in task.items for arm in listed
            ],
            "one arm after the other (an early end leaves nothing paired)": [
                (arm, item.item_id) for arm in listed for item in task.items
            ],
        }
        print("| order of calls | " + " | ".join(f"{count} prompts kept" for count in CAPACITIES) + " |")
        print("|---|" + "---|" * len(CAPACITIES))
        for name, order in orders.items():
            shares = [hits([sent[key] for key in order], capacity) for capacity in CAPACITIES]
            print(f"| {name} | " + " | ".join(f"{share:.2f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
