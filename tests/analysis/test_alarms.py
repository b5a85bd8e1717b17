"""What a reader is warned of before any number."""

import json

import pytest

from pcsuite.analysis.analyse import analyse_scores
from pcsuite.analysis.load.runs import RunTables
from support.synthetic_log import LABELS, make_row, write_log


@pytest.fixture
def alarms(tmp_path):
    """The alarms, by kind, of some rows, with a manifest's notes on the task."""

    def found(rows, **task):
        log = write_log(tmp_path / "runs" / "a.jsonl", rows)
        if task:
            manifest = {"run": "a", "tasks": {"agnews_json": task}}
            log.with_suffix(".manifest.json").write_text(json.dumps(manifest))
        with RunTables([log], tmp_path / "tables") as tables:
            return {alarm.kind: alarm.text for alarm in analyse_scores(tables).alarms}

    return found


def cells(make, items=20, conditions=("C0", "C1")):
    """Rows that read: a label that changes with the item, right in half of them."""
    return [
        make_row(
            **{
                "provider": "llamacpp",
                "item": f"i{k:02}",
                "condition": name,
                "answer": LABELS[k % 4],
                "score": float(k % 2),
            }
            | make(name, k)
        )
        for name in conditions
        for k in range(items)
    ]


@pytest.mark.slow
def test_a_run_in_order_has_none(alarms):
    assert alarms(cells(lambda name, k: {}), majority_label="World", majority_share=0.25) == {}


@pytest.mark.slow
def test_simulated_answers_are_called_so_first(alarms):
    rows = cells(lambda name, k: {"provider": "simulated", "answer": None, "score": 0.0})
    found = alarms(rows)
    assert next(iter(found)) == "simulated"
    assert found["simulated"].startswith(
        "Simulated: m1 is not a language model; answers are drawn from effects"
    )


@pytest.mark.slow
def test_unreadable_answers_are_counted_and_the_worst_named(alarms):
    found = alarms(cells(lambda name, k: {"answer": None, "score": 0.0} if name == "C1" and k < 15 else {}))
    assert found["unreadable"].startswith("15 of 40 answers (38%) could not be read and score 0")
    assert found["unreadable"].endswith("(C1 75%).")


@pytest.mark.slow
def test_one_bad_condition_of_many_is_enough(alarms):
    rows = cells(
        lambda name, k: {"finish_reason": "length"} if name == "C5" and k < 8 else {},
        conditions=[f"C{n}" for n in range(7)],
    )
    found = alarms(rows)
    assert found["truncated"].startswith("8 of 140 answers (6%) were cut off at the token limit")
    assert "C5 40%" in found["truncated"]


@pytest.mark.slow
def test_refused_filtered_and_too_long_are_each_counted(alarms):
    ends = {0: "refusal", 1: "content_filter", 2: "blocked: HTTP 400: no", 3: "too_long"}
    found = alarms(
        cells(lambda name, k: {"finish_reason": ends[k]} if name == "C1" and k in ends else {}, 10)
    )
    assert found["refused"].startswith("1 of 20 answers (5%) were refused by the model")
    assert found["filtered"].startswith("2 of 20 answers (10%) were held back by the provider's filter")
    assert found["too long"].startswith("1 of 20 answers (5%) had a prompt too long for the model's context")
    assert found["filtered"].endswith("(C1 20%).")


@pytest.mark.slow
def test_a_few_truncated_answers_are_no_alarm(alarms):
    assert alarms(cells(lambda name, k: {"finish_reason": "length"} if k == 0 else {})) == {}


@pytest.mark.slow
def test_abstentions_are_not_unreadable(alarms):
    declined = {"answer": None, "score": 0.0, "metrics": {"abstained": 1.0}}
    found = alarms(
        cells(lambda name, k: declined if name == "C1" and k < 12 else {"metrics": {"abstained": 0.0}})
    )
    assert set(found) == {"abstained"}
    assert found["abstained"].startswith("12 of 40 answers (30%) decline to answer where there is an answer")


