from pathlib import Path

import numpy as np
import pytest
from trim_worlds import campaign

from pcsuite.ablation import AblationRequest, ablate
from pcsuite.ablation.trim import affordable_tries
from pcsuite.ablation.trim import choose_drops as choose
from pcsuite.ablation.trim import confirm_drops as confirm
from pcsuite.config.targets import target_entries
from pcsuite.contrasts import ArmScores
from pcsuite.logging.log import iter_rows
from support.targets import program, write_study

SECTIONS = """# Queue

- Answer with the queue.
- Be quick.

# Style

- Use tabs.
- Use spaces.
"""


def arm(right, n=400):
    return (np.arange(n) < right).astype(float)


def choose_drops(full, without, **settings):
    return choose([(full, without)], **settings)


def confirm_drops(chosen, full, **settings):
    (trim,) = yield from confirm(chosen, [scored(full)], rng=np.random.default_rng(0), **settings)
    return trim


def scored(values):
    """An arm's scores: what has none is missing."""
    values = np.asarray(values, dtype=float)
    return ArmScores(values, failed=np.isnan(values).astype(float), bounds=(0.0, 1.0))


def answered(search, measure):
    asked = []
    try:
        wanted = next(search)
        while True:
            asked.append(wanted)
            wanted = search.send([scored(measure(wanted))])
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


def test_what_dropping_a_harmful_block_gains_is_not_spent_on_dropping_one_that_is_then_missed():
    """Without the harmful rule 360 of 400 are right; without it and its mate 260, which is still more than all 200."""
    without = {"harmful": arm(360), "mate": arm(200), "idle": arm(200)}
    chosen, asked = answered(
        choose_drops(arm(200), without, margin=0.05),
        lambda dropped: arm(260 if {"harmful", "mate"} <= dropped else 358),
    )
    assert chosen == ("harmful", "idle")
    assert asked == [
        frozenset(["harmful", "mate", "idle"]),
        frozenset(["harmful", "mate"]),
        frozenset(chosen),
    ]


def test_of_several_harmful_blocks_what_all_of_them_gain_is_kept():
    without = {"first": arm(280), "second": arm(280), "mate": arm(205)}
    chosen, asked = answered(
        choose_drops(arm(200), without, margin=0.05),
        lambda dropped: arm(350 if dropped == {"first", "second"} else 300),
    )
    assert chosen == ("first", "second")
    assert asked[0] == frozenset(chosen)


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


def test_of_blocks_that_are_surely_idle_the_longest_go_first():
    """Of a redundant pair the longer one goes; a block that is not so sure comes after all that are."""
    without = {"short": arm(200), "long": arm(200), "doubtful": arm(184)}
    chosen, asked = answered(
        choose_drops(arm(200), without, margin=0.05, tokens={"short": 5, "long": 80, "doubtful": 300}),
        lambda dropped: arm(100 if {"short", "long"} <= dropped else 199),
    )
    assert chosen == ("long", "doubtful")
    assert asked[1:] == [frozenset({"long", "short"}), frozenset({"long", "doubtful"})]


def test_the_largest_set_is_tried_first_and_smaller_ones_where_it_fails():
    scores = {4: arm(150), 3: arm(170), 2: arm(199)}
    trim, asked = answered(confirm_drops("abcd", arm(200), margin=0.05), lambda dropped: scores[len(dropped)])
    assert [len(entry) for entry in asked] == [4, 3, 2]
    assert [step.confirmed for step in trim.steps] == [False, False, True]
    assert trim.dropped == ("a", "b")
    assert trim.steps[0].difference.value == pytest.approx(-0.125)


def test_after_a_set_that_is_confirmed_nothing_is_asked():
    trim, asked = answered(confirm_drops("abcd", arm(200), margin=0.05), lambda dropped: arm(200))
    assert (len(asked), trim.dropped) == (1, tuple("abcd"))


def test_few_items_are_not_spent_on_several_tries():
    """30 items can show 0.1 of a set that changes nothing at 5 %, and no longer at half of that: 0.9**30 is 0.042."""
    assert [affordable_tries(count, 0.1) for count in (20, 30, 37, 60)] == [1, 1, 2, 3]
    trim, asked = answered(confirm_drops("abcd", arm(20, 30), margin=0.1), lambda dropped: arm(10, 30))
    assert (len(asked), trim.dropped) == (1, ())
    trim, _ = answered(confirm_drops("abcd", arm(20, 30), margin=0.1), lambda dropped: arm(20, 30))
    assert trim.dropped == tuple("abcd")


def test_copies_of_an_item_buy_no_further_try():
    copies = ArmScores(arm(60, 90), bounds=(0.0, 1.0), clusters=np.repeat(np.arange(30), 3))
    search = confirm("abcd", [copies], margin=0.1, rng=np.random.default_rng(0))
    next(search)
    worse = ArmScores(arm(30, 90), bounds=(0.0, 1.0), clusters=np.repeat(np.arange(30), 3))
    with pytest.raises(StopIteration):
        search.send([worse])


