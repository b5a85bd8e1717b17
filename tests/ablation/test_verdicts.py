from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from pcsuite.ablation.verdicts import (
    at_floor,
    beside_lenient,
    find_interactions,
    flip_rate,
    judge_blocks,
    judge_looks,
    least_items,
    more_items,
    suspect_pairs,
)
from pcsuite.contrasts import ArmScores
from pcsuite.logging.looks import Look


def arm(right, n=200):
    """Scores of an arm in which the first ``right`` items are right."""
    return (np.arange(n) < right).astype(float)


def arms_of(full, without=(), shams=()):
    """Arms by their ids, from scores by block."""
    scores = {"full": full}
    scores |= {f"-{block}": values for block, values in dict(without).items()}
    scores |= {f"~{block}": values for block, values in dict(shams).items()}
    return {name: ArmScores(values) for name, values in scores.items()}


def judged(full, without, shams=(), margin=0.05):
    verdicts = judge_blocks(
        arms_of(full, without, shams),
        list(without),
        margin=margin,
        rng=np.random.default_rng(0),
        resamples=500,
    )
    return {entry.block: entry for entry in verdicts}


def test_each_verdict_is_said_where_it_holds():
    full = arm(120)
    found = judged(
        full,
        {"needed": arm(80), "harmful": arm(160), "dead": arm(120), "filler": arm(80), "open": arm(114)},
        {"needed": arm(80), "filler": arm(119)},
    )
    verdicts = {name: entry.verdict for name, entry in found.items()}
    assert verdicts == {
        "needed": "helps",
        "harmful": "hurts",
        "dead": "no worse without it",
        "filler": "helps only as filler",
        "open": "undecided",
    }
    assert found["needed"].effect.value == pytest.approx(0.2)
    assert found["harmful"].effect.value == pytest.approx(-0.2)
    assert found["needed"].against_sham.value == pytest.approx(0.2)
    assert found["open"].more_items > 0
    assert found["harmful"].no_worse
    assert not found["needed"].no_worse


def test_a_small_sure_gain_helps_by_less_than_the_margin():
    found = judged(arm(220, 2000), {"small": arm(200, 2000)}, margin=0.05)["small"]
    assert (found.verdict, found.note) == ("helps", "by less than the margin")


def test_p_values_are_corrected_over_the_blocks():
    # 6 of 6 discordant items in favour: p = 0.03125 alone, 0.125 among four blocks.
    assert judged(arm(106), {"a": arm(100)})["a"].verdict == "helps"
    four = judged(arm(106), {"a": arm(100), "b": arm(106), "c": arm(106), "d": arm(106)}, margin=0.01)
    assert four["a"].p_value == pytest.approx(0.125)
    assert four["a"].verdict == "undecided"


def test_a_few_items_without_a_difference_prove_nothing():
    assert judged(arm(10, 20), {"a": arm(10, 20)}, margin=0.02)["a"].verdict == "undecided"
    assert judged(arm(500, 1000), {"a": arm(500, 1000)}, margin=0.02)["a"].verdict == "no worse without it"


def test_no_worse_rests_on_a_limit_of_the_loss_that_lies_below_the_margin_where_the_intervals_do_not():
    """No item of thirty differs: a loss of share p goes unseen with chance (1 - p)^30, which is 5 % at 0.095."""
    dead = judged(arm(15, 30), {f"b{number}": arm(15, 30) for number in range(10)}, margin=0.1)["b0"]
    assert dead.verdict == "no worse without it"
    assert dead.most_lost == pytest.approx(1 - 0.05 ** (1 / 30)) == pytest.approx(0.0950, abs=5e-5)
    assert dead.effect.high > dead.alone.high > 0.1
    assert judged(arm(15, 30), {"open": arm(12, 30)}, margin=0.1)["open"].most_lost is None


