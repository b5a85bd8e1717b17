"""How often a target answers every item: decided by the full prompt and its A/A twin, never by an effect."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pcsuite as pcs
from pcsuite.ablation import AblationRequest, ablate, preview
from pcsuite.ablation.ablate import AblationRun
from pcsuite.ablation.arms import AGAIN, FULL
from pcsuite.ablation.document import document
from pcsuite.ablation.forecast_picture import print_preview
from pcsuite.ablation.rearranged import notices, rearrange
from pcsuite.ablation.replicates import NOTE, decided
from pcsuite.ablation.sentences import noise_sentence
from pcsuite.ablation.study import prepare
from pcsuite.ablation.verdicts import NOISE_ALPHA, judge_blocks, judge_noise
from pcsuite.config.load import load_suite
from pcsuite.config.targets import target_entries
from pcsuite.contrasts import ArmScores
from pcsuite.errors import ConfigError, PromptError
from pcsuite.logging.log import iter_newest_rows, iter_rows
from pcsuite.runners.plan import Scope, build_plan
from support.ablating import printed
from support.targets import RULES, program, write_study

WAVERS = """
import hashlib

def answer(prompt, item, seed):
    draw = int(hashlib.sha256(f"{prompt}|{item['text']}|{seed}".encode()).hexdigest()[:8], 16) / 2**32
    known = "Answer with the queue." in prompt
    return {"output": item["text"].split()[-1] if draw < (0.8 if known else 0.2) else "no idea", "cost_usd": 0.01}
"""
STEADY = WAVERS.replace("{prompt}|", "").replace("|{seed}", "")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with instructions, 30 tickets, a target whose answers vary, and one that says the same again."""
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, items=30)
    program(tmp_path, "wavers.py", WAVERS)
    program(tmp_path, "steady.py", STEADY)
    return tmp_path


def request_of(target="wavers.py:answer", **changes):
    settings = {"answer": "queue", "design": "leave-one-out", "trim": False, "margin": 0.4, "name": "study",
                "cache_dir": "cache"}  # fmt: skip
    entries = target_entries([f"agent={target}"], {})
    asked = {"targets": entries, "model": "target/agent"} | settings | changes
    return AblationRequest(Path("AGENTS.md"), "tickets.csv", **asked)


def answers_of(log, model="target/agent"):
    """By arm: how many items have how many answers."""
    counts = Counter(
        (row.condition.id, row.task.item_id) for row in iter_newest_rows(log) if row.model.id == model
    )
    arms = {arm for arm, _ in counts}
    return {arm: Counter(n for (of, _), n in counts.items() if of == arm) for arm in arms}


def test_a_target_whose_answers_vary_answers_every_item_twice(folder):
    told = []
    result = ablate(request_of(), quiet=True, tell=told.append)
    arms = answers_of(result.log)
    assert set(arms) >= {"full", "again", "-tone", "-rules", "-noise"}
    assert all(counts == {2: 30} for counts in arms.values())
    rows = list(iter_rows(result.log))
    assert {row.seed for row in rows} == {0, 1}
    assert {row.decoding.id for row in rows} == {"D0"}
    # The pair comes first, once; then the second answers and the other arms.
    assert {(row.condition.id, row.seed) for row in rows[:40]} == {("full", 0), ("again", 0)}
    scores = {(row.condition.id, row.task.item_id): row.metrics["task_score"] for row in rows[:40]}
    differ = sum(scores["full", item] != scores["again", item] for arm, item in scores if arm == "full")
    assert differ > 0
    says = (
        f"Answers vary: the full prompt asked again scored otherwise on {differ} of 20 items, so target/agent answers"
        " every item twice (--seeds 1 for once)."
    )
    assert says in noise_sentence(result)
    assert document(result)["again"]["answers"] == 2
    (found,) = told
    assert (found.measured, found.replicates) == (1, 2)
    assert found.rows_left == 5 * 30 * 2 - 40
    # The profile beside the log asks the same rows.
    assert pcs.run(folder / "outputs/ablations/study/profile.yaml", quiet=True).summary.tally.done == 0


@pytest.mark.parametrize("more", [{}, {"budget_usd": 100.0}, {"noise_first": 6}])
def test_a_target_that_scores_the_same_answers_once(folder, more):
    result = ablate(request_of("steady.py:answer", **more), quiet=True)
    assert all(counts == {1: 30} for counts in answers_of(result.log).values())
    assert "scored the same on all" in noise_sentence(result)
    assert document(result)["again"]["answers"] == 1


