"""Effects of a slice, words set against each other, prompts by operator."""

from __future__ import annotations

import numpy as np
import pytest

from pcsuite.analysis.pairings import contrasts_of
from pcsuite.pages.words import marked_lines
from pcsuite.view.slices import (
    SliceScores,
    contrast_effects,
    prompt_blocks,
    read_part,
    scatter_points,
    slice_effects,
    word_diff,
)


def test_effects_are_paired_and_corrected_over_the_columns():
    control = {f"i{n}": 0.0 for n in range(20)}
    better = {f"i{n}": float(n < 15) for n in range(22)}
    same = {**control, "i0": 1.0}
    found = {
        e.column: e
        for e in slice_effects(
            SliceScores.of({"C0": control, "C1": better, "C2": same}), "C0", ["C0", "C1", "C2"]
        )
    }
    assert set(found) == {"C1", "C2"}
    assert (found["C1"].n, found["C1"].value, found["C1"].gained, found["C1"].lost) == (20, 0.75, 15, 0)
    assert found["C1"].low > 0
    assert found["C1"].holds
    assert not found["C2"].holds
    assert found["C1"].p_bh == pytest.approx(2 * found["C1"].p_value)


def test_an_effect_that_one_reading_alone_shows_is_one_of_the_form():
    items = [f"i{n}" for n in range(20)]
    scores = {
        "C0": dict.fromkeys(items, 0.0),
        "C1": dict.fromkeys(items, 1.0),
        "C2": dict.fromkeys(items, 1.0),
    }
    lenient = scores | {"C0": {item: float(n < 19) for n, item in enumerate(items)}}
    lenient |= {"C1": lenient["C0"]}
    found = {
        effect.column: effect
        for effect in slice_effects(SliceScores.of(scores, lenient=lenient), "C0", ["C1", "C2"])
    }
    assert (found["C1"].value, found["C1"].lenient_value) == (1.0, 0.0)
    assert found["C1"].form == found["C2"].form == "the form, not the answer"
    plain = slice_effects(SliceScores.of(scores, lenient=scores), "C0", ["C1"])[0]
    assert (plain.form, plain.lenient) == ("", None)
    part = SliceScores.of(scores, lenient=lenient).without({"i00"})
    assert len(part.lenient["C0"]) == len(part.items)


def test_nothing_shared_is_no_effect():
    assert slice_effects(SliceScores.of({"C0": {"a": 1.0}, "C1": {"b": 1.0}}), "C0", ["C1"]) == []
    assert slice_effects(SliceScores.of({}), "C0", ["C1"]) == []


def test_words_that_changed():
    spans = word_diff("the red fox", "the quick fox, twice")
    assert "".join(span.text for span in spans if span.kind != "new") == "the red fox"
    assert "".join(span.text for span in spans if span.kind != "gone") == "the quick fox, twice"
    assert ("gone", "red") in [tuple(span) for span in spans]


def test_a_prompt_is_named_by_what_its_twins_lack():
    prompts = {
        "C0": "Sort it.\nInput: x\n",
        "C1": "You are a clerk.\nSort it.\nInput: x\n",
        "C2": "You are a clerk.\nSort it.\nUse JSON.\nInput: x\n",
    }
    bundles = {"C0": [], "C1": ["ROLE"], "C2": ["ROLE", "SCHEMA"]}
    blocks = prompt_blocks(prompts, bundles, "C2")
    assert [tuple(block) for block in blocks] == [
        ("ROLE", "You are a clerk.\n"),
        ("", "Sort it.\n"),
        ("SCHEMA", "Use JSON.\n"),
        ("", "Input: x\n"),
    ]
    assert "".join(block.text for block in blocks) == prompts["C2"]
    # Without the condition between, both came at once and are named together.
    apart = prompt_blocks({name: prompts[name] for name in ("C0", "C2")}, bundles, "C2")
    assert [block.operator for block in apart] == ["ROLE+SCHEMA", "", "ROLE+SCHEMA", ""]


def test_points_gather_equal_pairs():
    scores = {"a": {"i": 1.0, "j": 1.0, "k": 0.0}, "b": {"i": 0.0, "j": 0.0, "k": 0.5, "l": 1.0}}
    assert scatter_points(SliceScores.of(scores), "a", "b") == [
        {"x": 0.0, "y": 0.5, "n": 1, "items": ["k"]},
        {"x": 1.0, "y": 0.0, "n": 2, "items": ["i", "j"]},
    ]


