"""What a run has spent, over all its starts: written before it is spent, counted on, and never below the truth."""

import asyncio
import json

import pytest

from pcsuite.config.profile import LimitsSection
from pcsuite.engines.limits import Budget, with_estimated_usage
from pcsuite.errors import BudgetExceededError, EngineError
from pcsuite.logging import ledger
from pcsuite.logging.ledger import Ledger, counting, last_start_ended, read_spent
from pcsuite.logging.segments import Beside, run_names


def answer(tokens):
    return {
        "text": "x",
        "finish_reason": "stop",
        "latency_ms": 1.0,
        "usage": {"prompt_tokens": tokens - 1, "completion_tokens": 1, "total_tokens": tokens},
    }


@pytest.fixture
def log(tmp_path):
    (tmp_path / "runs").mkdir()
    log = tmp_path / "runs" / "r.jsonl"
    log.write_bytes(b"")
    return log


def spend(log, limits, calls):
    """One start of so many calls of 100 tokens (150 at worst); returns what it came to."""
    budget = Budget(limits.max_tokens_overall)

    async def ask():
        for _ in range(calls):
            budget.settle(await budget.reserve(100, 50), answer(100))

    with counting(log, budget, limits):
        try:
            asyncio.run(ask())
        except BudgetExceededError as error:
            return error.message
    return ""


def test_starts_count_on_and_the_limit_holds_over_all(log):
    limits = LimitsSection(max_tokens_overall=1000)
    assert spend(log, limits, 4) == ""
    assert spend(log, limits, 3) == ""
    assert read_spent(log).tokens == 700
    assert spend(log, limits, 9) == (
        "the budget is used up: 900 of 1000 tokens (limits.max_tokens_overall) spent, 700 of them by earlier starts,"
        " the next call may take 150 tokens"
    )
    assert "900 of 1000" in spend(log, limits, 1)
    spent = read_spent(log)
    assert [(line.start, line.tokens, line.calls, line.ended) for line in spent.starts] == [
        (1, 400, 4, True),
        (2, 300, 3, True),
        (3, 200, 2, True),
        (4, 0, 0, True),
    ]
    assert spent.words() == "900 tokens, 9 calls in 4 starts"


def test_a_start_that_is_killed_has_spent_what_it_had_under_way(log):
    budget = Budget(1000)

    async def killed():
        budget.settle(await budget.reserve(100, 50), answer(100))
        await asyncio.gather(*(budget.reserve(100, 50) for _ in range(2)))

    with counting(log, budget, LimitsSection(max_tokens_overall=1000)):
        asyncio.run(killed())
        at_the_kill = Beside.SPENT.of(log).read_bytes()
    Beside.SPENT.of(log).write_bytes(at_the_kill + b'{"start":1,"to')
    spent = read_spent(log)
    assert (spent.tokens, spent.damaged) == (404, 1)  # a hundredth ahead
    assert spent.words() == "404 tokens, 1 calls in 1 start, 1 of them not ended in order"
    assert "900 of 1000" not in spend(log, LimitsSection(max_tokens_overall=1000), 5)  # 404 + 500 fit
    assert read_spent(log).tokens == 904


def test_a_failed_call_counts_and_altered_lines_do_not(log, caplog):
    budget = Budget()

    async def fail():
        budget.settle_failure(await budget.reserve(100, 50), EngineError("lost", retryable=True))
        budget.settle(await budget.reserve(100, 50), answer(100))

    with counting(log, budget, LimitsSection()):
        asyncio.run(fail())
    (line,) = read_spent(log).starts
    assert (line.tokens, line.calls, line.failed) == (250, 2, 1)
    path = Beside.SPENT.of(log)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b'"tokens":250', b'"tokens":  1'))
    spent = read_spent(log)
    assert spent.damaged == 1
    assert spent.tokens >= 250  # the line before it covered what was under way
    spend(log, LimitsSection(max_tokens_overall=5000), 1)
    assert "1 lines are not as written" in caplog.text
    assert "limits.max_tokens_overall was not set and is 5,000: earlier starts have spent" in caplog.text


def test_a_long_start_writes_few_lines_and_each_is_ahead_of_what_is_spent(log):
    spend(log, LimitsSection(), 3000)
    lines = [json.loads(line) for line in Beside.SPENT.of(log).read_bytes().splitlines()]
    assert len(lines) < 900
    assert lines[-1]["tokens"] == 300_000
    assert all(line["tokens"] + line["under_way_tokens"] >= line["tokens"] + 150 for line in lines[:-1])