@pytest.mark.parametrize("seeds", [1, 3])
def test_seeds_that_are_named_are_kept_under_a_greedy_regime_too(folder, seeds):
    result = ablate(request_of(seeds=seeds), quiet=True)
    assert all(counts == {seeds: 30} for counts in answers_of(result.log).values())
    assert not (result.study.folder / NOTE).exists()
    assert not [row for row in iter_rows(result.log) if row.seed not in range(seeds)]


@pytest.mark.parametrize(
    "more", [{"regime": "D0"}, {"regime": "D1"}, {"noise_first": 0}, {"controls": False}]
)
def test_a_regime_that_is_named_or_no_noise_keeps_one_answer(folder, more):
    result = ablate(request_of(**more), quiet=True)
    assert all(counts == {1: 30} for counts in answers_of(result.log).values())


def test_more_answers_are_added_to_those_that_are_there(folder):
    ablate(request_of(seeds=1), quiet=True)
    result = ablate(request_of(seeds=3), quiet=True)
    assert result.asked == 2 * 5 * 30 + 30 * sum(arm.id.startswith("~") for arm in result.arms) * 2
    assert all(counts == {3: 30} for counts in answers_of(result.log).values())


class Killed(BaseException):
    """A kill, as far as one process can play it."""


@pytest.mark.parametrize("where", ["_decide_replicates", "note_replicates", "_follow"])
@pytest.mark.parametrize("more", [{}, {"until": "decided"}])
def test_a_kill_around_the_decision_changes_nothing(folder, monkeypatch, where, more):
    whole = ablate(request_of(name="whole", **more), quiet=True)

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patched:
        if where == "note_replicates":
            calls = []
            real = ablate.__globals__[where]
            patched.setitem(
                ablate.__globals__,
                where,
                lambda *args: calls.append(1) or (real if len(calls) < 2 else kill)(*args),
            )
        else:
            patched.setattr(AblationRun, where, kill)
        with pytest.raises(Killed):
            ablate(request_of(**more), quiet=True)
    assert json.loads((folder / "outputs/ablations/study" / NOTE).read_text())["answers"] is None
    result = ablate(request_of(**more), quiet=True)
    assert result.study.replicates == whole.study.replicates
    assert answers_of(result.log) == answers_of(whole.log)
    ids = [row.run_id for row in iter_rows(result.log)]
    assert len(ids) == len(set(ids))
    assert [entry.effect.value for entry in result.verdicts] == [
        entry.effect.value for entry in whole.verdicts
    ]


def test_an_ablation_begun_without_a_decision_goes_on_as_it_was(folder):
    first = ablate(
        request_of(seeds=1), quiet=True
    )  # as versions before wrote it: rows, and no note of answers
    rows = len(list(iter_rows(first.log)))
    again = ablate(request_of(), quiet=True)
    assert len(list(iter_rows(again.log))) == rows
    assert "Several answers an item lessen that: --seeds 3." in noise_sentence(again)
    anew = ablate(request_of(overwrite=True), quiet=True)
    assert all(counts == {2: 30} for counts in answers_of(anew.log).values())
    goes_on = ablate(request_of(), quiet=True)
    assert goes_on.asked == 0
    assert goes_on.study.replicates == anew.study.replicates


def test_a_budget_that_two_answers_would_overrun_keeps_one_and_says_so(folder):
    # Five arms of 30 items at a cent: 1.50 once, 3.00 twice.
    told = []
    result = ablate(request_of(budget_usd=2.4), quiet=True, tell=told.append)
    assert not result.stopped
    assert all(counts == {1: 30} for counts in answers_of(result.log).values())
    # The ledger counts a little ahead of what is spent.
    words = r"but two answers an item take about .* and \$2\.\d\d more and the budget has \$\d\.\d\d left, so target/agent"
    assert re.search(words + " answers every item once", noise_sentence(result))
    assert told[0].affordable
    assert (told[0].rows_left, told[0].replicates) == (110, 1)
    # It stays so where the budget grows: an ablation goes on as it was begun.
    assert ablate(request_of(budget_usd=50.0), quiet=True).asked == 0
    plenty = ablate(request_of(budget_usd=50.0, name="plenty"), quiet=True)
    assert all(counts == {2: 30} for counts in answers_of(plenty.log).values())