def test_many_items_agree_with_few_ways_of_counting():
    rng = np.random.default_rng(3)
    scores = {"C0": dict(enumerate(rng.random(900) < 0.5)), "C1": dict(enumerate(rng.random(900) < 0.6))}
    named = {name: {str(key): float(value) for key, value in own.items()} for name, own in scores.items()}
    (found,) = slice_effects(SliceScores.of(named), "C0", ["C1"])
    deltas = np.array(list(scores["C1"].values()), float) - np.array(list(scores["C0"].values()), float)
    error = deltas.std(ddof=1) / 30
    assert found.low == pytest.approx(deltas.mean() - 1.9626 * error, abs=1e-4)
    assert found.high == pytest.approx(deltas.mean() + 1.9626 * error, abs=1e-4)


def test_conditions_that_are_not_nested_tell_whose_a_piece_is():
    head, ask, check, shown = "Be careful.", "Sort it.", "Check it.", "Example: a"
    prompts = {
        "C0": f"{ask}\n",
        "C4": f"{head}\n\n{ask}\n{check}\n",
        "C5": f"{head}\n\n{ask}\n{shown}\n\n{check}\n",
        "C5-ROLE": f"{ask}\n{shown}\n\n{check}\n",
    }
    bundles = {
        "C0": [],
        "C4": ["ROLE", "CHECKS"],
        "C5": ["ROLE", "CHECKS", "EXEMPLARS"],
        "C5-ROLE": ["CHECKS", "EXEMPLARS"],
    }
    blocks = prompt_blocks(prompts, bundles, "C5")
    assert [tuple(block) for block in blocks] == [
        ("ROLE", f"{head}\n\n"),
        ("", f"{ask}\n"),
        ("EXEMPLARS", f"{shown}\n\n"),
        ("CHECKS", f"{check}\n"),
    ]
    # The head came to C4 together with the check; who has it and who lacks it says that it is the role's.
    assert [block.operator for block in prompt_blocks(prompts, bundles, "C4")] == ["ROLE", "", "CHECKS"]


def test_a_line_that_changes_with_another_operator_is_named_after_what_the_nearest_lacks():
    prompts = {"C0": "Sort.\n", "C1": "Answer in a word.\nSort.\n", "C2": "Answer in JSON.\nSort.\n"}
    bundles = {"C0": [], "C1": ["FORM"], "C2": ["FORM", "SCHEMA"]}
    assert [block.operator for block in prompt_blocks(prompts, bundles, "C2")] == ["SCHEMA", ""]
    assert [block.operator for block in prompt_blocks(prompts, bundles, "C1")] == ["FORM", ""]


def test_a_line_that_stands_twice_is_the_operators_the_second_time():
    prompts = {"C0": "Problem:\nx\n", "C1": "Problem:\nx\nExample\nProblem:\ny\n"}
    blocks = prompt_blocks(prompts, {"C0": [], "C1": ["EXEMPLARS"]}, "C1")
    assert [tuple(block) for block in blocks] == [
        ("", "Problem:\nx\n"),
        ("EXEMPLARS", "Example\nProblem:\ny\n"),
    ]


@pytest.mark.parametrize(
    ("text", "answer", "fields", "marked"),
    [
        ('{"label": "World"}', "world", {"label": "World"}, "World"),
        ("first 12, then 7, so 12", "12", {}, "12"),
        ("nothing", "12", {}, None),
        ("anything", None, {}, None),
        ("", "x", {}, None),
    ],
)
def test_the_part_that_was_read(text, answer, fields, marked):
    pieces = read_part(text, answer, fields)
    assert "".join(piece for _, piece in pieces) == text
    assert [piece for is_read, piece in pieces if is_read] == ([marked] if marked else [])
    if marked == "12":
        assert pieces[-1] == (True, "12")


def test_an_input_is_not_given_to_the_examples_that_begin_like_it():
    """The examples before it have the same heading twice; the last one is what the bare prompt has."""
    shown = "Examples:\nInput:\na\nAnswer: x\nInput:\nb\nAnswer: y\n"
    prompts = {"C4": "Sort it.\n\nInput:\nc\n", "C5": f"Sort it.\n\n{shown}\nInput:\nc\n"}
    bundles = {"C4": [], "C5": ["EXEMPLARS"]}
    blocks = [tuple(block) for block in prompt_blocks(prompts, bundles, "C5")]
    assert blocks == [("", "Sort it.\n\n"), ("EXEMPLARS", f"{shown}\n"), ("", "Input:\nc\n")]


def test_a_bare_prompt_stands_in_a_full_one_line_by_line():
    bare, full = "Sort it.\n\nInput:\nc\n", "You are a clerk.\nSort it.\nRules: none\nInput:\nc\n"
    assert marked_lines(bare, full) == [(False, bare)]
    assert [alone for alone, _ in marked_lines(full, bare)] == [True, False, True, False]