@pytest.mark.slow
def test_abstentions_that_are_right_are_no_alarm(alarms):
    """A third of FEVER's claims have too little evidence, and to say so is the answer."""

    def row(name, k):
        unanswerable = k % 3 == 0
        told = {"abstained": float(unanswerable), "unanswerable": float(unanswerable)}
        return {"metrics": told | ({"abstain_correct": 1.0} if unanswerable else {})}

    assert "abstained" not in alarms(cells(row))


@pytest.mark.slow
def test_a_constant_answer_stands_beside_the_majority_class(alarms):
    found = alarms(
        cells(lambda name, k: {"answer": "World"} if name == "C1" else {}),
        majority_label="Sports",
        majority_share=0.3,
    )
    assert found["nearly constant"] == (
        "Nearly constant: C1 on agnews_json × m1: all of the answers that could be read are “World”; always answering"
        " “Sports” would score 0.30."
    )


@pytest.mark.slow
def test_a_constant_answer_names_the_regime_where_it_is_not_so_in_all(alarms):
    greedy = cells(lambda name, k: {"answer": "World"} if name == "C1" or k else {"answer": "Sports"})
    sampled = cells(
        lambda name, k: {"decoding": "D1", "answer": "World"} if name == "C0" else {"decoding": "D1"}
    )
    assert alarms([*greedy, *sampled])["nearly constant"] == (
        "Nearly constant: C0, C1 under D0 on agnews_json × m1: at least 95% of the answers that could be read are “World”."
    )


@pytest.mark.slow
def test_a_constant_truth_makes_a_constant_answer_right(alarms):
    rows = cells(lambda name, k: {"answer": "World"})
    assert "nearly constant" not in alarms(rows, majority_label="World", majority_share=0.95)


@pytest.mark.slow
@pytest.mark.parametrize(("right", "known"), [(19, False), (10, True)])
def test_an_answer_that_is_nearly_always_right_may_be_nearly_always_given(alarms, right, known):
    """Records of which hardly one has anything in it have no majority label that the manifest could name."""
    rows = cells(lambda name, k: {"answer": "{}" if k else '{"a": 1}', "score": float(k < right)})
    assert ("nearly constant" in alarms(rows)) is known


@pytest.mark.slow
def test_seven_equal_answers_prove_nothing(alarms):
    found = alarms(cells(lambda name, k: {"answer": "World"}, items=7))
    assert "nearly constant" not in found


@pytest.mark.slow
def test_no_condition_beats_the_majority_class(alarms):
    found = alarms(cells(lambda name, k: {}), majority_label="World", majority_share=0.6)
    assert found["majority class"] == (
        "No condition beats the majority class on agnews_json × m1 × D0: the best scores 0.50, always answering"
        " “World” 0.60."
    )