def test_of_a_model_and_a_target_the_target_answers_twice(folder):
    (folder / "AGENTS.md").write_text(RULES + "\n# Ticket\n\n{{ text }}\n")
    entries = target_entries(["agent=wavers.py:answer"], {})
    models = ("simulated", "target/agent")
    result = ablate(request_of(targets=entries, model=models[0], models=models), quiet=True)
    by_model = {name: answers_of(result.log, name) for name in models}
    for arm in ("full", "again", "-tone", "-rules", "-noise"):
        assert by_model["simulated"][arm] == {1: 30}
        assert by_model["target/agent"][arm] == {2: 30}
    of_model, of_target = result.each
    assert "answers every item" not in noise_sentence(of_model)
    assert "target/agent answers every item twice" in noise_sentence(of_target)
    assert ablate(request_of(targets=entries, model=models[0], models=models), quiet=True).asked == 0
    # The profile beside the log asks each as often: what is left of it are the other one's shams, of 30 items.
    suite = load_suite(folder / "outputs/ablations/study/profile.yaml")
    assert {name: suite.seeds("D0", "tickets", name) for name in models} == {
        "simulated": (0,),
        "target/agent": (0, 1),
    }
    plan = build_plan(suite, scope=replace(Scope.of_selection(suite), conditions=("full", "again", "-rules")))
    assert Counter(unit.cell.model_id for name in models for unit in plan.units(name)) == {
        "simulated": 3 * 30,
        "target/agent": 3 * 30 * 2,
    }


@pytest.mark.parametrize(
    ("file", "more"), [("AGENTS.md", {}), ("notes.txt", {"append_input": True}), ("with.md", {})]
)
def test_a_model_and_a_target_are_asked_about_the_same_items(folder, file, more):
    """The prompt places no column, or one of two, and the target gets both: one table is one task for the two."""
    text = RULES + ("\n# Ticket\n\n{{ text }}\n" if file == "with.md" else "")
    (folder / file).write_text(text)
    head, *rows = (folder / "tickets.csv").read_text().splitlines()
    Path("tickets.csv").write_text("\n".join([f"plan,{head}", *(f"free,{row}" for row in rows)]) + "\n")
    program(
        folder,
        "both.py",
        """
        def answer(messages, item):
            assert item["plan"] == "free"
            asked = " ".join(message["content"] for message in messages)
            assert item["text"] in asked, asked
            return item["text"].split()[-1]
        """,
    )
    models = ("simulated", "target/agent")
    for order in (models, models[::-1]):
        entries = target_entries(["agent=both.py:answer"], {})
        asked = request_of(
            targets=entries, model=order[0], models=order, name=f"{order[0][:3]}-first", **more
        )
        result = ablate(replace(asked, prompt=Path(file)), quiet=True)
        assert result.failed == 0
        rows = list(iter_newest_rows(result.log))
        full = {
            name: [row for row in rows if (row.model.id, row.condition.id) == (name, "full")]
            for name in models
        }
        assert [len(of_model) for of_model in full.values()] == [30, 30]
        # The same characters for both: the prompt with the item.
        sent = [
            {row.task.item_id: row.prompt.rendered_chars for row in of_model} for of_model in full.values()
        ]
        assert sent[0] == sent[1]


def test_a_model_that_gets_no_item_needs_a_place_for_it_beside_a_target_too(folder):
    (folder / "notes.txt").write_text(RULES)
    entries = target_entries(["agent=steady.py:answer"], {})
    alone = replace(request_of(targets=entries), prompt=Path("notes.txt"))
    assert prepare(alone).count == 30
    with pytest.raises(PromptError, match="no placeholder for the item"):
        prepare(replace(alone, models=("target/agent", "simulated")))


def test_a_model_cannot_be_asked_what_lies_in_a_folder(folder):
    entries = target_entries(["agent=steady.py:answer"], {"in_folder": "."})
    with pytest.raises(
        ConfigError, match="target/agent finds .* in a folder, and simulated, .* works in none"
    ):
        prepare(request_of(targets=entries, models=("simulated", "target/agent")))


@pytest.mark.parametrize(
    "more", [{"until": "decided"}, {"until": "decided", "trim": True}, {"trim": True}, {"design": "groups"}]
)
def test_every_way_to_ask_has_both_answers(folder, more):
    parts = "".join(f"\n# Part {n}\n\nThink of {n}.\n" for n in range(5))
    (folder / "AGENTS.md").write_text(RULES + parts if "design" in more else RULES)
    result = ablate(request_of(**more), quiet=True)
    assert result.study.answers == 2
    assert all(set(counts) == {2} for counts in answers_of(result.log).values())
    assert ablate(request_of(**more), quiet=True).asked == 0