def test_a_contrast_has_one_corrected_p_value_whichever_page_asks():
    """Against the base all are corrected together; a pair of two others is a family of its own."""
    scores = SliceScores.of(
        {
            "C0": {f"{k}": 0.0 for k in range(20)},
            "C1": {f"{k}": float(k < 6) for k in range(20)},
            "C2": {f"{k}": float(k < 9) for k in range(20)},
        }
    )
    bundles = {"C0": (), "C1": ("A",), "C2": ("A", "B")}
    listed = {one.name: effect for one, effect in contrast_effects(scores, "C0", contrasts_of(bundles, "C0"))}
    shown = {effect.column: effect for effect in slice_effects(scores, "C0", ["C1", "C2"])}
    assert [listed[f"{name} − C0"].p_bh for name in shown] == [effect.p_bh for effect in shown.values()]
    # 6 and 9 items won, none lost: 2 / 64 is the larger of two, and 2 / 512 counts twice
    assert [effect.p_bh for effect in shown.values()] == pytest.approx([2 / 64, 2 * 2 / 512])
    assert listed["C2 − C1"].p_bh == pytest.approx(2 / 8)
    # the full prompt as the base: what it loses without B is what B brings, by the same p-value
    turned = {one.name: effect for one, effect in contrast_effects(scores, "C2", contrasts_of(bundles, "C2"))}
    assert turned["C2 − C1"].p_bh == turned["C1 − C2"].p_bh
    assert (turned["C2 − C1"].low, turned["C2 − C1"].high) == (
        -turned["C1 − C2"].high,
        -turned["C1 − C2"].low,
    )


def test_points_of_many_scores_are_gathered():
    scores = SliceScores.of(
        {"a": {f"i{n}": n / 1000 for n in range(1000)}, "b": {f"i{n}": 0.5 for n in range(1000)}}
    )
    assert len(scatter_points(scores, "a", "b")) == 101
    assert sum(point["n"] for point in scatter_points(scores, "a", "b", digits=1)) == 1000
    assert len(scatter_points(scores, "a", "b", digits=1)) == 11


def test_signs_that_two_rewritten_passages_share_do_not_tear_them_apart():
    spans = word_diff("16 + 18 = 34 red", "6 * 16 = 96 green")
    assert [span.kind for span in spans] == ["gone", "new"]
    spans = word_diff("keep this, drop that, keep end", "keep this, take it now, keep end")
    assert [tuple(span) for span in spans] == [
        ("same", "keep this, "), ("gone", "drop that"), ("new", "take it now"), ("same", ", keep end"),
    ]  # fmt: skip
    for old, new in (("", ""), ("a", ""), ("", "b"), ("x y z", "y"), ("same", "same")):
        spans = word_diff(old, new)
        assert "".join(span.text for span in spans if span.kind != "new") == old
        assert "".join(span.text for span in spans if span.kind != "gone") == new


def test_copies_of_items_are_one_cluster_each():
    """Three of ten texts changed; each text five times over is no further evidence than the texts once."""
    once = {"C0": {f"t{k}": 0.0 for k in range(10)}, "C1": {f"t{k}": float(k < 3) for k in range(10)}}
    copied = {
        name: {f"{item}.{copy}": score for item, score in scores.items() for copy in range(5)}
        for name, scores in once.items()
    }
    labels = {item: item.partition(".")[0] for item in copied["C0"]}
    (alone,) = slice_effects(SliceScores.of(once), "C0", ["C1"])
    (clustered,) = slice_effects(SliceScores.of(copied, labels), "C0", ["C1"])
    (apart,) = slice_effects(SliceScores.of(copied), "C0", ["C1"])
    assert (clustered.n, clustered.n_clusters) == (50, 10)
    assert clustered.p_value == alone.p_value == 0.25  # the exact test of three equal signs
    assert apart.p_value < 1e-3
    assert clustered.low <= alone.low + 0.05


def test_below_six_clusters_an_effect_says_why_it_is_not_tested():
    scores = {"C0": {f"{k}": 0.0 for k in range(20)}, "C1": {f"{k}": 1.0 for k in range(20)}}
    (effect,) = slice_effects(
        SliceScores.of(scores, {f"{k}": f"customer {k % 4}" for k in range(20)}), "C0", ["C1"]
    )
    assert effect.reason == "not tested: 4 clusters, at least 6 are needed"
    assert not effect.holds


def test_limits_of_effects_shown_together_hold_for_all_of_them():
    columns = {"C0": {f"i{k}": 0.0 for k in range(40)}}
    columns |= {f"C{c}": {f"i{k}": float(k < 4 * c) for k in range(40)} for c in range(1, 6)}
    alone = slice_effects(SliceScores.of({name: columns[name] for name in ("C0", "C2")}), "C0", ["C2"])
    together = slice_effects(SliceScores.of(columns), "C0", list(columns))
    assert len(together) == 5
    assert together[1].value == alone[0].value == 0.2
    assert together[1].low < alone[0].low < alone[0].high < together[1].high