def test_the_limit_of_the_loss_holds_whatever_missing_answers_would_have_been():
    """One of a hundred answers is missing, and may be lost: a binomial limit of 1 in 100, a quantile of Beta(2, 99)."""
    full = arm(100, 100)
    lacking = ArmScores(
        np.where(np.arange(100) == 7, np.nan, full), failed=np.arange(100) == 7, bounds=(0.0, 1.0)
    )
    arms = {"full": ArmScores(full, failed=np.zeros(100), bounds=(0.0, 1.0)), "-a": lacking}
    limits = {}
    for missing in ("bound", "drop"):
        (entry,) = judge_blocks(arms, ["a"], margin=0.1, rng=np.random.default_rng(0), missing=missing)
        assert entry.verdict == "no worse without it"
        limits[missing] = entry.most_lost
    assert limits == pytest.approx({"bound": beta.ppf(0.95, 2, 99), "drop": 1 - 0.05 ** (1 / 99)}, rel=1e-6)


def test_where_nothing_could_be_worse_nothing_is_tested():
    found = judged(arm(0), {"a": arm(0), "b": arm(60)})
    assert found["a"].verdict == "not tested"
    assert "scores 0.000" in found["a"].note
    assert not found["a"].no_worse
    assert found["b"].verdict == "hurts"  # the one thing that can be seen from the floor
    assert at_floor(arm(0), 0.02)
    assert not at_floor(arm(100), 0.02)


def test_failed_calls_are_left_out_in_pairs():
    full, other = arm(120), arm(80)
    full[:10] = np.nan
    other[5:20] = np.nan
    found = judged(full, {"a": other})["a"]
    assert found.effect.n == 180
    assert judged(np.full(20, np.nan), {"a": arm(10, 20)})["a"].verdict == "not tested"


def test_items_that_would_decide():
    delta = np.array([1.0] * 12 + [-1.0] * 8 + [0.0] * 180)
    needed = more_items(delta, 0.02, comparisons=1)
    # sd of the 202 values is 0.3294, effect 0.02: ((1.96 + 0.8416) * 0.3294 / 0.02)^2 = 2130 items in all.
    assert needed == pytest.approx(2130 - 200, abs=3)
    assert more_items(np.array([1.0, 0.0] * 50), 0.5, comparisons=1) == 1
    assert more_items(np.array([1.0, -1.0] * 50), 1e-4, comparisons=1) is None
    assert more_items(np.array([]), 0.1, comparisons=1) is None


def world(effects, n, seed=0):
    """Arms of a world in which the chance of a right answer is a function of the blocks shown."""
    rng = np.random.default_rng(seed)
    ease = rng.standard_normal(n)
    return lambda *kept: (rng.random(n) < 1 / (1 + np.exp(-(effects(set(kept)) + ease)))).astype(float)


def test_redundant_blocks_are_named():
    answers = world(lambda kept: -1.0 + 2.5 * bool(kept & {"a", "b"}), 1500)
    full = answers("a", "b", "c")
    arms = arms_of(full, {"a": answers("b", "c"), "b": answers("a", "c"), "c": answers("a", "b")})
    arms |= {f"+{block}": ArmScores(answers(block)) for block in "cba"}
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    (found,) = find_interactions(arms, "abc", pairs, rng=np.random.default_rng(0), resamples=500)
    assert found.words == "a and b make up for each other: either can go, both cannot"
    assert found.estimate.value < -0.3
    assert all(
        entry.verdict != "helps"
        for entry in judge_blocks(arms, "abc", margin=0.05, rng=np.random.default_rng(0))
    )


def test_blocks_that_need_each_other_are_named():
    answers = world(lambda kept: -1.0 + 2.5 * ({"a", "b"} <= kept), 1500)
    arms = arms_of(answers("a", "b"), {"a": answers("b"), "b": answers("a"), "c": answers("a", "b")})
    arms["+c"] = ArmScores(answers())
    (found,) = find_interactions(arms, "abc", [("a", "b")], rng=np.random.default_rng(0), resamples=500)
    assert found.words.startswith("a and b need each other")


def test_the_one_that_matters_only_where_the_other_is_missing():
    # b does all that a does and more, so a is of use only without b.
    answers = world(lambda kept: -1.0 + (3.5 if "b" in kept else 1.5 if "a" in kept else 0.0), 3000)
    arms = arms_of(answers("a", "b"), {"a": answers("b"), "b": answers("a"), "c": answers("a", "b")})
    arms["+c"] = ArmScores(answers())
    (found,) = find_interactions(arms, "abc", [("a", "b")], rng=np.random.default_rng(0), resamples=500)
    assert found.words == "a matters only where b is missing"