def test_places_and_repeats_are_asked_twice_too(folder):
    result = rearrange(request_of(design="repeat"), quiet=True)
    assert all(counts == {2: 30} for counts in answers_of(result.log).values())
    assert any("target/agent answers every item twice" in line for line in notices(result))


def test_show_says_on_what_it_hangs_and_then_what_was_decided(folder):
    shown = printed(print_preview, preview(request_of()))
    assert (
        "answers an item: 1, or 2 (as many times the rows) where the full prompt, asked again on the first 20"
        in shown
    )
    assert "rows: 150 (5 arms × 30 items)" in shown
    assert not Path("outputs").exists()
    ablate(request_of(), quiet=True)
    shown = printed(print_preview, preview(request_of()))
    assert "rows: 300 (5 arms × 30 items × 2), 300 of them done" in shown
    assert "so target/agent answers every item twice (--seeds 1 for once)." in shown
    assert "rows: 150 (5 arms × 30 items), 150 of them done" in printed(
        print_preview, preview(request_of(seeds=1))
    )


def test_from_python_it_is_said_before_the_rest_is_asked(folder, capsys):
    settings = {
        "design": "leave-one-out",
        "trim": False,
        "margin": 0.4,
        "answer": "queue",
        "cache_dir": "cache",
    }
    found = pcs.ablate("AGENTS.md", "tickets.csv", target="wavers.py:answer", **settings)
    assert "answers every item twice (--seeds 1 for once)." in " ".join(capsys.readouterr().out.split())
    assert len(found.rows()) == 2 * len(found.items())
    once = pcs.ablate("AGENTS.md", "tickets.csv", target="wavers.py:answer", seeds=1, name="once", quiet=True, **settings)  # fmt: skip
    assert len(once.rows()) == len(once.items())


def simulated_studies(studies, items=40, spread=0.35):
    """Scores of an agent whose answers vary, of which the block ``rules`` takes 0.3 of the chance and ``tone`` nothing.

    By study: what the rule decides, and the arms with one answer an item and with two.
    """
    rng = np.random.default_rng(11)
    for _ in range(studies):
        chance = np.clip(rng.normal(0.6, spread, items), 0.02, 0.98)
        chances = {FULL: chance, AGAIN: chance, "-tone": chance, "-rules": np.clip(chance - 0.3, 0, 1)}
        answers = {arm: (rng.random((2, items)) < p).astype(float) for arm, p in chances.items()}

        def arms(count, answers=answers):
            return {
                arm: ArmScores(a[:count].mean(axis=0), replicates=float(count), bounds=(0.0, 1.0))
                for arm, a in answers.items()
            }

        once = arms(1)
        first = {arm: replace(once[arm], values=once[arm].values[:20]) for arm in (FULL, AGAIN)}
        yield decided([first]).answers, once, arms(2)


def test_noise_keeps_its_level_and_two_answers_narrow_the_intervals():
    studies, alarms, false = 200, 0, 0
    widths = {1: [], 2: []}
    found = {1: 0, 2: 0}
    chosen = Counter()
    for answers, once, twice in simulated_studies(studies):
        chosen[answers] += 1
        asked = twice if answers == 2 else once
        _, p_value, _ = judge_noise(asked, rng=np.random.default_rng(3))
        alarms += p_value < NOISE_ALPHA
        for count, arms in ((1, once), (2, twice)):
            tone, rules = judge_blocks(arms, ("tone", "rules"), margin=0.1, rng=np.random.default_rng(3))
            widths[count].append(rules.effect.high - rules.effect.low)
            found[count] += rules.verdict == "helps"
            false += count == answers and tone.verdict in ("helps", "hurts")
    assert chosen[2] > 0.95 * studies
    # Chance alone passes these bounds in fewer than one of 1,000 suites: binomial, at the nominal levels.
    assert alarms <= 8  # 2 are expected at 1 %
    assert false <= 21  # 10 at 5 %
    assert np.mean(widths[2]) < 0.9 * np.mean(widths[1])
    assert found[2] > found[1]


def test_a_prompt_as_it_stands_is_asked_once_as_before(folder):
    settings = {"target": "wavers.py:answer", "answer": "queue", "cache_dir": "cache"}
    for more in ({}, {"seeds": 3}):
        assert pcs.prompt("AGENTS.md", "tickets.csv", **more, **settings).seeds("D0", "tickets") == (0,)
    sampled = pcs.prompt("AGENTS.md", "tickets.csv", regime="D1", seeds=3, **settings)
    assert sampled.seeds("D1", "tickets") == (1, 2, 3)
