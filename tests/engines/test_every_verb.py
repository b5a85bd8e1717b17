"""What the profile's limits say holds for every command that asks a model, and so do its progress, Ctrl-C and resume.

One table of commands, one server on loopback, one test for each promise. What a promise means for a command is written in
``docs/how-to/when-things-go-wrong.md``.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import pcsuite.data
from pcsuite.cli import main
from pcsuite.errors import Exit
from pcsuite.integrations.promptbench import search
from support import loopback
from support.ablating import write_inputs
from support.judged import TASK, fill_in
from support.loopback import LoopbackServer
from support.profiles import write_profile

LANES = 2
"""Calls in flight: the server can tell when all of them wait for it."""
SAMPLE = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec" / "wren-cabin"
PROGRESS = re.compile(r"^\d+(/\d+)? (rows|calls), ", re.MULTILINE)


class HoldingServer(LoopbackServer):
    """Answers, refuses a text, fails every call from some number on, or holds calls until all lanes wait and then interrupts us."""

    def __init__(self) -> None:
        super().__init__(answer=lambda body: answer_to(body["messages"][-1]["content"]))
        self.good: int | None = None
        self.refused: str | None = None
        self.hold_from: int | None = None
        self.held = self.waited_out = 0
        self.answered: list[tuple[str, int | None]] = []

    def restart(self) -> None:
        """Forget what was asked, and answer everything."""
        self.good = self.hold_from = None
        self.held = 0
        self.bodies.clear()
        self.answered.clear()

    @property
    def asked(self) -> list[tuple[str, int | None]]:
        return [question_of(body) for body in self.bodies]

    async def _respond(self, request, body):
        number = len(self.bodies)
        if self.hold_from is not None and number >= self.hold_from:
            self.held += 1
            if self.held == LANES:
                os.kill(os.getpid(), signal.SIGINT)
            for _ in range(200):
                await asyncio.sleep(0.1)
                if self.hold_from is None:
                    break
            else:
                self.waited_out += 1
        if self.refused is not None and self.refused in question_of(body)[0]:
            self.faults.append("400")
        elif self.good is not None and number > self.good:
            self.faults.append("503")
        else:
            self.answered.append(question_of(body))
        return await super()._respond(request, body)


def question_of(body) -> tuple[str, int | None]:
    return body["messages"][-1]["content"], body.get("seed")


def answer_to(prompt: str) -> str:
    if "Rubric:" in prompt:
        return '{"verdict": "pass"}'
    if "Reword the text" in prompt:
        return prompt.partition("-----\n")[2].partition("\n-----")[0] + " Thank you."
    if "Write the instruction" in prompt or "Write a variation" in prompt:
        return f"Say what it is, number {len(prompt) % 97}."
    if "Judge an answer" in prompt:
        return '{"contradiction": false, "correct": true}'
    return "Sports"


class StubWorker:
    """PromptBench's place: tries the prompt with more and more words."""

    async def attack(self, request, score):
        tried = {text: await score(text) for text in (request.text + " really" * more for more in range(8))}
        attacked = request.text + " really"
        return {
            "attacked": attacked,
            "attacked_score": tried[attacked],
            "original_score": tried[request.text],
            "queries": len(tried),
            "ranking": "none",
        }

    async def aclose(self):
        """Nothing was started."""


@dataclass(frozen=True)
class Verb:
    """A command that asks a model, and what makes it ask more than 50 times."""

    name: str
    words: Callable[[Path], list[str]]
    before: Callable[[Path], object] = lambda folder: None
    """What is done before, with a server that answers."""
    forget: tuple[str, ...] = ("outputs",)
    """What is removed so that it starts anew, with the response cache as it is."""
    by_log: bool = True
    """Whether what was answered is kept without the response cache."""
    good: int = 0
    """Calls that are answered before the server fails: a search wants a baseline first."""
    times: int = 1
    """How often the same text is asked: replicates and variants differ in their seed alone, which is not sent."""

    def __str__(self) -> str:
        return self.name


def profile_words(folder: Path) -> list[str]:
    return ["--config", str(folder / "profile.yaml")]


