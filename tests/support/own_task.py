"""A task of a user's own for tests: 40 tickets, a prompt, a scoring function in a file, a profile on a simulated model."""

import json
import random
from pathlib import Path

import yaml

QUEUES = ("billing", "delivery", "account")
SCORER = '''"""Right where the queue is named; words are counted beside it."""


def score(answer, item):
    return {"score": item["queue"] in answer.casefold(), "words": len(answer.split())}
'''
PROMPT = """# Role
You are a clerk.

# Rules
Answer with the name of the queue.

# Tone
Be kind to everyone.

# Ticket
{{ text }}
"""
TASK = {
    "title": "Tickets",
    "answer": "text",
    "dataset": "tickets",
    "instruction": "Name the queue: billing, delivery or account.",
    "role": "a clerk",
    "goal": "Send every ticket to its queue.",
    "abstain": "Say that you do not know.",
    "max_tokens": 20,
    "evaluator": "my_scorer.py:score",
}
MODEL = {
    "provider": "simulated",
    "family": "simulated",
    "size": "7B",
    "base_accuracy": 0.6,
    "operator_effects": {"ROLE": 1.5},
}


def tickets(count: int = 40, seed: int = 23) -> list[tuple[str, str]]:
    """Texts and queues."""
    rng = random.Random(seed)
    return [(f"ticket {i} about {(queue := rng.choice(QUEUES))}", queue) for i in range(count)]


def write_own_table(folder: Path, count: int = 40) -> Path:
    """The tickets as a table, with the prompt and the scorer beside it."""
    path = folder / "tickets.csv"
    lines = ["text,queue", *(f"{text},{queue}" for text, queue in tickets(count))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "my_scorer.py").write_text(SCORER, encoding="utf-8")
    (folder / "prompt.md").write_text(PROMPT, encoding="utf-8")
    return path


def write_own_profile(folder: Path, count: int = 40, **sections) -> Path:
    """A profile with the scorer beside it: two conditions, greedy and sampled twice; items in a cache of its own."""
    (folder / "my_scorer.py").write_text(SCORER, encoding="utf-8")
    datasets = folder / "cache" / "datasets"
    datasets.mkdir(parents=True, exist_ok=True)
    items = [
        {"item_id": f"t{i:03d}", "input_text": text, "truth": {"queue": queue, "answer": queue}}
        for i, (text, queue) in enumerate(tickets(count))
    ]
    (datasets / "tickets_test.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    profile = {
        "version": "1.0",
        "run": {"name": "own", "output_dir": str(folder / "outputs"), "cache_dir": str(folder / "cache")},
        "repro": {"seeds": {"d0_greedy": [0], "d1_sampled": [1, 2]}, "seeds_per_task": {"default": 2}},
        "suite": {"tasks_ref": "tasks.yaml", "models_ref": "models.yaml"},
        "selection": {
            "tasks": ["tickets"],
            "models": ["sim"],
            "conditions": ["C0", "C1"],
            "decoding_regimes": ["d0_greedy"],
        },
        "length_control": "off",
    }
    for name, values in sections.items():
        profile[name] = profile.get(name, {}) | values
    for name, content in (("tasks", {"tickets": TASK}), ("models", {"sim": MODEL})):
        text = yaml.safe_dump({"version": "1.0", name: content}, sort_keys=False)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile, sort_keys=False), encoding="utf-8")
    return path
