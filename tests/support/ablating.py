"""A small prompt and table for tests of ablations, with a model whose true effects are known."""

import io
import random
from pathlib import Path

from rich.console import Console

from pcsuite.ablation import AblationRequest

PROMPT = """# Role
You are a clerk.

# Rules
Answer with the name of the queue.

# Tone
Be kind to everyone.

# Noise
Never answer directly.

# Ticket
{{ text }}
"""
QUEUES = ("billing", "delivery", "account")
EFFECTS = {"rules": 2.0, "noise": -1.6}


def write_inputs(folder: Path, items: int = 80, prompt: str = PROMPT) -> tuple[Path, Path]:
    """The prompt's file and the table's."""
    rng = random.Random(18)
    path, table = folder / "prompt.md", folder / "tickets.csv"
    path.write_bytes(prompt.encode())
    lines = [f"ticket {i} about {(queue := rng.choice(QUEUES))},{queue}" for i in range(items)]
    table.write_text("\n".join(["text,queue", *lines]) + "\n", encoding="utf-8")
    return path, table


def request_in(folder: Path, items: int = 80, prompt: str = PROMPT, **changes) -> AblationRequest:
    """A request on the simulated model that writes below ``folder``."""
    path, table = write_inputs(folder, items, prompt)
    settings = {
        "answer": "queue",
        "model": "simulated",
        "effects": EFFECTS if prompt is PROMPT else {},
        "margin": 0.1,
        "output_dir": str(folder / "outputs"),
        "config": str(_profile(folder)),
    }
    return AblationRequest(path, str(table), **(settings | changes))


def words_of(request: AblationRequest, *more: str) -> list[str]:
    """The command that makes the same request, but for the effects."""
    words = [
        "ablate",
        str(request.prompt),
        "--data",
        request.data,
        "--answer",
        "queue",
        "--model",
        request.model,
    ]
    words += ["--config", request.config, "--output-dir", request.output_dir]
    return [*words, "--margin", f"{request.margin:g}", "--quiet", *more]


def _profile(folder: Path) -> Path:
    """A profile whose caches lie below ``folder``."""
    path = folder / "base.yaml"
    path.write_text(
        f"version: '1.0'\nrun: {{name: base, cache_dir: '{folder / 'cache'}'}}\n"
        "selection: {tasks: [agnews_json], models: [smollm2-135m], conditions: [C0], decoding_regimes: [D0]}\n",
        encoding="utf-8",
    )
    return path


def printed(show, *values) -> str:
    """What a printer of the suite writes into a wide terminal."""
    console = Console(file=io.StringIO(), width=400)
    show(*values, console)
    return console.file.getvalue()
