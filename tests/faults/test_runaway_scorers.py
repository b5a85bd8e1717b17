"""What users bring to scoring and what would never end: the run goes on, the answer has an outcome, and it is counted."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from pcsuite._util.workers import close_pool, pool
from pcsuite.cli import main
from pcsuite.config.load import ScorerFile
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.enforced_schema import enforceable_schema
from pcsuite.engines.kept import conforms_whole
from pcsuite.errors import ConfigError, ConstraintUnavailableError, Exit, OutOfTimeError
from pcsuite.evaluation import isolation
from pcsuite.evaluation.assertions import AssertionEvaluator, AssertionOptions
from pcsuite.evaluation.base import Answer, score_answer
from pcsuite.evaluation.isolation import Scoring, scoring_ahead
from pcsuite.evaluation.loose_numbers import loose_numbers
from pcsuite.evaluation.mentions import claimed_choice, claimed_yes_or_no
from pcsuite.evaluation.number import NumberEvaluator, NumberOptions
from pcsuite.evaluation.own_scorer import OwnScorer, OwnScorerOptions
from pcsuite.evaluation.schema_check import schema_error
from pcsuite.evaluation.stated_numbers import read_number
from pcsuite.logging.log import newest_rows
from pcsuite.prompts.compiled import makeup_cues
from pcsuite.runners.verifier_pass import read_verdict
from support.own_task import tickets, write_own_profile

pytestmark = pytest.mark.subprocess
ISSUE = r"^([a-z0-9]+[._]?)+@example\.org$"
NEAR = "averylongnamewithoutanyend" * 40 + "@example.com"
UNREADABLE = r"^(([a-z0-9])+[._]?)+\2@example\.org$"
"""The same with a backreference, which no linear engine reads."""
SCORER = """
import os, time

def score(answer, item):
    if item.id in HANGING and item["queue"] in answer.casefold():
        while True:
            pass
    if item.id in GREEDY:
        return len(bytearray(1 << 33)) > 0
    if item.id in DEADLY:
        os._exit(7)
    if item.id in FAILING:
        raise ValueError("no")
    print("scored", item.id)
    return item["queue"] in answer.casefold()
