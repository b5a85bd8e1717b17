"""The same two jobs with promptfoo, inspect_ai, DSPy and this suite, on one server whose answers are known.

    python benchmarks/side_by_side.py --promptfoo node_modules/.bin/promptfoo --inspect .venv-peers/bin/python
    python benchmarks/side_by_side.py                      # the suite, and DSPy where it is installed

60 tickets, each to be sent to one of three queues. The server plays the model: without the list of queues it gets every
third ticket wrong (20 of 60), told never to commit itself every tenth (6 of 60), and any rewording flips a few answers
at random (a hash of prompt and ticket, 2 in 60 on average). So the truth of each edit is known:

* ``hurts``: the edit adds the sentence that costs 6 of 60;
* ``same``: the edit rewords the role, which changes nothing but those flips;
* ``parts``: no edit; which of the prompt's four paragraphs are needed? Only the list of queues is. The others have no
  such job: with promptfoo a user writes one more prompt for each paragraph, and that is what is counted.

For each tool: lines that a user writes (prompts and the table left out, which are the same for all), commands typed,
calls paid, seconds, and what the tool says at the end. A tool that is not there is left out, and said to be.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from loopback_server import make_app

QUEUES = ("billing", "login", "refund")
OLD = """You are a clerk at a support desk.

Queues: billing, login, refund.

Be kind to everyone.

Answer with one word, the queue.