def test_a_ledger_is_no_run(log, tmp_path):
    spend(log, LimitsSection(), 1)
    assert run_names(tmp_path) == ["r"]


def test_a_server_that_says_nothing_was_used_is_not_believed():
    silent = answer(5) | {
        "text": "eight by",
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
    with_estimated_usage("a prompt of 24 bytes ...", None, silent)
    assert silent["usage"] == {"prompt_tokens": 6, "completion_tokens": 2, "total_tokens": 8}
    assert silent["usage_estimated"] is True
    counted = answer(5)
    with_estimated_usage("a prompt", None, counted)
    assert counted == answer(5)
    stored = answer(5) | {
        "cache_hit": True,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
    with_estimated_usage("a prompt", None, stored)
    assert stored["usage"]["total_tokens"] == 0
    budget = Budget(1000)
    reservation = asyncio.run(budget.reserve(100, 50))
    budget.settle(reservation, silent)
    assert (budget.spent_tokens, budget.estimated) == (8, 1)


def test_the_last_line_says_whether_a_run_has_ended(tmp_path):
    log = tmp_path / "r.jsonl"
    assert not last_start_ended(log)
    first = Ledger(log, Budget())
    first.claim(10, 0.0)
    assert not last_start_ended(log)
    first.close()
    assert last_start_ended(log)
    again = Ledger(log, Budget())
    again.claim(20, 0.0)
    assert not last_start_ended(log)
    again.close()
    with Beside.SPENT.of(log).open("ab") as stream:
        stream.write(b'{"start":3,"ended":tr')  # torn: nobody knows
    assert not last_start_ended(log)


def test_two_starts_at_once_are_both_counted(log):
    """A check of the judge beside the run that it checks."""
    limits = LimitsSection()
    outer = Budget()

    async def ask(budget):
        budget.settle(await budget.reserve(100, 50), answer(100))

    with counting(log, outer, limits):
        asyncio.run(ask(outer))
        assert spend(log, limits, 3) == ""
        asyncio.run(ask(outer))
    assert read_spent(log).tokens == 500


def paying(log, *steps):
    """A start with a limit of $1 of calls that say what they cost: ``None`` failed, a number was said, ``...`` is
    under way at the end of the start's life; what the ledger held then is left behind."""
    limits = LimitsSection(max_cost_usd=1.0)
    budget = Budget(max_cost_usd=1.0)

    async def ask():
        for step in steps:
            reservation = await budget.reserve(10, 10, own_cost=True)
            if step is None:
                budget.settle_failure(reservation, EngineError("exit status 1"))
            elif step is not ...:
                budget.settle(reservation, answer(5) | {"cost_usd": step})

    with counting(log, budget, limits):
        try:
            asyncio.run(ask())
        finally:
            at_the_kill = Beside.SPENT.of(log).read_bytes()
    Beside.SPENT.of(log).write_bytes(at_the_kill)


def test_killed_starts_whose_calls_never_said_what_they_cost_are_paid_once_it_is_known(log):
    paying(log, ...)
    paying(log, None, ...)
    spent = read_spent(log)
    assert (spent.cost_usd, spent.unpriced) == (0.0, 3)
    assert "3 of unknown cost" in spent.words()
    paying(log, 0.2, ...)
    spent = read_spent(log)
    assert (spent.cost_usd, spent.unpriced) == (pytest.approx(1.0), 0)  # 3 × 0.2, 0.2 and 0.2 under way
    with pytest.raises(BudgetExceededError, match="of it by earlier starts"):
        paying(log, ...)


def test_the_time_of_a_start_that_waits_for_one_long_call_is_written(log, monkeypatch):
    monkeypatch.setattr(ledger, "_TIME_EVERY_S", 0.05)

    async def ask():
        await budget.reserve(10, 10)
        await asyncio.sleep(0.6)

    budget = Budget()
    with counting(log, budget, LimitsSection(run_hours=1.0)):
        asyncio.run(ask())
        assert 0.4 < read_spent(log).seconds < 5.0  # as a kill would leave it
    assert [line.ended for line in read_spent(log).starts] == [True]
