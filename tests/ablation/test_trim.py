import numpy as np
import pytest

from pcsuite.ablation.trim import choose_drops, confirm_drops


def arm(right, n=400):
    return (np.arange(n) < right).astype(float)


def answered(search, measure):
    asked = []
    try:
        wanted = next(search)
        while True:
            asked.append(wanted)
            wanted = search.send(measure(wanted))
    except StopIteration as end:
        return end.value, asked


def test_all_that_seem_to_cost_nothing_go_together_if_together_they_stand():
    without = {"needed": arm(100), "dead": arm(200), "harmful": arm(260), "idle": arm(198)}
    chosen, asked = answered(choose_drops(arm(200), without, margin=0.05), lambda dropped: arm(255))
    assert chosen == ("harmful", "dead", "idle")
    assert asked == [frozenset(chosen)]


def test_of_a_redundant_pair_one_goes_and_never_both():
    """Leave-one-out says that each can go; only the joint measure shows that both cannot."""
    without = {"a": arm(200), "b": arm(199), "c": arm(198)}
    chosen, asked = answered(
        choose_drops(arm(200), without, margin=0.05),
        lambda dropped: arm(60 if {"a", "b"} <= dropped else 200),
    )
    assert chosen == ("a", "c")
    assert asked == [frozenset("abc"), frozenset("ab"), frozenset("ac")]


def test_single_effects_are_never_added_up():
    # Each alone costs 0.02; together they cost 0.3: nothing says so but the joint arm.
    without = {name: arm(196) for name in "abcd"}
    chosen, _ = answered(
        choose_drops(arm(200), without, margin=0.05), lambda dropped: arm(200 - 30 * len(dropped))
    )
    assert len(chosen) == 1


def test_nothing_is_chosen_where_every_block_is_needed():
    chosen, asked = answered(choose_drops(arm(200), {"a": arm(100), "b": arm(120)}, margin=0.05), arm)
    assert (chosen, asked) == ((), [])


def test_sets_are_confirmed_from_the_smallest_and_the_last_confirmed_counts():
    scores = {1: arm(200), 2: arm(199), 4: arm(150)}
    trim, asked = answered(confirm_drops("abcd", arm(200), margin=0.05), lambda dropped: scores[len(dropped)])
    assert [len(entry) for entry in asked] == [1, 2, 4]
    assert [step.confirmed for step in trim.steps] == [True, True, False]
    assert trim.dropped == ("a", "b")
    assert trim.steps[-1].difference.value == pytest.approx(-0.125)


def test_after_a_set_that_is_not_confirmed_nothing_is_asked():
    trim, asked = answered(confirm_drops("abcd", arm(200), margin=0.05), lambda dropped: arm(100))
    assert len(asked) == 1
    assert trim.dropped == ()


def test_nothing_to_confirm():
    trim, asked = answered(confirm_drops((), arm(200), margin=0.05), arm)
    assert (trim.dropped, trim.steps, asked) == ((), (), [])


def test_failed_calls_are_left_out_of_the_confirmation():
    scores = arm(200)
    scores[:390] = np.nan
    trim, _ = answered(confirm_drops("a", arm(200), margin=0.05), lambda dropped: scores)
    assert trim.steps[0].difference.n == 10
    assert trim.dropped == ()  # ten items without a difference prove nothing


@pytest.mark.slow
def test_a_trimmed_prompt_is_truly_within_the_margin():
    """600 studies of four blocks, two of them redundant and one needed: at most 5 % may lose more than the margin."""
    rng = np.random.default_rng(5)
    margin, wrong, dropped_any = 0.05, 0, 0
    points, weights = np.polynomial.hermite_e.hermegauss(30)

    def logit(kept):
        return -1.2 + 1.2 * bool(kept & {"a", "b"}) + 0.35 * ("c" in kept)

    def truth(kept):
        return float((weights / (1 + np.exp(-(logit(kept) + points)))).sum() / weights.sum())

    every = frozenset("abcd")
    first, second = slice(0, 150), slice(150, None)
    for _ in range(600):
        ease = rng.standard_normal(300)
        measured = {}

        def scores(dropped, ease=ease, measured=measured):
            if dropped not in measured:
                chance = 1 / (1 + np.exp(-(logit(every - dropped) + ease)))
                measured[dropped] = (rng.random(300) < chance).astype(float)
            return measured[dropped]

        full = scores(frozenset())
        without = {name: scores(frozenset(name))[first] for name in "abcd"}
        chosen, _ = answered(
            choose_drops(full[first], without, margin=margin), lambda dropped, s=scores: s(dropped)[first]
        )
        trim, _ = answered(
            confirm_drops(chosen, full[second], margin=margin), lambda dropped, s=scores: s(dropped)[second]
        )
        wrong += truth(every - set(trim.dropped)) < truth(every) - margin
        dropped_any += bool(trim.dropped)
    assert wrong <= 0.05 * 600
    assert dropped_any > 30