Ticket: {{ text }}
"""
EDITS = {
    "hurts": OLD.replace("Be kind to everyone.", "Be kind to everyone. Never commit yourself."),
    "same": OLD.replace("You are a clerk", "You work as a clerk"),
}
ROWS = 60


@dataclass
class Outcome:
    """What one tool took for one edit, and what it said."""

    tool: str
    edit: str
    commands: int
    lines: int
    calls: int
    seconds: float
    said: str


def reply(text: str) -> str:
    """What the model answers to a prompt with a ticket in it."""
    ticket = re.search(r"Ticket (\d+) about (\w+)", text)
    if ticket is None:
        return "?"
    number, queue = int(ticket[1]), ticket[2]
    wrong = ("billing, login, refund" not in text and number % 3 == 0) or (
        "Never commit yourself" in text and number % 10 == 1
    )
    # What is left of the text without the ticket is the prompt: a rewording is another one.
    prompt = re.sub(r"Ticket \d+ about \w+[^\n]*", "", text)
    flips = int(hashlib.sha256(f"{prompt}\x1f{number}".encode()).hexdigest(), 16) % 30 == 0
    return QUEUES[(QUEUES.index(queue) + 1) % 3] if wrong or flips else queue


class Server:
    """The server on a thread, with a count of its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.port = 0
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait(30)

    async def _serve(self) -> None:
        def counted(text: str) -> str:
            self.calls += 1
            return reply(text)

        runner = web.AppRunner(make_app(0.01, counted), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await asyncio.Event().wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


PROMPTFOO = """prompts: [file://old.md, file://new.md]
providers:
  - id: openai:chat:m
    config: {apiBaseUrl: URL, apiKey: none, temperature: 0}
defaultTest:
  assert:
    - {type: equals, value: "{{queue}}"}
tests: file://tickets.csv
"""
INSPECT = """from inspect_ai import Task, task
from inspect_ai.dataset import csv_dataset, FieldSpec
from inspect_ai.scorer import exact
from inspect_ai.solver import generate, prompt_template


@task
def triage(prompt: str):
    text = open(prompt).read().replace("{{ text }}", "{prompt}")
    return Task(
        dataset=csv_dataset("tickets.csv", FieldSpec(input="text", target="queue")),
        solver=[prompt_template(text), generate()],
        scorer=exact(),
    )
"""
DSPY = """import csv
import dspy

dspy.configure(lm=dspy.LM("openai/m", api_base="URL", api_key="none", temperature=0, cache=False))
rows = [dspy.Example(**row).with_inputs("text") for row in csv.DictReader(open("tickets.csv"))]


class Triage(dspy.Module):
    def __init__(self, prompt):
        self.prompt = open(prompt).read()

    def forward(self, text):
        (answer,) = dspy.settings.lm(self.prompt.replace("{{ text }}", text))
        return dspy.Prediction(queue=answer["text"] if isinstance(answer, dict) else answer)


def right(example, prediction, trace=None):
    return example.queue == prediction.queue.strip()


for prompt in ("old.md", "new.md"):
    score = dspy.Evaluate(devset=rows, metric=right, num_threads=4, display_progress=False)(Triage(prompt))
    print(prompt, float(score.score if hasattr(score, "score") else score))
"""


def written(text: str) -> int:
    """Lines of a file that a user writes, empty ones left out."""
    return sum(bool(line.strip()) for line in text.splitlines())


def run(words: list[str], folder: Path, **environment: str) -> str:
    """What a command prints, both ways."""
    ran = subprocess.run(
        words, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=600
    )
    return ran.stdout + ran.stderr


def promptfoo(program: Path, folder: Path, url: str) -> tuple[int, int, str]:
    (folder / "promptfooconfig.yaml").write_text(PROMPTFOO.replace("URL", url))
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    quiet |= {"PROMPTFOO_CONFIG_DIR": str(folder / "state"), "PROMPTFOO_DISABLE_SHARING": "1"}
    out = folder / "results.json"
    said = run([str(program), "eval", "--no-cache", "--no-table", "-o", str(out)], folder, **quiet)
    if not out.is_file():
        return 1, written(PROMPTFOO), said.strip().splitlines()[-1]
    prompts = json.loads(out.read_text())["results"]["prompts"]
    counts = [prompt["metrics"]["testPassCount"] for prompt in prompts]
    return (
        1,
        written(PROMPTFOO),
        f"{counts[0]} and {counts[1]} of {ROWS} passed; no statement on the difference",
    )


def inspect_ai(python: Path, folder: Path, url: str) -> tuple[int, int, str]:
    (folder / "triage.py").write_text(INSPECT)
    figures = []
    for prompt in ("old.md", "new.md"):
        words = [
            str(python.parent / "inspect"),
            "eval",
            "triage.py",
            "-T",
            f"prompt={prompt}",
            "--display",
            "plain",
        ]
        said = run(
            [*words, "--model", "openai-api/bench/m"], folder, BENCH_API_KEY="none", BENCH_BASE_URL=url,
            INSPECT_LOG_DIR=str(folder / "logs"),
        )  # fmt: skip
        figure = {name: re.findall(rf"(?m)^{name}\s+([\d.]+)", said) for name in ("mean", "stderr")}
        if not all(figure.values()):
            return 2, written(INSPECT), said.strip().splitlines()[-1]
        figures.append(f"{figure['mean'][-1]} (standard error {figure['stderr'][-1]})")
    return 2, written(INSPECT), f"{figures[0]} and {figures[1]}; no statement on the difference"


def dspy(folder: Path, url: str) -> tuple[int, int, str]:
    (folder / "triage_dspy.py").write_text(DSPY.replace("URL", url))
    said = run([sys.executable, "triage_dspy.py"], folder)
    scores = re.findall(r"(?:old|new)\.md ([\d.]+)", said)
    if len(scores) != 2:
        return 1, written(DSPY), said.strip().splitlines()[-1]
    return 1, written(DSPY), f"{scores[0]} % and {scores[1]} %; no statement on the difference"


def pcsuite(folder: Path, url: str) -> tuple[int, int, str]:
    words = ["check", "new.md", "--data", "tickets.csv", "--baseline", "old.md", "--model", "openai/m"]
    said = run(
        [sys.executable, "-m", "pcsuite", *words, "--base-url", url, "-q"],
        folder,
        PCS_ANSWERS_DIR=str(folder / "c"),
    )
    told = [line for line in said.splitlines() if line.startswith(("new.md: ", "broken: ", "fixed: "))]
    counts = [re.sub(r" items?: .*", "", line) for line in told[:-1]]
    return 1, 0, "; ".join([told[-1].removeprefix("new.md: "), *counts]) if told else said[-300:]


def promptfoo_parts(program: Path, folder: Path, url: str) -> tuple[int, int, str]:
    paragraphs = OLD.strip().split("\n\n")
    names = []
    for number in range(len(paragraphs) - 1):
        left = [paragraph for place, paragraph in enumerate(paragraphs) if place != number]
        (folder / f"without{number + 1}.md").write_text("\n\n".join(left) + "\n")
        names.append(f"file://without{number + 1}.md")
    config = PROMPTFOO.replace("URL", url).replace("file://new.md", ", ".join(names))
    (folder / "promptfooconfig.yaml").write_text(config)
    lines = written(config) + sum(
        written((folder / name.removeprefix("file://")).read_text()) for name in names
    )
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    out = folder / "results.json"
    run([str(program), "eval", "--no-cache", "--no-table", "-o", str(out)], folder, **quiet,
        PROMPTFOO_CONFIG_DIR=str(folder / "state"))  # fmt: skip
    prompts = json.loads(out.read_text())["results"]["prompts"]
    counts = ", ".join(str(prompt["metrics"]["testPassCount"]) for prompt in prompts)
    return (
        1,
        lines,
        f"passed of {ROWS}: {counts} (whole, then without each paragraph); no statement on a difference",
    )


def pcsuite_parts(folder: Path, url: str) -> tuple[int, int, str]:
    words = [
        "ablate",
        "old.md",
        "--data",
        "tickets.csv",
        "--margin",
        "0.1",
        "--model",
        "openai/m",
        "--base-url",
        url,
    ]
    run([sys.executable, "-m", "pcsuite", *words, "-q"], folder, PCS_ANSWERS_DIR=str(folder / "c"))
    with (folder / "outputs" / "ablations" / "old" / "blocks.csv").open(encoding="utf-8") as stream:
        blocks = list(csv.DictReader(stream))
    verdicts = "; ".join(f"{block['block']}: {block['verdict']}" for block in blocks)
    dropped = [block["block"] for block in blocks if block["dropped"].lower() in ("true", "1")]
    return 1, 0, f"{verdicts}; dropped and confirmed: {', '.join(dropped) or 'nothing'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--promptfoo", type=Path, help="its executable")
    parser.add_argument(
        "--inspect", type=Path, help="the interpreter of an environment with inspect_ai and openai"
    )
    parser.add_argument("--only", choices=(*EDITS, "parts"), help="one of the jobs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    server = Server()
    tools = {"pcsuite": pcsuite}
    try:
        import dspy as installed  # noqa: F401

        tools["dspy"] = dspy
    except ImportError:
        print("dspy is not installed here: left out")
    for name, program, job in (
        ("promptfoo", args.promptfoo, promptfoo),
        ("inspect_ai", args.inspect, inspect_ai),
    ):
        if program is None:
            print(f"{name}: not named, left out")
        else:
            place = program.absolute()  # an interpreter's link is not resolved: its environment would be lost
            tools[name] = lambda folder, url, job=job, place=place: job(place, folder, url)
    jobs = {(edit, tool): job for edit in EDITS for tool, job in tools.items()}
    jobs["parts", "pcsuite"] = pcsuite_parts
    if args.promptfoo is not None:
        jobs["parts", "promptfoo"] = lambda folder, url: promptfoo_parts(
            args.promptfoo.absolute(), folder, url
        )
    outcomes = []
    for (edit, tool), job in jobs.items():
        if args.only not in (None, edit):
            continue
        new = EDITS.get(edit, OLD)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows = [f"Ticket {n} about {QUEUES[n % 3]},{QUEUES[n % 3]}" for n in range(1, ROWS + 1)]
            (folder / "tickets.csv").write_text("\n".join(["text,queue", *rows]) + "\n")
            (folder / "old.md").write_text(OLD)
            (folder / "new.md").write_text(new)
            before, start = server.calls, time.monotonic()
            commands, lines, said = job(folder, server.url)
            seconds = time.monotonic() - start
            outcomes.append(
                Outcome(tool, edit, commands, lines, server.calls - before, round(seconds, 1), said)
            )
            print(f"{edit:<6} {tool:<11} {commands} commands, {lines} lines, {outcomes[-1].calls} calls,"
                  f" {seconds:.1f} s: {said}", flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1) + "\n")


if __name__ == "__main__":
    main()