@pytest.mark.slow
@pytest.mark.parametrize(("score", "kind"), [(0.0, "floor"), (1.0, "ceiling")])
def test_floor_and_ceiling(alarms, score, kind):
    assert kind in alarms(cells(lambda name, k: {"score": score}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tp", "fp", "fn", "kinds"),
    [(0, 1, 2, {"floor"}), (2, 0, 0, {"ceiling"}), (1, 1, 1, set()), (0, 0, 1, {"floor"})],
)
def test_floor_and_ceiling_of_pooled_counts_are_those_of_micro_f1(alarms, tp, fp, fn, kinds):
    """A record with nothing in it scores 1 where nothing is said of it; the pooled figure knows that none was found."""

    def row(name, k):
        counts = {"tp": 0, "fp": 0, "fn": 0} if k % 2 else {"tp": tp, "fp": fp, "fn": fn}
        score = 1.0 if k % 2 else 2 * tp / (2 * tp + fp + fn)
        return {"task": "conll03_ner_json", "metrics": counts, "score": score}

    assert alarms(cells(row)).keys() & {"floor", "ceiling"} == kinds


@pytest.mark.slow
def test_a_design_in_which_nothing_can_hold(alarms):
    found = alarms(cells(lambda name, k: {}, items=5))
    assert found["cannot decide"] == "Nothing can hold on agnews_json: 5 items are too few, 6 the least."


@pytest.mark.slow
def test_eight_items_and_eight_comparisons(alarms):
    found = alarms(cells(lambda name, k: {}, items=8, conditions=[f"C{n}" for n in range(8)] + ["D0"]))
    assert found["cannot decide"].startswith("No single effect can hold after correction over 8 comparisons")
    assert found["cannot decide"].endswith("8 items are too few, 9 the least.")


@pytest.mark.slow
def test_unequal_failures(alarms):
    found = alarms(cells(lambda name, k: {"errors": ["timeout"]} if name == "C1" and k < 10 else {}))
    assert found["failed"].startswith("10 of 40 answers (25%) ended in an error")
    assert "C1 50% against 0%" in found["unequal failures"]


@pytest.mark.slow
def test_perturbed_rows_do_not_count(alarms):
    rows = cells(lambda name, k: {})
    rows += cells(lambda name, k: {"answer": None, "perturbation": "typos"})
    assert alarms(rows) == {}


@pytest.mark.slow
def test_a_band_that_nobody_holds_prompts_to_is_no_alarm(tmp_path):
    rows = cells(lambda name, k: {"band": "below"})
    log = write_log(tmp_path / "runs" / "a.jsonl", rows)
    kinds = {}
    for control in ("warn", "off"):
        log.with_suffix(".manifest.json").write_text(json.dumps({"run": "a", "length_control": control}))
        with RunTables([log], tmp_path / "tables") as tables:
            kinds[control] = [alarm.kind for alarm in analyse_scores(tables).alarms]
    assert kinds == {"warn": ["outside their length band"], "off": []}


@pytest.mark.slow
def test_a_sham_that_scores_best_is_named_beside_the_best_that_says_something(alarms):
    def row(name, k):
        bundle = {"C1": ("ROLE", "GOAL"), "S2": ("ROLE", "GOAL", "SHAM_RULES")}.get(name, ())
        return {"operators": bundle, "score": float(k < {"C0": 8, "C1": 9, "S2": 12}[name])}

    rows = cells(row, conditions=("C0", "C1", "S2"))
    assert alarms(rows)["sham is best"] == (
        "The best condition is a sham: S2 scores 0.60 on agnews_json × m1 × D0, the best other one, C1, 0.45:"
        " length, place or chance does as much there as what any block says."
    )


@pytest.mark.slow
def test_a_sham_that_ties_with_the_best_is_none(alarms):
    rows = cells(
        lambda name, k: {"operators": ("SHAM_RULES",) if name == "S2" else ()}, conditions=("C0", "S2")
    )
    assert "sham is best" not in alarms(rows)


@pytest.mark.slow
def test_comparisons_of_nothing_with_nothing_are_counted_out(alarms):
    dead = cells(lambda name, k: {"model": "m2", "score": 0.0}, conditions=("C0", "C1", "C2"))
    found = alarms([*cells(lambda name, k: {}, conditions=("C0", "C1", "C2")), *dead])
    assert found["both at the floor"] == (
        "2 of 4 comparisons have both sides below 0.02 (agnews_json × m2 2): they can show nothing; count 2 where"
        " shares of comparisons are told."
    )


@pytest.mark.slow
def test_an_effect_of_the_form_alone_is_told_under_both_readings(alarms):
    def row(name, k):
        return {"score": float(name == "C1" and k < 16), "metrics": {"lenient_score": float(k < 16)}}

    assert alarms(cells(row))["form"] == (
        "Strict and lenient reading disagree on 1 effect: what changed is the form of the answers, not the answers"
        " (most: C1 on agnews_json × m1 × D0, +0.80 strictly read, +0.00 leniently)."
    )


@pytest.mark.slow
def test_an_operator_that_works_otherwise_in_another_bundle_has_no_share_of_its_own(alarms):
    """The checklist takes nothing from C3 and all from examples, as it did where it stood behind the question."""
    bundles = {
        "C0": (),
        "C3": ("SCHEMA",),
        "C4": ("SCHEMA", "VERIFIER"),
        "C5": ("SCHEMA", "VERIFIER", "EXEMPLARS"),
        "few": ("SCHEMA", "EXEMPLARS"),
    }

    def row(name, k):
        return {"operators": bundles[name], "score": float(k < 70) if name == "few" else float(k < 20)}

    found = alarms(cells(row, items=80, conditions=tuple(bundles)))
    assert found["interaction"].startswith(
        "Effects do not add up: EXEMPLARS changes the score by +0.00 from C4 to C5 and +0.62 from C3 to few on"
    )