def test_nothing_to_confirm():
    trim, asked = answered(confirm_drops((), arm(200), margin=0.05), arm)
    assert (trim.dropped, trim.steps, asked) == ((), (), [])


def test_failed_calls_are_bounded_in_the_confirmation_unless_they_are_to_be_dropped():
    """300 of 400 items answered alike on both sides show a margin of 0.05; a hundred that were right hide a loss."""
    scores = arm(200)
    scores[100:200] = np.nan
    trim, _ = answered(confirm_drops("a", arm(200), margin=0.05), lambda dropped: scores)
    (step,) = trim.steps
    assert (step.difference.n, step.missing, step.hidden, trim.dropped) == (300, 100, True, ())
    trim, _ = answered(confirm_drops("a", arm(200), margin=0.05, missing="drop"), lambda dropped: scores)
    assert (trim.dropped, trim.steps[0].missing, trim.steps[0].hidden) == (("a",), 100, False)
    # What the full prompt has wrong cannot be lost, and three items of 400 are no margin.
    wrong, few = arm(200), arm(200)
    wrong[300:], few[:3] = np.nan, np.nan
    for values, missing in ((wrong, 100), (few, 3)):
        trim, _ = answered(confirm_drops("a", arm(200), margin=0.05), lambda dropped, values=values: values)
        assert (trim.dropped, trim.steps[0].missing) == (("a",), missing)


def test_a_confirmed_set_has_limits_for_all_sets_that_could_be_tried():
    trim, _ = answered(confirm_drops(("a", "b", "c"), arm(300), margin=0.1), lambda dropped: arm(298))
    (step,) = trim.steps
    assert step.confirmed
    assert step.simultaneous.level == pytest.approx(1 - 0.05 / 3)
    assert step.difference.level == pytest.approx(1 - 2 * 0.05 / 3)
    assert step.simultaneous.value == step.difference.value
    assert step.simultaneous.low < step.difference.low


def test_worlds_with_known_effects_are_trimmed_to_most_of_what_can_go():
    """A sample of ``benchmarks/trim_worlds.py``."""
    counts = campaign(40)
    assert counts["allowed"] >= 10
    assert counts["dropped"] >= 0.8 * counts["droppable"]
    assert counts["false"] <= 5


def test_a_graded_trim_must_hold_whatever_the_shape():
    """Losses of 0.005 and 0.015 at a margin of 0.02: unseen items that lose it all are not ruled out by 200."""
    full, trimmed = np.full(200, 0.5), np.tile([0.495, 0.485], 100)
    careful, _ = answered(confirm_drops(("a",), full, margin=0.02), lambda dropped: trimmed)
    assert careful.dropped == ()
    bold, _ = answered(confirm_drops(("a",), full, margin=0.02, assume="symmetric"), lambda dropped: trimmed)
    assert bold.dropped == ("a",)


def test_a_shorter_prompt_is_confirmed_as_it_is_written(tmp_path, monkeypatch):
    """The agent needs the rule below `Queue` and nothing else; what is confirmed has no heading over nothing."""
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, items=60, rules=SECTIONS)
    program(
        tmp_path,
        "steady.py",
        """
        def answer(prompt, item):
            queue = item["text"].split()[-1] if "Answer with the queue." in prompt else "no idea"
            return {"output": queue, "tokens": len(prompt)}
        """,
    )
    settings = {"answer": "queue", "model": "target/agent", "margin": 0.2, "cache_dir": "cache"}
    settings |= {"design": "leave-one-out", "controls": False}
    targets = target_entries(["agent=steady.py:answer"], {})
    request = AblationRequest(Path("AGENTS.md"), "tickets.csv", targets=targets, **settings)
    result = ablate(request, quiet=True)
    assert set(result.trim.dropped) == {"use_tabs", "use_spaces", "be_quick"}
    assert result.trimmed == "# Queue\n\n- Answer with the queue.\n"
    names = [
        arm.id
        for arm in result.arms
        if "queue_heading" in arm.operators and "style_heading" not in arm.operators
    ]
    confirmed = [row for row in iter_rows(result.log) if row.condition.id in names]
    # The 30 items that confirm; the written file is what was sent.
    assert {row.prompt.rendered_chars for row in confirmed} == {len(result.trimmed)}
    assert len({row.task.item_id for row in confirmed}) >= 30
    arm = next(arm for arm in result.arms if arm.id == names[-1])
    assert arm.operators == ("queue_heading", "answer_with_the")
    assert result.saved_tokens == pytest.approx(1000 * (len(SECTIONS) - len(result.trimmed)))
    assert ablate(request, quiet=True).asked == 0