def run_before(folder: Path) -> None:
    assert main(["run", "--quiet", *profile_words(folder)]) == Exit.DONE


def judged_before(folder: Path) -> None:
    run_before(folder)
    assert main(["judge", "sample", *profile_words(folder), "--items", "60"]) == Exit.DONE
    fill_in(folder / "outputs" / "runs" / "t.to_label.csv")


def write_evals(folder: Path, documents: int) -> None:
    for number in range(documents):
        place = folder / "evals" / f"e{number:02d}"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLE / "ground_truth.csv", place)
        (place / "document.txt").write_text(f"Document {number}.\n", encoding="utf-8")


def improve_words(folder: Path) -> list[str]:
    return ["improve", str(folder / "evals"), *profile_words(folder), "--model", "m", "--condition", "C0",
            "--iterations", "1"]  # fmt: skip


def ablate_words(folder: Path) -> list[str]:
    return ["ablate", str(folder / "prompt.md"), "--data", str(folder / "tickets.csv"), "--answer", "queue",
            "--model", "m", "--output-dir", str(folder / "outputs"), "--no-trim", "--design", "leave-one-out",
            *profile_words(folder)]  # fmt: skip


def block_words(folder: Path, attack: str, *more: str) -> list[str]:
    return [
        "promptbench",
        *profile_words(folder),
        "--no-tables",
        "--conditions",
        "C1",
        "--attacks",
        attack,
        *more,
    ]


def optimize_words(folder: Path, method: str) -> list[str]:
    return ["optimize", *profile_words(folder), "--task", "agnews_json", "--model", "m", "--method", method,
            "--candidates", "6", "--limit", "12"]  # fmt: skip


