"""Group screening: its procedure on paper, its errors by simulation, and whole screenings of simulated models."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcsuite.ablation import ablate, preview
from pcsuite.ablation.arms import first_groups, halves, make_design
from pcsuite.ablation.forecast_picture import screening_lines
from pcsuite.ablation.page import render_ablation, write_result
from pcsuite.ablation.picture import markdown
from pcsuite.ablation.screen import (
    TOGETHER,
    arm_without,
    block_verdicts,
    expected_arms,
    groups_to_split,
    inherited_p,
    judge_groups,
    most_arms,
    unsplit,
)
from pcsuite.ablation.sentences import group_sentences, headline
from pcsuite.contrasts import ArmScores
from pcsuite.errors import ConfigError
from pcsuite.logging.log import iter_rows
from support.ablating import request_in

NAMES = [f"b{number}" for number in range(8)]
PARTS = "".join(f"# {name}\nThis is what part {name} says.\n\n" for name in NAMES) + "# Ticket\n{{ text }}\n"


def test_groups_are_stretches_of_the_prompt_and_fall_into_halves():
    assert first_groups(NAMES) == [("b0", "b1"), ("b2", "b3"), ("b4", "b5"), ("b6", "b7")]
    assert first_groups(NAMES[:5]) == [("b0", "b1", "b2"), ("b3", "b4")]
    assert halves(("b0", "b1", "b2")) == [("b0", "b1"), ("b2",)]
    design = make_design(NAMES, "groups")
    assert [arm.id for arm in design.first] == ["full", "-b0-b1", "-b2-b3", "-b4-b5", "-b6-b7", "again"]


def test_three_blocks_are_not_grouped():
    with pytest.raises(ConfigError, match="3 blocks are too few"):
        make_design(NAMES[:3], "groups")


def test_p_values_are_shared_out_by_the_blocks_that_are_open():
    """Worked by hand: 4 blocks, two groups, the first of them split.

    The groups cost 4/2 times their p: 0.004 and 1. The halves of the first have 4 open blocks between four: ×4, no less
    than their group. b0 is rejected, so b1 and the other group share among 3 blocks: ×3 and ×3/2.
    """
    first = first_groups(NAMES[:4])
    p_values = {("b0", "b1"): 0.002, ("b0",): 0.0005, ("b1",): 0.01, ("b2", "b3"): 0.5}
    found = inherited_p(p_values, first)
    assert found[("b0", "b1")] == pytest.approx(0.004)
    assert found[("b0",)] == pytest.approx(0.004)
    assert found[("b1",)] == pytest.approx(0.03)
    # Then two blocks are open, and they are the group's.
    assert found[("b2", "b3")] == pytest.approx(0.5)


def test_a_group_that_was_not_split_passes_nothing_on():
    p_values = {("b0", "b1"): 1e-6, ("b2", "b3"): 0.03}
    assert inherited_p(p_values, first_groups(NAMES[:4]))[("b2", "b3")] == pytest.approx(0.06)


def test_what_was_not_tested_is_never_rejected():
    assert inherited_p({("b0", "b1"): math.nan, ("b2", "b3"): 0.001}, first_groups(NAMES[:4])) == {
        ("b2", "b3"): pytest.approx(0.002),
        ("b0", "b1"): 1.0,
    }


def test_cost_is_counted_before_anything_is_asked():
    assert most_arms(NAMES) == 4 * 3  # each of four pairs: itself and two blocks
    assert expected_arms(NAMES, 0) == 4
    assert expected_arms(NAMES, 1) == 6  # the pair that holds it is split
    assert expected_arms(NAMES, 8) == most_arms(NAMES)


def screened(truth, items, rng, margin=0.1):
    """A screening of right-or-wrong answers: ``truth`` gives the accuracy of the prompt without some blocks."""
    difficulty = rng.normal(0, 0.15, items)
    drawn = {}

    def arm(group):
        name = arm_without(group, NAMES)
        if name not in drawn:
            drawn[name] = ArmScores(
                (rng.random(items) < truth(group) + difficulty).astype(float), bounds=(0, 1)
            )
        return name

    for group in [(), *first_groups(NAMES)]:
        arm(group)
    while True:
        judged = judge_groups(drawn, NAMES, margin=margin, rng=rng)
        more = [half for group in groups_to_split(judged) for half in halves(group)]
        if not more:
            return judged
        for half in more:
            arm(half)


def share_of_false_claims(truth, studies, items, seed):
    false = 0
    for number in range(studies):
        rng = np.random.default_rng([seed, number])
        for entry in screened(truth, items, rng):
            loss = truth(()) - truth(entry.blocks)
            said = entry.verdict.verdict
            if (said == "helps" and loss <= 1e-12) or (said == "hurts" and loss >= -1e-12):
                false += 1
                break
    return false / studies


def additive(effects):
    return lambda group: 0.6 - sum(effects.get(name, 0.0) for name in group)


def redundant(group):
    """b0 and b1 make up for each other: without both 0.3 is lost, without one nothing."""
    return 0.6 - 0.3 * ({"b0", "b1"} <= set(group))


WORLDS = {
    "nothing matters": additive({}),
    "one helps": additive({"b3": 0.3}),
    "one helps and its neighbour hurts as much": additive({"b2": 0.25, "b3": -0.25}),
    "two make up for each other": redundant,
    "half matter": additive({"b0": 0.25, "b3": 0.25, "b4": -0.25, "b7": 0.25}),
}


@pytest.mark.parametrize("world", WORLDS)
def test_false_claims_are_held_over_the_whole_search(world):
    """At most 5 % are allowed; 200 studies may show 9 % by chance (4 standard errors: one in 30,000)."""
    assert share_of_false_claims(WORLDS[world], 200, 120, 5) <= 0.09


def test_cancelling_blocks_are_called_no_worse_together_and_nothing_is_said_of_either():
    judged = screened(WORLDS["one helps and its neighbour hurts as much"], 600, np.random.default_rng(2))
    pair = next(entry for entry in judged if entry.blocks == ("b2", "b3"))
    assert pair.verdict.verdict == "no worse without it"
    assert not pair.split
    said = {entry.block: entry for entry in block_verdicts(judged, NAMES)}
    assert {said[name].verdict for name in ("b2", "b3")} == {TOGETHER}
    assert said["b2"].note == "left out with b3 only"
    assert not said["b2"].effect.defined


def test_blocks_that_make_up_for_each_other_are_said_to_help_together():
    judged = screened(redundant, 400, np.random.default_rng(3))
    pair = next(entry for entry in judged if entry.blocks == ("b0", "b1"))
    assert (pair.verdict.verdict, pair.split, pair.within) == ("helps", True, False)
    said = {entry.block: entry.verdict for entry in block_verdicts(judged, NAMES)}
    assert "helps" not in {said["b0"], said["b1"]}


def test_a_group_that_helps_by_less_than_the_margin_stays_whole():
    judged = screened(additive({"b0": 0.15}), 2000, np.random.default_rng(4), margin=0.3)
    pair = next(entry for entry in judged if entry.blocks == ("b0", "b1"))
    assert (pair.verdict.verdict, pair.verdict.no_worse, pair.split) == ("helps", True, False)


def test_missing_answers_take_a_claim_back():
    rng = np.random.default_rng(6)
    # The full prompt fails on the last 40 items: answered without the blocks, they could all be right.
    full = np.where(np.arange(100) < 60, 1.0, 0.0)
    worse = np.where(np.arange(100) < 20, 0.0, full)
    arms = {"full": ArmScores(full, bounds=(0, 1), failed=np.zeros(100))}
    for group in first_groups(NAMES):
        values = worse.copy() if group[0] == "b0" else full.copy()
        values[60:] = np.nan if group[0] == "b0" else 0.0
        arms[arm_without(group, NAMES)] = ArmScores(
            values, bounds=(0, 1), failed=np.isnan(values).astype(float)
        )
    bounded, dropped = (
        {entry.name: entry.verdict.verdict for entry in judge_groups(
            arms, NAMES, margin=0.1, rng=rng, missing=missing
        )}
        for missing in ("bound", "drop")
    )  # fmt: skip
    assert dropped["b0 + b1"] == "helps"
    assert bounded["b0 + b1"] == "undecided"
    assert bounded["b2 + b3"] == dropped["b2 + b3"] == "no worse without it"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    effects = {"b2": 2.0, "b7": -1.8}
    folder = tmp_path_factory.mktemp("groups")
    return ablate(request_in(folder, items=240, prompt=PARTS, effects=effects, design="groups"), quiet=True)


@pytest.mark.slow
def test_a_screening_finds_what_matters_with_fewer_prompts(result):
    said = {entry.block: entry.verdict for entry in result.verdicts}
    assert (said["b2"], said["b7"]) == ("helps", "hurts")
    assert {said[name] for name in ("b0", "b1", "b4", "b5")} == {TOGETHER}
    left_out = {arm.id for arm in result.arms if arm.id.startswith("-") and arm.items == 240}
    assert left_out == {"-b0-b1", "-b2-b3", "-b4-b5", "-b6-b7", "-b2", "-b3", "-b6", "-b7"}
    assert {row.condition.id for row in iter_rows(result.log)} >= {"~b2", "~b7", "again"}


@pytest.mark.slow
def test_its_words_are_of_the_group(result, tmp_path):
    assert "b0 and b1 together can go" in headline(result)
    (first, *_) = group_sentences(result)
    assert "together: no worse without them (loses less than 0.063, margin 0.1)" in first
    assert "Nothing is said of one of them alone" in first
    assert first in markdown(result)
    page = render_ablation(result)
    assert "Groups left out together" in page
    assert "only in a group: b0 + b1" in page
    write_result(result)
    document = json.loads((result.study.folder / "ablation.json").read_text(encoding="utf-8"))
    assert [entry["blocks"] for entry in document["groups"]][:2] == [["b0", "b1"], ["b2", "b3"]]
    assert document["groups"][0]["says"] == first
    assert {entry.name for entry in unsplit(result.groups)} <= {"b0 + b1", "b4 + b5"}


@pytest.mark.slow
def test_groups_that_can_go_are_dropped_whole_and_confirmed_on_other_items(result):
    assert "b7" in result.trim.dropped
    assert "b2" not in result.trim.dropped
    assert {"b0", "b1"} <= set(result.trim.dropped)
    assert all(step.difference.n == 120 for step in result.trim.steps)
    again = ablate(result.study.request, quiet=True)
    assert again.asked == 0
    assert again.trim.dropped == result.trim.dropped


def test_the_preview_says_what_a_screening_costs(tmp_path):
    shown = preview(request_in(tmp_path, items=60, prompt=PARTS, design="groups"))
    (line,) = screening_lines(shown.study)
    assert "4 where none of 8 blocks matter" in line
    assert "at most 12 prompts" in line
    assert "every block by itself takes 8" in line


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"until": "decided"}, "one block at a time"), ({"models": ("simulated/a", "simulated/b")}, "one model"),
     ({"posterior": True}, "no effects of their own")],
)  # fmt: skip
def test_what_a_screening_cannot_do_is_refused(tmp_path, changes, said):
    request = replace(request_in(tmp_path, prompt=PARTS, design="groups"), **changes)
    with pytest.raises(ConfigError, match=said):
        ablate(request, quiet=True)


@pytest.mark.slow
def test_a_screening_that_its_budget_ended_says_what_was_asked_and_goes_on(tmp_path):
    priced = {"model_options": {"price_in": 1000.0, "price_out": 1000.0}, "effects": {"b2": 2.0, "b7": -1.8}}
    request = request_in(tmp_path, items=240, prompt=PARTS, design="groups", noise_first=0, **priced)
    whole = ablate(replace(request, name="whole"), quiet=True)
    for dollars in (60.0, 150.0, 210.0):
        cut = ablate(replace(request, budget_usd=dollars), quiet=True)
        assert cut.stopped
        assert len(cut.verdicts) == 8
        assert headline(cut)
        assert render_ablation(cut)
    last = ablate(replace(request, budget_usd=5000.0), quiet=True)
    assert not last.stopped
    assert [(entry.name, entry.verdict.verdict) for entry in last.groups] == [
        (entry.name, entry.verdict.verdict) for entry in whole.groups
    ]
    assert last.trim.dropped == whole.trim.dropped


@pytest.mark.slow
def test_items_in_too_few_clusters_test_nothing(tmp_path):
    request = request_in(tmp_path, items=60, prompt=PARTS, design="groups", trim=False, cluster=("customer",))
    table = Path(request.data)
    _, *rows = table.read_text(encoding="utf-8").splitlines()
    lines = [f"{row},customer {number % 4}" for number, row in enumerate(rows)]
    table.write_text("\n".join(["text,queue,customer", *lines]) + "\n", encoding="utf-8")
    made = ablate(request, quiet=True)
    assert {entry.verdict.verdict for entry in made.groups} == {"not tested"}
    assert "at least 6 are needed" in made.groups[0].verdict.note
    assert render_ablation(made)