def test_correction_is_over_all_pairs_measured_or_not():
    answers = world(lambda kept: -1.0 + 1.1 * bool(kept & {"a", "b"}), 120, seed=3)
    arms = arms_of(answers("a", "b"), {"a": answers("b"), "b": answers("a")})
    arms["none"] = arms["-a-b"] = ArmScores(answers())

    def p_value(blocks):
        (pair,) = find_interactions(
            arms, blocks, [("a", "b")], rng=np.random.default_rng(0), resamples=100, alpha=1.0
        )
        return pair.p_value

    assert p_value(["a", "b", *(f"x{i}" for i in range(8))]) == pytest.approx(min(1.0, 45 * p_value("ab")))


def test_pairs_that_do_more_alone_than_together_are_suspects():
    scores = {"full": arm(150), "-a": arm(150), "-b": arm(150), "-c": arm(100), "-d": arm(149)}
    scores |= {"+a": arm(150), "+b": arm(140), "+c": arm(100), "+d": arm(51)}
    assert suspect_pairs(scores | {"none": arm(50)}, "abcd") == [("a", "b")]
    assert suspect_pairs(scores, "abcd") == []


def test_least_items_lets_the_exact_test_reject_in_either_half():
    for blocks in (2, 6, 12):
        half = least_items(blocks) // 2
        assert 2 * 0.5**half <= 0.05 / blocks < 2 * 0.5 ** (half - 1)


def test_flip_rate_is_the_share_of_items_that_differ():
    assert flip_rate(np.array([1.0, 0, 1, np.nan]), np.array([0.0, 0, 1, 1])) == pytest.approx(1 / 3)


def test_verdicts_of_looks_are_those_of_their_limits():
    def look(mean, low, high, verdict):
        return Look(
            "t",
            "m",
            "d",
            "-x",
            "full",
            "task_score",
            100,
            100,
            mean,
            low,
            high,
            0.99,
            0.001,
            0.05,
            verdict,
            True,
        )

    looks = {
        "needed": look(-0.2, -0.3, -0.1, "worse"),
        "filler": look(-0.2, -0.3, -0.1, "worse"),
        "harmful": look(0.2, 0.1, 0.3, "better"),
        "dead": look(0.0, -0.04, 0.1, "no worse"),
        "open": look(-0.01, -0.2, 0.2, "undecided"),
    }
    full = arm(150, 400)
    blocks = [*looks, "unseen"]
    arms = arms_of(full, shams={"filler": arm(150, 400), "needed": arm(60, 400)})
    found = {entry.block: entry for entry in judge_looks(looks, blocks, arms, 0.05)}
    assert {name: entry.verdict for name, entry in found.items()} == {
        "needed": "helps",
        "filler": "helps only as filler",
        "harmful": "hurts",
        "dead": "no worse without it",
        "open": "undecided",
        "unseen": "undecided",
    }
    assert (found["needed"].effect.low, found["needed"].effect.high) == (0.1, 0.3)
    assert found["needed"].p_value == pytest.approx(0.006)
    assert "ran out" in found["open"].note
    assert judge_looks(looks, blocks, arms_of(arm(0, 400)), 0.05)[3].verdict == "not tested"


def by_texts(texts, copies):
    return ArmScores(
        np.repeat(texts, copies), bounds=(0, 1), clusters=np.repeat(np.arange(len(texts)), copies)
    )