WRITER = "integrations.promptbench.paraphrase_model=m"
VERBS = [
    Verb("run", lambda folder: ["run", *profile_words(folder)]),
    Verb("run until decided", lambda folder: ["run", *profile_words(folder), "--until", "decided"]),
    Verb("run-task", lambda folder: ["run-task", "agnews_json", *profile_words(folder)]),
    Verb("verifier-pass", lambda folder: ["verifier-pass", *profile_words(folder)], run_before, times=3),
    Verb("promptbench", lambda folder: block_words(folder, "reorder", "--set", "integrations.promptbench.variants=2")),
    Verb("attack search", lambda folder: block_words(folder, "promptbench:checklist"), by_log=False, good=30),
    Verb(
        "paraphrases",
        lambda folder: block_words(folder, "reorder", "--limit", "1", "--set", "integrations.promptbench.variants=60", "--set", WRITER),
        by_log=False,
        times=60,
    ),
    Verb("judge check", lambda folder: ["judge", "check", *profile_words(folder), "--again", "60",
         "--labels", str(folder / "outputs" / "runs" / "t.to_label.csv")], judged_before, by_log=False),
    Verb("improve", improve_words, forget=("evals/improve",)),
    Verb("optimize blocks", lambda folder: optimize_words(folder, "blocks"), good=24, times=2),
    Verb("optimize ape", lambda folder: optimize_words(folder, "ape"), good=26, times=40),
    Verb("ablate", ablate_words),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _interruptible():
    """A shell has SIGINT ignored in what it starts in the background, and that is handed down to the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def server():
    with HoldingServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch, tmp_path):
    monkeypatch.setattr(search, "environment_python", lambda tool: tmp_path)
    monkeypatch.setattr(search, "PromptBenchWorker", StubWorker)


def ready(verb: Verb, folder: Path, server: HoldingServer, items: int = 8, **limits) -> list[str]:
    """Write the profile, do what comes before the command, then lay ``limits`` over; the command's words.

    ``items`` are those of a condition; questions to a judge and documents are as many as three conditions have.
    """
    model = {"provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url, "model": "m",
             "structured": "none", "timeout_s": 60, "price_in": 1.0, "price_out": 1.0}  # fmt: skip
    judged = verb.name == "judge check"

    def write(**given) -> None:
        path = write_profile(
            folder,
            {"m": model, **({"judge": model} if judged else {})},
            tasks=("advice",) if judged else ("agnews_json",),
            conditions=("C0",) if judged else ("C0", "C1", "C2"),
            regimes=("D0",),
            repro={"max_inflight": LANES},
            limits={
                "max_items_per_task": 3 * items if judged else items,
                "retry": {"max_attempts": 1},
                **given,
            },
            optimization={"dspy": {"replicates": 2}},
            integrations={"promptbench": {"search_items": items, "query_budget": 9, "variants": 1}},
        )
        if judged:
            profile = yaml.safe_load(path.read_text())
            profile["suite"]["tasks_ref"] = "tasks.yaml"
            profile["selection"]["models"] = ["m"]
            path.write_text(yaml.safe_dump(profile, sort_keys=False))

    if judged:
        (folder / "tasks.yaml").write_text(yaml.safe_dump({"version": "1.0", "tasks": {"advice": TASK}}))
        datasets = folder / "cache" / "datasets"
        datasets.mkdir(parents=True, exist_ok=True)
        lines = (
            f'{{"item_id": "q{n}", "input_text": "What of box {n}?", "truth": {{"reference": "Open {n}."}}}}\n'
            for n in range(3 * items)
        )
        (datasets / "advice_test.jsonl").write_text("".join(lines))
    write()
    if verb.name == "improve":
        write_evals(folder, 3 * items)
    elif verb.name == "ablate":
        write_inputs(folder, 16)
    verb.before(folder)
    write(**limits)
    server.restart()
    return verb.words(folder)


def forget(verb: Verb, folder: Path) -> None:
    for name in verb.forget:
        shutil.rmtree(folder / name, ignore_errors=True)
    verb.before(folder)


each = pytest.mark.parametrize("verb", VERBS, ids=str)


@pytest.mark.slow
@each
def test_a_call_is_tried_as_often_as_the_profile_says(verb, tmp_path, server, capsys):
    words = ready(verb, tmp_path, server, 3, retry={"max_attempts": 5, "base_s": 0.0}, stop_on_error_rate=1.0)
    server.good = 0
    assert main([*words, "--no-cache", "--quiet"]) != Exit.DONE
    assert {count % 5 for count in Counter(server.asked).values()} == {0}
    assert max(Counter(server.asked).values()) <= 5 * verb.times
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
@each
def test_too_many_failures_stop_it(verb, tmp_path, server, capsys):
    words = ready(verb, tmp_path, server, 20, stop_on_error_rate=0.1)
    server.good = verb.good
    assert main([*words, "--no-cache", "--quiet"]) == Exit.STOPPED
    told = capsys.readouterr().err
    assert "(limits.stop_on_error_rate is 0.1); the last error was: " in told
    assert "finished rows are kept" in told
    # The rate is judged from 50 calls on; of a search, after the candidate that was being measured (24 rows).
    # Each lane may have sent another call before it was cancelled.
    assert 50 <= len(server.bodies) <= 50 + (26 if verb.name.startswith("optimize") else 2 * LANES)


@pytest.mark.slow
@each
@pytest.mark.parametrize("limit", ["max_tokens_overall", "max_cost_usd"])
def test_a_budget_is_never_passed(verb, tmp_path, server, capsys, limit, monkeypatch):
    monkeypatch.setattr(loopback, "PROMPT_TOKENS", 250)
    most = 5_000
    words = ready(verb, tmp_path, server, **{limit: most if limit == "max_tokens_overall" else most / 1e6})
    status = main([*words, "--no-cache", "--quiet"])
    assert status == Exit.STOPPED
    told = capsys.readouterr()
    assert "budget is used up" in told.err + told.out
    asked = len(server.bodies) * (250 + loopback.COMPLETION_TOKENS)
    # What the run before it spent counts too: nothing is left for a pass over its answers, or a check of its judge.
    assert asked == 0 if verb.name in ("verifier-pass", "judge check") else 0 < asked <= most


@pytest.mark.slow
@each
def test_what_was_answered_before_comes_from_the_cache(verb, tmp_path, server, capsys):
    words = ready(verb, tmp_path, server, 3)
    assert main([*words, "--quiet"]) == Exit.DONE
    first = Counter(server.asked)
    assert max(first.values()) <= verb.times
    forget(verb, tmp_path)
    server.restart()
    assert main([*words, "--quiet"]) == Exit.DONE
    assert server.bodies == []
    forget(verb, tmp_path)
    server.restart()
    assert main([*words, "--quiet", "--no-cache"]) == Exit.DONE
    assert set(server.asked) == set(first)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@each
def test_progress_is_a_bar_on_a_terminal_lines_elsewhere_and_nothing_where_it_is_not_wanted(
    verb, tmp_path, server, capsys, monkeypatch
):
    words = ready(verb, tmp_path, server, 3)
    capsys.readouterr()
    assert main([*words]) == Exit.DONE
    told = capsys.readouterr().err
    assert re.search(r"^0(/\d+)? (rows|calls), running$", told, re.MULTILINE)
    assert len(PROGRESS.findall(told)) >= 2
    forget(verb, tmp_path)
    capsys.readouterr()
    assert main([*words, "--quiet"]) == Exit.DONE
    assert capsys.readouterr().err == ""
    forget(verb, tmp_path)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main([*words]) == Exit.DONE
    shown = re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", terminal.getvalue())
    assert re.search(r"running ━+ +\d+/(\d+|\?) ", shown)
    assert not PROGRESS.search(shown)


@pytest.mark.slow
@each
def test_an_interrupt_keeps_what_is_done_and_the_same_command_goes_on(verb, tmp_path, server, capsys):
    words = [*ready(verb, tmp_path, server), "--quiet"]
    if verb.by_log:
        words.append("--no-cache")
    server.hold_from = 13
    capsys.readouterr()
    assert main(words) == Exit.INTERRUPTED
    said = "interrupted; finished work is kept, the same command goes on from here"
    assert capsys.readouterr().err == f"pcsuite: {said}\n"
    answered = Counter(server.answered)
    assert (answered.total(), server.held, server.waited_out) == (12, LANES, 0)
    server.restart()
    assert main(words) == Exit.DONE
    assert max((answered + Counter(server.asked)).values()) <= verb.times
    server.restart()
    assert main(words) == Exit.DONE
    assert server.bodies == []


def test_starting_anew_is_not_going_on(tmp_path, server, capsys):
    words = ready(VERBS[0], tmp_path, server)
    server.hold_from = 5
    assert main([*words, "--quiet", "--overwrite"]) == Exit.INTERRUPTED
    assert "the same command without --overwrite goes on from here" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attack search", "paraphrases", "judge check", "improve"])
def test_what_was_not_answered_is_no_result_and_is_asked_again(name, tmp_path, server, capsys):
    """Fewer calls than the error rate is judged by: all fail, the command says so, and the next time all is done."""
    verb = next(verb for verb in VERBS if verb.name == name)
    words = [*ready(verb, tmp_path, server, 6), "--quiet"]
    words += ["--set", "integrations.promptbench.variants=3"] if name == "paraphrases" else []
    server.good = 2
    assert main(words) == Exit.FAILED_ROWS
    told = capsys.readouterr()
    assert "not answered" in told.err + told.out or "was answered" in told.err or "not written" in told.err
    assert "not applicable" not in told.out
    assert not (tmp_path / "outputs" / "runs" / "t.attacks.json").exists()
    answered = Counter(server.answered)
    assert answered.total() == 2
    server.restart()
    assert main(words) == Exit.DONE
    assert max((answered + Counter(server.asked)).values()) <= verb.times
    assert (tmp_path / "outputs" / "runs" / "t.attacks.json").exists() == (
        name in ("attack search", "paraphrases")
    )


@pytest.mark.slow
def test_a_prompt_that_fails_by_itself_does_not_end_a_search(tmp_path, server, capsys):
    verb = next(verb for verb in VERBS if verb.name == "optimize blocks")
    words = ready(verb, tmp_path, server)
    server.refused = "You are a news editor"
    assert main([*words, "--no-cache", "--set", "optimization.dspy.operators=[ROLE, GOAL]"]) == Exit.DONE
    assert "crashed: model 'm': HTTP 400" in capsys.readouterr().err