"""


def scorer(path, *, hanging=(), greedy=(), deadly=(), failing=()):
    sets = {"HANGING": hanging, "GREEDY": greedy, "DEADLY": deadly, "FAILING": failing}
    path.write_text("".join(f"{name} = {set(ids)!r}\n" for name, ids in sets.items()) + SCORER)
    return path


def item(name="t000"):
    return Item(name, "a ticket", {"queue": "billing", "answer": "billing"})


@pytest.mark.parametrize("pattern", [ISSUE, UNREADABLE])
def test_a_pattern_on_a_near_match_is_an_outcome_and_a_loop_goes_on(pattern, monkeypatch):
    monkeypatch.setattr(isolation, "PATTERN_LIMITS", isolation.Limits(0.5, 1 << 32))
    evaluator = AssertionEvaluator(AssertionOptions(**{"assert": [{"not": {"regex": pattern}}]}))

    async def six():
        scoring, started = Scoring(), time.monotonic()
        ticking = asyncio.create_task(asyncio.sleep(0.2))
        rows = asyncio.gather(*(scoring.score(evaluator, item(), Answer(NEAR)) for _ in range(6)))
        await ticking
        waited = time.monotonic() - started
        return await rows, waited

    rows, waited = asyncio.run(six())
    assert waited < 2  # the loop was free
    stopped = [row.metrics.get("scorer_out_of_time") for row in rows]
    if pattern == ISSUE:
        assert (stopped, rows[0].metrics["task_score"]) == ([None] * 6, 1.0)
    else:
        assert (stopped, rows[0].metrics["task_score"]) == ([True] * 6, 0.0)  # though "not" would hold
        assert rows[0].parsed.parse_errors == ["scorer ran out of time: more than 0.5 s"]


def test_patterns_of_schemas_and_extractors_end_too():
    schema = {
        "properties": {"mail": {"type": "string", "pattern": ISSUE}},
        "patternProperties": {"^(x+)+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    started = time.monotonic()
    assert "does not match" in schema_error({"mail": NEAR}, schema)
    assert schema_error({"x" * 9: 1}, schema) is None
    assert "is not of type 'integer'" in schema_error({"xx": "a"}, schema)
    assert "x!' was unexpected" in schema_error({"x" * 60 + "!": 1}, schema)
    evaluator = NumberEvaluator(NumberOptions(answer_extractor=r"^(?:[a-z]+\s?)+= (\d+)$"))
    number = Item("n", "?", {"answer": "4"})
    assert evaluator.evaluate(number, Answer("two and two = 4")).metrics["task_score"] == 1.0
    assert evaluator.evaluate(number, Answer("word " * 80 + "= four")).metrics["task_score"] == 0.0
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {ISSUE: {}}, "unevaluatedProperties": False},
        {"allOf": [{"patternProperties": {ISSUE: {}}}], "unevaluatedProperties": False},
        {
            "$ref": "#/$defs/mails",
            "unevaluatedProperties": False,
            "$defs": {"mails": {"patternProperties": {ISSUE: {}}}},
        },
        {"propertyNames": {"pattern": ISSUE}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "patternProperties": {ISSUE: False},
            "minProperties": 2,
        },
    ],
)
def test_names_of_properties_are_matched_in_time_wherever_a_pattern_stands(schema):
    started = time.monotonic()
    assert schema_error({NEAR: 1}, {"type": "object", **schema}) is not None
    whole = Constraint("json_schema", json.dumps({"type": "object", **schema}))
    assert not conforms_whole(whole, json.dumps({NEAR: 1}))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"mail": {"enum": [NEAR, "a@example.org"], "pattern": ISSUE}}},
        {"properties": {"mail": {"const": NEAR, "not": {"pattern": ISSUE}}}},
        {"properties": {NEAR: {"type": "string"}}, "patternProperties": {ISSUE: {"type": "string"}}},
    ],
)
def test_a_schema_whose_own_words_nearly_match_is_enforced_or_refused_in_time(schema):
    started = time.monotonic()
    whole = {
        "type": "object",
        "additionalProperties": False,
        **schema,
        "required": list(schema["properties"]),
    }
    with suppress(ConstraintUnavailableError):
        enforceable_schema(whole)
    assert time.monotonic() - started < 10


def test_what_tells_an_operator_in_a_prompt_is_matched_in_time():
    cue = OperatorSpec.model_validate({"type": "block", "template": "Be brief.", "cues": [UNREADABLE]})
    with pytest.raises(OutOfTimeError, match="took longer than 2 s"):
        makeup_cues(NEAR, {"BRIEF": cue})


@pytest.mark.parametrize(
    "unit", ["\n", "\n\n", "\n- ", "\r\n", " ", "* ", "> ", '"', "(", "no, ", "A) ", "1. ", "- 1\n"]
)
def test_an_answer_that_repeats_itself_holds_up_no_reader_in_words(unit):
    answer = "x" + unit * (20_000 // len(unit)) + "!"
    started = time.monotonic()
    claimed_yes_or_no(answer)
    claimed_choice(answer, {"A": "river bank", "B": "beach"})
    read_verdict(answer, "stop")
    assert time.monotonic() - started < 10  # of line breaks alone it took minutes


@pytest.mark.parametrize(
    "unit", ["**1** ", "__1__ ", "**not 1** ", "1.", "12 ", "1, ", "= 1 ", "9", "wait, no 1. "]
)
def test_an_answer_that_repeats_a_number_holds_up_no_reader_of_numbers(unit):
    answer = "x " + unit * (40_000 // len(unit)) + "!"
    started = time.process_time()
    read_number(answer)
    loose_numbers(answer)
    assert time.process_time() - started < 8  # of numbers in bold it took half a minute for each


def test_a_function_that_hangs_or_takes_everything_is_an_outcome(tmp_path, capfd):
    path = scorer(tmp_path / "s.py", hanging=["h"], greedy=["g"], deadly=["d"], failing=["f"])
    read = ScorerFile(path, "score", path.read_text())
    evaluator = OwnScorer(read, OwnScorerOptions(time_limit_s=0.5, memory_limit_mb=1024))
    names = ["a", "h", "b", "g", "c", "d", "e", "f"]
    outcomes = {}
    with scoring_ahead() as scoring:
        ahead = {name: scoring.begin(evaluator, item(name), Answer("billing")) for name in names}
        for name, evaluate in ahead.items():
            try:
                evaluation = evaluate()
                outcomes[name] = (evaluation.metrics["task_score"], *evaluation.parsed.parse_errors)
            except ConfigError as error:
                outcomes[name] = error.message
    assert outcomes == {
        **dict.fromkeys("abce", (1.0,)),
        "h": (0.0, "scorer ran out of time: more than 0.5 s"),
        "g": (0.0, "scorer ran out of memory: more than 1024 MB"),
        "d": "the scorer ended its process (status 7)",
        "f": f"{path}:score (line 17) fails on item 'f': ValueError: no",
    }
    one_by_one = [score_answer(evaluator, item(name), Answer("billing")).metrics for name in ("a", "h")]
    assert [metrics["task_score"] for metrics in one_by_one] == [1.0, 0.0]
    assert one_by_one[1]["scorer_out_of_time"] is True
    assert "scored a" not in capfd.readouterr().out  # what it prints is no answer of ours


def test_what_a_copy_of_the_process_returns_is_no_score(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("import os\n\ndef score(answer, item):\n    return os.fork() != 0\n")
    evaluator = OwnScorer(ScorerFile(path, "score", path.read_text()), OwnScorerOptions(time_limit_s=5))
    with scoring_ahead() as scoring:
        ahead = [scoring.begin(evaluator, item(str(number)), Answer("billing")) for number in range(20)]
        assert [evaluate().metrics["task_score"] for evaluate in ahead] == [1.0] * 20


def test_a_run_with_one_hanging_answer_ends_and_says_so(tmp_path, capsys):
    profile = write_own_profile(tmp_path, count=6)
    hanging = ["t001", "t002", "t003"]
    scorer(tmp_path / "my_scorer.py", hanging=hanging)
    tasks = (tmp_path / "tasks.yaml").read_text()
    (tmp_path / "tasks.yaml").write_text(tasks + "    evaluator_options: {time_limit_s: 0.3}\n")
    started = time.monotonic()
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    assert time.monotonic() - started < 30
    rows = newest_rows(tmp_path / "outputs" / "runs" / "own.jsonl")
    assert len(rows) == 12
    stopped = {row.run_id for row in rows if "scorer_out_of_time" in row.metrics}
    queues = dict(
        zip((f"t{number:03d}" for number in range(6)), (queue for _, queue in tickets(6)), strict=True)
    )
    assert stopped == {
        row.run_id
        for row in rows
        if row.task.item_id in hanging and queues[row.task.item_id] in row.generation.text
    }
    count = len(stopped)
    assert count > 0
    assert f"{count} score 0 because their scorer ran out of time or memory" in capsys.readouterr().out
    assert all(not row.errors and row.outcome == "answered" for row in rows)
    assert main(["rescore", "--config", str(profile)]) == Exit.DONE
    assert newest_rows(tmp_path / "outputs" / "runs" / "own.jsonl") == rows
    pytest.importorskip("duckdb")
    assert main(["report", "--no-plots", "--config", str(profile)]) == Exit.DONE
    page = (tmp_path / "outputs" / "reports" / "own" / "index.html").read_text(encoding="utf-8")
    assert f"{count} answers score 0 because their scorer ran out of time or memory" in page


def test_an_interrupt_answers_while_a_scorer_hangs(tmp_path):
    profile = write_own_profile(tmp_path, count=6)
    (tmp_path / "my_scorer.py").write_text(
        "calls = 0\n"
        "def score(answer, item):\n"
        "    global calls\n"
        "    right = item['queue'] in answer.casefold()\n"
        "    calls += right\n"
        "    while right and calls > 1:  # the first is the one that a plan looks at\n"
        "        pass\n"
        "    return right\n"
    )
    tasks = (tmp_path / "tasks.yaml").read_text()
    (tmp_path / "tasks.yaml").write_text(tasks + "    evaluator_options: {time_limit_s: 120}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "pcsuite", "run", "--quiet", "--config", str(profile)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log = tmp_path / "outputs" / "runs" / "own.jsonl"
    for _ in range(300):
        if log.exists():
            break
        time.sleep(0.1)
    time.sleep(1.0)
    try:
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, told
    assert "Traceback" not in told


def test_a_scorer_that_cannot_travel_is_said_and_works(caplog):
    class Local:
        def parse(self, text):
            return text

        def score(self, parsed, truth, extra):
            return parsed == truth["answer"]

    evaluator = OwnScorer.plugged("local", Local(), None, None)
    assert "cannot be ended where it hangs" in caplog.text
    assert evaluator.evaluate(item(), Answer("billing")).metrics["task_score"] == 1.0


def test_workers_are_shared_and_reused(tmp_path):
    close_pool()
    before = pool().starts
    path = scorer(tmp_path / "s.py")
    evaluator = OwnScorer(ScorerFile(path, "score", path.read_text()))
    assert [evaluator.evaluate(item(), Answer("billing")).metrics["task_score"] for _ in range(5)] == [
        1.0
    ] * 5
    assert pool().starts - before == 1
