from dataclasses import replace

from pcsuite.ablation.document import document
from pcsuite.ablation.page import render_ablation
from pcsuite.ablation.picture import markdown, print_ablation
from pcsuite.ablation.sentences import headline
from support.ablating import printed


def test_the_headline_names_what_helps_and_hurts(ablated):
    assert "rules helps" in headline(ablated)
    assert "noise hurts" in headline(ablated)


def test_what_changes_the_form_alone_is_told_apart_wherever_its_effect_stands(ablated):
    lenient = replace(ablated.verdicts[0].effect, value=-0.03)
    verdicts = [
        replace(entry, lenient=lenient, lenient_verdict="undecided", form="the form, not the answer")
        if entry.block == "rules"
        else entry
        for entry in ablated.verdicts
    ]
    formal = replace(ablated, verdicts=verdicts)
    effect = next(entry.effect.value for entry in verdicts if entry.block == "rules")
    words = f"the form, not the answer ({effect:+.2f} strictly read, -0.03 leniently)"
    assert headline(formal).endswith(f"; rules: {words}.")
    assert "rules helps" not in headline(formal)
    assert f"helps: {words}" in printed(print_ablation, formal)
    assert f"helps: {words}" in markdown(formal)
    assert f"helps: {words}" in render_ablation(formal)
    record = next(entry for entry in document(formal)["verdicts"] if entry["block"] == "rules")
    assert (record["form"], record["lenient_effect"]) == ("the form, not the answer", -0.03)


def test_answers_that_can_be_read_in_two_ways_are_told_before_anything_else(ablated):
    arms = [replace(arm, ambiguous=3) if arm.id == "full" else arm for arm in ablated.arms]
    told = f"3 answers can be read in two ways (full 3): look at them first (pcsuite view {ablated.log})"
    assert told in printed(print_ablation, replace(ablated, arms=arms)).replace("\n", " ")
    assert "in two ways" not in markdown(ablated)


def test_an_undecided_block_whose_interval_excludes_0_says_why(ablated):
    entry = next(entry for entry in ablated.verdicts if entry.block == "rules")
    effect = replace(entry.effect, low=0.01, value=0.09, high=0.18)
    odd = replace(entry, verdict="undecided", alone=effect, p_value=0.25, more_items=115, note="")
    plain = replace(odd, alone=replace(effect, low=-0.01))
    for given, told in (
        (odd, "rules: its interval by itself excludes 0, but its test corrected over all blocks does not reject (p 0.250);"
              " about 115 more items would decide it"),
        (plain, "rules: about 115 more items would decide it"),
    ):  # fmt: skip
        assert told in printed(print_ablation, replace(ablated, verdicts=(given,)))
