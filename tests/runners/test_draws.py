"""Example sets and wordings that items draw: the same in every condition, related where they share examples."""

from collections import Counter

import pytest

from pcsuite.config.load import load_suite
from pcsuite.config.profile import DrawSection
from pcsuite.errors import ConfigError, DataError
from pcsuite.logging.log import iter_newest_rows
from pcsuite.logging.row import PerturbationRef
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile

# The bundled training split has six items, and no two sets share one.
DRAW = {"example_sets": 3, "examples_per_set": 2, "wordings": 3}


def planned(folder, *, draw=DRAW, conditions=("C0", "C2", "C5"), items=24, **sections):
    more = {"draw": draw} if draw else {}
    path = write_profile(
        folder, tasks=("trec",), conditions=conditions, regimes=("D0",), items=items, **more, **sections
    )
    return build_plan(load_suite(path))


def test_items_draw_the_same_in_every_condition_and_not_all_the_same(tmp_path):
    plan = planned(tmp_path)
    task = plan.tasks["trec"]
    by_item = {item.item_id: {cell.drawn(item) for cell in plan.cells} for item in task.items}
    assert all(len(drawn) == 1 for drawn in by_item.values())
    drawn = [next(iter(one)) for one in by_item.values()]
    assert {one.example_set for one in drawn} == {0, 1, 2}
    assert {one.wording for one in drawn} == {0, 1, 2}
    assert {item.cluster for item in task.items} == {f"examples {one.example_set}" for one in drawn}


def test_an_item_is_shown_its_set_and_its_wording(tmp_path):
    plan = planned(tmp_path)
    task = plan.tasks["trec"]
    shots = next(cell for cell in plan.cells if cell.condition.id == "C5")
    for item in task.items:
        prompt, drawn = shots.tree(item).assemble(), shots.drawn(item)
        first, second = task.example_sets[drawn.example_set]
        others = [entry for shown in task.example_sets for entry in shown if entry not in (first, second)]
        assert f"{first.input_text}\nAnswer:\n{first.output_text}" in prompt
        assert second.input_text in prompt
        assert len(others) == 4
        assert not any(entry.input_text in prompt for entry in others)
        heading = ("Examples:", "Solved cases:", "Here is how it is done:")[drawn.wording]
        assert heading in prompt
        rules = ("Rules:", "Follow these rules:", "These rules hold:")[drawn.wording]
        assert rules in prompt
        assert (task.spec.instruction in prompt) == (drawn.wording == 0)


def test_without_a_draw_nothing_changes_and_with_one_rows_are_others(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with_draw, without = planned(tmp_path / "a"), planned(tmp_path / "b", draw=None)
    ids = [{unit.run_id for unit in plan.units("sim")} for plan in (with_draw, without)]
    assert not ids[0] & ids[1]
    assert without.tasks["trec"].example_sets == ()
    # The first set is the one that everybody has without a draw.
    assert with_draw.tasks["trec"].example_sets[0] == without.tasks["trec"].prompting.exemplars[:2]
    assert with_draw.suite.settings["draw.example_sets"] == 3
    assert with_draw.suite.config_hash != without.suite.config_hash


def test_a_condition_may_fix_the_wording(tmp_path):
    (tmp_path / "conditions.yaml").write_text(
        "version: '1.0'\nconditions:\n  a: [CONSTRAINTS]\n  b: {extends: a, reworded: 2}\n  c: {extends: b, operators: []}\n"
    )
    plan = planned(tmp_path, conditions=("a", "b", "c"), suite={"conditions_ref": "conditions.yaml"})
    cells = {cell.condition.id: cell for cell in plan.cells}
    for item in plan.tasks["trec"].items:
        assert cells["b"].drawn(item).wording == cells["c"].drawn(item).wording == 2
        assert "These rules hold:" in cells["b"].tree(item).assemble()
    assert len({cells["a"].drawn(item).wording for item in plan.tasks["trec"].items}) == 3


def test_rows_have_the_example_set_as_their_cluster(tmp_path):
    path = write_profile(
        tmp_path, tasks=("trec",), conditions=("C0", "C5"), regimes=("D0",), items=12, draw=DRAW
    )
    suite = load_suite(path)
    run_suite(suite, quiet=True)
    rows = list(iter_newest_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    task = build_plan(suite).tasks["trec"]
    by_item = {item.item_id: item.cluster for item in task.items}
    assert Counter((row.task.item_id, row.task.cluster) for row in rows) == Counter(
        dict.fromkeys(by_item.items(), 2)
    )


def test_perturbed_prompts_beside_a_draw_are_refused(tmp_path):
    path = write_profile(tmp_path, tasks=("trec",), draw=DRAW)
    with pytest.raises(ConfigError, match="items that draw their wording have no perturbed prompts"):
        build_plan(load_suite(path), [PerturbationRef("paraphrase", "paraphrase-1")])


@pytest.mark.parametrize("draw", [{"example_sets": 0}, {"wordings": 5}, {"sets": 3}])
def test_a_draw_that_cannot_be_is_refused(draw):
    with pytest.raises(ValueError, match="draw|Draw|greater|less|extra"):
        DrawSection.model_validate(draw)


def test_examples_may_be_items_that_are_not_scored(tmp_path):
    draw = {"example_sets": 5, "examples_per_set": 2, "examples_from": "unscored", "wordings": 3}
    task = planned(tmp_path, draw=draw, items=14).tasks["trec"]
    shown = [entry.input_text for shown in task.example_sets for entry in shown]
    assert len(set(shown)) == len(shown) == 10
    assert not set(shown) & {item.input_text for item in task.items}
    fewer = planned(tmp_path, draw=draw, items=9).tasks["trec"]
    assert fewer.example_sets == task.example_sets  # the same whatever part is scored


@pytest.mark.parametrize(
    ("source", "items", "found"),
    [("train", 24, "trec_train.jsonl has 6"), ("unscored", 20, "trec_test.jsonl has 4")],
)
def test_too_few_items_for_the_examples_are_named_with_a_remedy(tmp_path, source, items, found):
    draw = {"example_sets": 4, "examples_per_set": 2, "examples_from": source}
    with pytest.raises(
        DataError, match=f"task 'trec': 4 sets of 2 exemplars need 8 items.*{found}"
    ) as caught:
        planned(tmp_path, draw=draw, items=items)
    assert "draw.example_sets" in caught.value.hint