def test_copies_of_a_few_texts_make_no_block_help():
    """Five of twenty texts lost without it: as 100 items 25 of 25 lost, as texts a p-value of 2 / 2^5."""
    full, without = np.array([1.0] * 12 + [0.0] * 8), np.array([1.0] * 7 + [0.0] * 13)
    rng = np.random.default_rng(0)
    arms = {"full": by_texts(full, 5), "-a": by_texts(without, 5)}
    (found,) = judge_blocks(arms, ["a"], margin=0.05, rng=rng)
    assert (found.verdict, found.p_value) == ("undecided", 1 / 16)
    apart = {name: ArmScores(entry.values, bounds=(0, 1)) for name, entry in arms.items()}
    assert judge_blocks(apart, ["a"], margin=0.05, rng=rng)[0].verdict == "helps"
    # More items of the same kind are more texts, not more copies: what would decide is counted in items.
    assert (
        found.more_items
        > judge_blocks(
            {name: ArmScores(entry.values[::5], bounds=(0, 1)) for name, entry in arms.items()},
            ["a"],
            margin=0.05,
            rng=rng,
        )[0].more_items
    )


def test_effects_have_limits_for_all_blocks_at_once_and_for_each_alone():
    found = judged(arm(120), {"needed": arm(80), "dead": arm(120)})
    for entry in found.values():
        assert (entry.effect.level, entry.alone.level) == (pytest.approx(0.975), 0.95)
        assert entry.effect.low < entry.alone.low < entry.alone.high < entry.effect.high


def test_graded_blocks_say_in_which_grade_they_help():
    """0.02 lost on every item: by signs sure, but one item in forty could gain it all back."""
    arms = {
        name: ArmScores(np.full(40, value), bounds=(0, 1)) for name, value in (("full", 0.5), ("-a", 0.48))
    }
    (careful,) = judge_blocks(arms, ["a"], margin=0.01, rng=np.random.default_rng(0))
    assert (careful.verdict, careful.tentative, careful.clause) == ("undecided", "helps", "")
    (bold,) = judge_blocks(arms, ["a"], margin=0.01, rng=np.random.default_rng(0), assume="symmetric")
    assert (bold.verdict, bold.tentative) == ("helps", None)
    assert bold.clause == "unless rare large opposite cases exist"


def test_a_block_decided_early_is_worth_what_it_is_without_the_stop():
    look = Look(
        "t", "m", "d", "-a", "full", "task_score", 72, 72, -0.4, -0.6, -0.05, 0.95, 0.01, 0.05, "worse", True,
        unbiased=-0.3,
    )  # fmt: skip
    (found,) = judge_looks({"a": look}, ["a"], arms_of(arm(150)), 0.05)
    assert (found.verdict, found.effect.value, found.effect.high) == ("helps", 0.3, 0.6)


def test_items_with_an_ambiguous_answer_are_counted_by_block():
    unsure = np.arange(200) < 3
    arms = arms_of(arm(160), {"a": arm(60)})
    arms = {
        "full": replace(arms["full"], ambiguous=unsure * 1.0),
        "-a": replace(arms["-a"], ambiguous=unsure[::-1] * 0.5),
    }
    (entry,) = judge_blocks(arms, ["a"], margin=0.05, rng=np.random.default_rng(0), resamples=100)
    assert entry.ambiguous == 6
    assert (
        judge_blocks(arms_of(arm(160), {"a": arm(60)}), ["a"], margin=0.05, rng=np.random.default_rng(0))[
            0
        ].ambiguous
        == 0
    )


def test_a_block_that_helps_under_one_reading_alone_changes_the_form():
    def verdicts(full, without):
        return judge_blocks(
            arms_of(full, without), list(without), margin=0.05, rng=np.random.default_rng(0), resamples=200
        )

    strict = verdicts(arm(160), {"format": arm(60), "rules": arm(60), "tone": arm(160), "hidden": arm(160)})
    lenient = verdicts(arm(180), {"format": arm(181), "rules": arm(90), "tone": arm(180), "hidden": arm(120)})
    told = {entry.block: entry for entry in beside_lenient(strict, lenient)}
    forms = {name: entry.form for name, entry in told.items()}
    said = "the form, not the answer"
    assert forms == {"format": said, "rules": "", "tone": "", "hidden": said}
    assert (told["format"].effect.value, told["format"].lenient.value) == (0.5, pytest.approx(-0.005))
    assert (told["hidden"].verdict, told["hidden"].lenient_verdict) == ("no worse without it", "helps")
    assert told["hidden"].changes_form_alone
    assert not told["tone"].changes_form_alone
