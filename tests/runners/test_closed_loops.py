"""C7 and C4R over a scripted server: every way a loop can go, with figures worked out by hand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.efficiency import unsupported_table
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.engines.adapters.base import derived_seed
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import EngineError
from pcsuite.logging.log import iter_rows, newest_rows
from pcsuite.programs.react import read_turn
from pcsuite.runners.plan import build_plan
from pcsuite.runners.rescore import rescore
from pcsuite.runners.run_suite import run_suite
from support.loop_profiles import loopback_profile
from support.loopback import COMPLETION_TOKENS, PROMPT_TOKENS, LoopbackServer, completion
from support.profiles import write_profile

FIRST_SHOWN = re.compile(r'^1\. (\{"page".*?\})', re.MULTILINE)


def prompt_of(body: dict) -> str:
    return body["messages"][-1]["content"]


def verdict(label: str, evidence: list[dict]) -> str:
    return json.dumps({"label": label, "evidence": evidence})


class LoopScript:
    """Plays one part for each claim, by its place in the plan."""

    def __init__(self, claims: list[str]) -> None:
        self.claims = claims
        self.turns: Counter[int] = Counter()

    def __call__(self, body: dict) -> str:
        prompt = prompt_of(body)
        place = next(place for place, claim in enumerate(self.claims) if f"Claim:\n{claim}" in prompt)
        self.turns[place] += 1
        turn = self.turns[place]
        parts = (self.good, self.malformed, self.endless, self.at_once, self.never_retrieved, self.mended)
        return parts[place](self.claims[place], prompt, turn)

    @staticmethod
    def good(claim: str, prompt: str, turn: int) -> str:
        if turn == 1:
            return f"I look it up.\nAction: search[{claim}]"
        shown = FIRST_SHOWN.search(prompt)
        assert shown is not None
        return f"Final: {verdict('SUPPORTS', [json.loads(shown[1])])}"

    @staticmethod
    def malformed(claim: str, prompt: str, turn: int) -> str:
        return "Action: search[" + claim

    @staticmethod
    def endless(claim: str, prompt: str, turn: int) -> str:
        return f"Action: search[{claim} {turn}]"

    @staticmethod
    def at_once(claim: str, prompt: str, turn: int) -> str:
        return f"Final: {verdict('NOT_ENOUGH_INFO', [])}"

    @staticmethod
    def never_retrieved(claim: str, prompt: str, turn: int) -> str:
        if turn == 1:
            return f"Action: search[{claim}]"
        shown = FIRST_SHOWN.search(prompt)
        assert shown is not None
        return f"Final: {verdict('REFUTES', [json.loads(shown[1]), {'page': 'Atlantis', 'sentence': 0}])}"

    @staticmethod
    def mended(claim: str, prompt: str, turn: int) -> str:
        return ["Let me see.", "Action: lookup[x]", verdict("SUPPORTS", [])][turn - 1]


def claims_of(folder: Path) -> list[str]:
    plan = build_plan(load_suite(loopback_profile(folder / "plan", "http://127.0.0.1:9/v1")))
    return [item.input_text for item in plan.tasks["fever_json"].items]


def test_every_way_a_loop_can_go(tmp_path):
    claims = claims_of(tmp_path)
    with LoopbackServer(answer=LoopScript(claims)) as server:
        suite = load_suite(loopback_profile(tmp_path, server.base_url))
        summary = run_suite(suite, quiet=True)
        asked = len(server.bodies)
    rows = {row.task.item_id: row for row in newest_rows(summary.paths.log)}
    items = build_plan(suite).tasks["fever_json"].items
    by_place = [rows[item.item_id] for item in items]
    ends = [(r.generation.finish_reason, r.generation.react_steps, r.generation.tool_calls) for r in by_place]
    assert ends == [
        ("stop", 2, 1),
        ("loop", 3, 0),
        ("step_limit", 5, 4),
        ("stop", 1, 0),
        ("stop", 2, 1),
        ("stop", 3, 0),
    ]
    assert asked == 2 + 3 + 5 + 1 + 2 + 3
    assert [r.metrics["unsupported_rate"] for r in by_place] == [0.0, None, None, None, 0.5, None]
    assert [r.metrics["cited"] for r in by_place] == [1, 0, 0, 0, 2, 0]
    assert [r.metrics["answered"] for r in by_place] == [True, False, False, True, True, True]
    assert [r.metrics["program_final_marked"] for r in by_place] == [True, None, None, True, True, False]
    gold = [item.truth["label"] for item in items]
    said = ["SUPPORTS", None, None, "NOT_ENOUGH_INFO", "REFUTES", "SUPPORTS"]
    assert [r.metrics["task_score"] for r in by_place] == [
        float(a == b) for a, b in zip(said, gold, strict=True)
    ]
    assert all(row.metrics["retrieval"] is True for row in by_place)
    for row in by_place:
        steps = row.generation.react_steps
        assert row.generation.usage.prompt_tokens == steps * PROMPT_TOKENS
        assert row.generation.usage.completion_tokens == steps * COMPLETION_TOKENS
        assert sum(entry["type"] == "model" for entry in row.generation.transcript) == steps
    unchanged = rescore(suite, dry_run=True)
    assert (unchanged.rows, unchanged.changed) == (6, 0)


@pytest.mark.slow
def test_equal_answers_are_rated_the_same_with_retrieval_and_without(tmp_path):
    def answer(body):
        return "Final: " * ("Action:" in prompt_of(body)) + verdict(
            "SUPPORTS", [{"page": "Lorvik", "sentence": 0}]
        )

    with LoopbackServer(answer=answer) as server:
        path = loopback_profile(tmp_path, server.base_url, selection={"conditions": ["C3", "C7"]})
        summary = run_suite(load_suite(path), quiet=True)
    seen = {
        (
            row.condition.id,
            row.metrics["retrieval"],
            row.metrics["unsupported_rate"],
            row.metrics["unretrieved_rate"],
        )
        for row in newest_rows(summary.paths.log)
    }
    # Lorvik is a page of the corpus and has that sentence; that the loop was never shown it is said apart.
    assert seen == {("C3", False, 0.0, None), ("C7", True, 0.0, 1.0)}
    with RunTables([summary.paths.log], tmp_path / "tables") as tables:
        shown = unsupported_table(item_scores(tables)).records()
        rows = [(row["condition"], row["retrieval"], row["unsupported_rate"]) for row in shown]
    assert rows == [("C3", False, 0.0), ("C7", True, 0.0)]


class RetryScript:
    """Wrong in a known way: of every three claims, one is well-formed at once, one at the first retry, one never."""

    def __init__(self, claims: list[str]) -> None:
        self.claims = claims
        self.turns: Counter[int] = Counter()
        self.limits: list[int] = []

    def __call__(self, body: dict) -> str:
        prompt = prompt_of(body)
        place = next(place for place, claim in enumerate(self.claims) if f"Claim:\n{claim}" in prompt)
        self.turns[place] += 1
        self.limits.append(body["max_tokens"])
        good = verdict("NOT_ENOUGH_INFO", [])
        return ([good], ["no", good], ["no", "no", '{"label": 3}'])[place % 3][self.turns[place] - 1]


def test_retry_figures_by_hand(tmp_path):
    claims = claims_of(tmp_path)
    script = RetryScript(claims)
    with LoopbackServer(answer=script) as server:
        path = loopback_profile(tmp_path, server.base_url, selection={"conditions": ["C4", "C4R"]})
        suite = load_suite(path)
        summary = run_suite(suite, quiet=True)
    place_of = {item.item_id: n for n, item in enumerate(build_plan(suite).tasks["fever_json"].items)}
    rows = newest_rows(summary.paths.log)
    retried = sorted(
        (row for row in rows if row.condition.id == "C4R"), key=lambda r: place_of[r.task.item_id]
    )
    plain = sorted((row for row in rows if row.condition.id == "C4"), key=lambda r: place_of[r.task.item_id])
    # C4 asks once: 2 of 6 are valid. C4R: 1 + 2 + 3 attempts for each three claims, 4 of 6 valid.
    assert [row.parsed.schema_valid for row in plain] == [True, False, False] * 2
    assert [row.parsed.schema_valid for row in retried] == [True, True, False] * 2
    assert [row.metrics["program_attempts"] for row in retried] == [1, 2, 3] * 2
    assert [row.metrics["program_valid"] for row in retried] == [True, True, False] * 2
    assert [row.metrics["program_spent_tokens"] for row in retried] == [7, 14, 21] * 2
    assert {row.metrics["program_budget_tokens"] for row in retried} == {260}
    assert [row.generation.usage.total_tokens for row in retried] == [18, 36, 54] * 2
    # The first attempt of C4R is C4's own call, from the cache: 6 calls, then 1 + 2 retries for each three.
    assert len(script.limits) == 6 + 2 * (1 + 2)
    assert sorted(script.limits) == [246] * 2 + [253] * 4 + [260] * 6
    assert all("retrieval" in row.metrics and row.metrics["retrieval"] is False for row in rows)
    assert rescore(suite, dry_run=True).changed == 0


def test_steps_of_replicates_never_share_a_seed():
    steps = ["", *(f"react-{n}" for n in range(1, 6)), "retry-1", "retry-2"]
    seeds = [derived_seed(seed, step) for seed in range(200) for step in steps]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_other_pages_are_another_run(tmp_path):
    path = loopback_profile(tmp_path, "http://127.0.0.1:9/v1", selection={"conditions": ["C3", "C7"]})
    before = {unit.cell.condition.id: unit.run_id for unit in build_plan(load_suite(path)).units("scripted")}
    pages = tmp_path / "cache" / "datasets" / "fever_pages.jsonl"
    pages.parent.mkdir(parents=True)
    pages.write_text('{"page": "A", "sentences": ["one"]}\n')
    after = {unit.cell.condition.id: unit.run_id for unit in build_plan(load_suite(path)).units("scripted")}
    assert before["C3"] == after["C3"]
    assert before["C7"] != after["C7"]


def test_a_search_that_fails_is_a_failed_row_not_an_empty_result(tmp_path):
    retrieval = {
        "enabled_for_tasks": ["fever_json"],
        "backend": "api_retriever",
        "api_url": "http://127.0.0.1:9/s",
    }
    with LoopbackServer(answer=lambda body: "Action: search[x]") as server:
        path = loopback_profile(
            tmp_path,
            server.base_url,
            integrations={"retrieval": retrieval},
            limits={"max_items_per_task": 2},
        )
        suite = load_suite(path)
        summary = run_suite(suite, quiet=True, policy=RetryPolicy(max_attempts=2, base_s=0.01))
    assert summary.tally.failed == 2
    for row in newest_rows(summary.paths.log):
        assert row.generation is None
        assert "search endpoint http://127.0.0.1:9/s: cannot reach the server" in row.errors[0]


def test_a_constraint_on_a_loop_is_not_applicable(tmp_path):
    (tmp_path / "conditions.yaml").write_text(
        'version: "1.0"\nconditions: {mine: [SCHEMA, REACT_LOOP, TYPE_CONSTRAIN]}\n'
    )
    path = loopback_profile(
        tmp_path,
        "http://127.0.0.1:9/v1",
        options={"structured": "response_format"},
        suite={"conditions_ref": "conditions.yaml"},
        selection={"conditions": ["mine"]},
    )
    plan = build_plan(load_suite(path))
    assert plan.cells == ()
    assert (
        plan.not_applicable[0].reason
        == "a loop that marks its answer cannot run under a hard constraint on its output"
    )


class NativeCaller(LoopbackServer):
    """A server that calls tools in its own way before it answers."""

    async def _respond(self, request, body):
        if "\nObservation:\n" in prompt_of(body):
            return await super()._respond(request, body)
        answer = completion("I look.", finish_reason="tool_calls")
        arguments = json.dumps({"query": 'the "capital" [of]\nKarvenia'})
        function = {"name": "search", "arguments": arguments}
        answer["choices"][0]["message"]["tool_calls"] = [
            {"id": "1", "type": "function", "function": function}
        ]
        return web.json_response(answer)


def test_native_tool_calls_take_the_same_way(tmp_path):
    with NativeCaller(answer=lambda body: f"Final: {verdict('SUPPORTS', [])}") as server:
        path = loopback_profile(
            tmp_path, server.base_url, options={"tools": True}, limits={"max_items_per_task": 1}
        )
        (row,) = newest_rows(run_suite(load_suite(path), quiet=True).paths.log)
    assert (row.generation.finish_reason, row.generation.tool_calls) == ("stop", 1)
    assert row.generation.transcript[0]["text"] == "I look.\nAction: search[\"the 'capital' [of] Karvenia\"]"
    assert row.generation.transcript[1]["query"] == "the 'capital' [of] Karvenia"
    assert ["Karvenia", 1] in [passage[:2] for passage in row.generation.transcript[1]["passages"]]
    (offered,) = server.bodies[0]["tools"]
    assert offered["function"]["name"] == "search"
    assert offered["function"]["parameters"]["required"] == ["query"]


class Gate:
    """Three turns a claim; stops answering at a chosen call, so that the caller dies in the middle of a loop."""

    def __init__(self, claims: list[str], stop_at: int) -> None:
        self.claims = claims
        self.asked: list[int] = []
        self.stop_at = stop_at
        self.reached = threading.Event()
        self.killed = threading.Event()

    def __call__(self, body: dict) -> str:
        prompt = prompt_of(body)
        place = next(place for place, claim in enumerate(self.claims) if f"Claim:\n{claim}" in prompt)
        self.asked.append(place)
        if len(self.asked) == self.stop_at:
            self.reached.set()
            self.killed.wait(60)
        turns = prompt.count("Observation:\n")
        if turns < 2:
            return f"Action: search[{self.claims[place]} {turns}]"
        return f"Final: {verdict('SUPPORTS', [])}"


def test_a_run_killed_in_the_middle_of_a_loop_repeats_no_finished_item(tmp_path):
    claims = claims_of(tmp_path)
    gate = Gate(claims, stop_at=8)  # the second turn of the third claim
    with LoopbackServer(answer=gate) as server:
        path = loopback_profile(tmp_path, server.base_url)
        command = [sys.executable, "-m", "pcsuite.cli", "run", "--config", str(path), "--quiet"]
        source = Path(__file__).resolve().parents[2] / "src"
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(source)})
        assert gate.reached.wait(60)
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
        gate.killed.set()
        suite = load_suite(path)
        log = Path(suite.profile.run.output_dir) / "runs" / "loop.jsonl"
        finished = [row.run_id for row in iter_rows(log)]
        assert len(finished) == 2
        assert gate.asked == [0, 0, 0, 1, 1, 1, 2, 2]
        summary = run_suite(suite, quiet=True)
    assert (summary.tally.done, summary.skipped) == (4, 2)
    assert gate.asked[8:] == [place for place in (2, 3, 4, 5) for _ in range(3)]
    rows = list(iter_rows(log))
    assert len(rows) == len({row.run_id for row in rows}) == 6
    assert [row.run_id for row in rows][:2] == finished
    assert {(row.generation.finish_reason, row.generation.react_steps) for row in rows} == {("stop", 3)}


def last_turn(row):
    return [step for step in row.generation.transcript if step["type"] == "model"][-1]


@pytest.mark.model
def test_c7_with_the_embedded_model(tmp_path):
    path = loopback_profile(
        tmp_path,
        "http://127.0.0.1:9/v1",
        suite={"models_ref": str(bundled_configs() / "models_v1.yaml")},
        selection={"models": ["smollm2-135m"]},
        limits={"max_items_per_task": 2},
    )
    try:
        summary = run_suite(load_suite(path), quiet=True)
    except EngineError as error:
        pytest.skip(f"the embedded model is not here: {error}")
    rows = newest_rows(summary.paths.log)
    assert len(rows) == 2
    for row in rows:
        assert row.errors == []
        assert row.generation.finish_reason in ("stop", "step_limit", "loop", "length")
        assert 1 <= row.generation.react_steps <= 5
        # A turn that is cut off before any answer leaves an empty one; a cut answer keeps what there is of it.
        begun = read_turn(last_turn(row)["text"], frozenset({"search"})).final
        kept = begun or "" if row.generation.finish_reason == "length" else ""
        assert row.generation.text if row.generation.finish_reason == "stop" else row.generation.text == kept
        assert row.generation.usage.prompt_tokens < 5 * (4096 - 260)
        assert row.metrics["retrieval"] is True


GROUNDED = ("fever_json", "nq_open", "truthfulqa_gen")


def test_c7_with_and_without_retrieval_on_every_grounded_task(tmp_path):
    """The loop alone needs neither pages nor permission; with search both tasks and profile must provide for it."""
    path = write_profile(
        tmp_path, tasks=(*GROUNDED, "agnews_json"), conditions=("C3", "C7", "C7L"), regimes=("d0_greedy",), items=3,
        integrations={"retrieval": {"enabled_for_tasks": list(GROUNDED)}},
    )  # fmt: skip
    plan = build_plan(load_suite(path))
    ran = {(cell.task.id, cell.condition.id) for cell in plan.cells}
    assert {(task, condition) for task in GROUNDED for condition in ("C3", "C7", "C7L")} <= ran
    skipped = {(note.task_id, note.condition_id): note.reason for note in plan.not_applicable}
    assert skipped["agnews_json", "C7"] == "the task has no corpus to search"
    assert skipped["agnews_json", "C7L"].startswith("the loop without search is the control of the loop that")
    assert len(skipped) == 2
    run_suite(load_suite(path), quiet=True)
    rows = [row for row in newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl") if row.task.id in GROUNDED]
    assert not [row.errors for row in rows if row.errors]
    by_condition = {(row.condition.id, row.metrics["retrieval"]) for row in rows}
    assert by_condition == {("C3", False), ("C7", True), ("C7L", False)}
    turns = {row.generation.react_steps for row in rows if row.condition.id == "C7L"}
    assert turns <= {2, 3}  # a draft and one revision at least: a first draft is never the answer


def test_retrieval_that_is_not_enabled_leaves_the_loop_alone(tmp_path):
    path = write_profile(tmp_path, tasks=("truthfulqa_gen",), conditions=("C3", "C7", "C7L"), items=2)
    plan = build_plan(load_suite(path))
    assert {cell.condition.id for cell in plan.cells} == {"C3", "C7L"}
    (note,) = plan.not_applicable
    assert "C7L is the loop without it" in note.reason


def test_bundled_pages_are_not_searched_for_exported_items(tmp_path):
    datasets = tmp_path / "cache" / "datasets"
    datasets.mkdir(parents=True)
    item = {"item_id": "q1", "input_text": "who wrote emma?", "truth": {"answers": ["Jane Austen"]}}
    (datasets / "nq_open_dev.jsonl").write_text(json.dumps(item) + "\n", encoding="utf-8")
    path = write_profile(
        tmp_path, tasks=("nq_open",), conditions=("C3", "C7"), integrations={"retrieval": {"enabled_for_tasks": ["nq_open"]}}
    )  # fmt: skip
    (note,) = build_plan(load_suite(path)).not_applicable
    assert "the only pages are the bundled sample's: pcsuite index build --dataset nq_open" in note.reason
    page = {"page": "Emma", "sentences": ["Emma is a novel by Jane Austen."]}
    (datasets / "fever_pages.jsonl").write_text(json.dumps(page) + "\n", encoding="utf-8")
    assert not build_plan(load_suite(path)).not_applicable
