"""The loop with extractors whose skill is known, so that every decision can be worked out."""

import copy
import json
import shutil
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.errors import DataError
from pcsuite.verifier.evals import find_evals
from pcsuite.verifier.improve.loop import ImproveConfig, ImprovementLoop
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import read_truth

SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "buildingspec"
TRAIN = ("fig-lane-flat", "thistle-adu", "wren-cabin")
HELD_OUT = ("brass-kettle-studio", "pebble-house")
MAPPING = load_mapping()
SKILLS = ("zones", "windows", "walls")


@pytest.fixture
def evals(tmp_path):
    for name in (*TRAIN, *HELD_OUT):
        (tmp_path / "evals" / name).mkdir(parents=True)
        for file in ("ground_truth.csv", "document.txt"):
            shutil.copy(SAMPLES / name / file, tmp_path / "evals" / name / file)
    return find_evals(tmp_path / "evals")


def truths(evals):
    return {
        (one.folder / "document.txt").read_text(encoding="utf-8"): compared_record(
            read_truth(one.folder / "ground_truth.csv", MAPPING).record, MAPPING
        )
        for one in evals
    }


class Extractor:
    """Extracts everything, except the parts of :data:`SKILLS` its prompt does not mention."""

    def __init__(self, evals):
        self.truths = truths(evals)
        self.calls = []
        self.fail_after = None

    def __call__(self, prompt, document):
        if self.fail_after is not None and len(self.calls) >= self.fail_after:
            raise KeyboardInterrupt
        self.calls.append((prompt.version, document))
        record = copy.deepcopy(self.truths[document])
        for skill in SKILLS:
            if skill not in prompt.text:
                record.pop(skill, None)
        if "guess" in prompt.text:
            record["invented"] = {str(n): n for n in range(40)}
        if "overfit" in prompt.text and "Pebble House" in document:
            record = {"project": record["project"]}
        if "slightly" in prompt.text and "Pebble House" in document:
            lost = [part for part in record if part == "hvac_systems" or part.endswith("_constructions")]
            record = {part: value for part, value in record.items() if part not in lost}
        return record


class Scripted:
    """Proposes given lines, one after the other; remembers what it was shown."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.shown = []

    def __call__(self, failures, prompt):
        self.shown.append((failures, prompt))
        return f"{prompt}\n{self.lines.pop(0)}"


def loop(evals, tmp_path, extract, propose, **config):
    config = {"held_out": HELD_OUT, **config}
    return ImprovementLoop(evals, tmp_path / "improve", MAPPING, ImproveConfig(**config), extract, propose)


@pytest.mark.slow
def test_what_helps_is_kept_and_what_hurts_is_rolled_back(evals, tmp_path):
    extract = Extractor(evals)
    propose = Scripted("read zones", "guess a lot", "read windows", "read walls")
    result = loop(evals, tmp_path, extract, propose).run("Extract the building.")
    assert [step.decision for step in result.steps] == ["baseline", "kept", "rolled back", "kept", "kept"]
    assert "training" in result.steps[2].reason
    assert result.stopped == "perfect"
    assert result.prompt.text == "Extract the building.\nread zones\nread windows\nread walls"
    assert result.best.train_f1 == result.best.held_out_f1 == 1.0
    assert result.gap == 0.0
    assert "guess" not in propose.shown[2][1]


def test_a_gain_in_training_that_hurts_held_out_evals_is_rolled_back(evals, tmp_path):
    result = loop(evals, tmp_path, Extractor(evals), Scripted("read walls, overfit", "x"), patience=1).run(
        "Start."
    )
    assert result.steps[1].decision == "rolled back"
    assert result.steps[1].train_f1 > result.steps[0].train_f1
    assert "held-out" in result.steps[1].reason
    assert result.steps[1].held_out_low < 0
    assert result.stopped == "plateau"
    assert result.prompt.text == "Start."


@pytest.mark.slow
def test_a_mean_gain_is_not_enough_where_one_held_out_eval_falls_by_more_than_the_margin(evals, tmp_path):
    changed = Scripted("read walls, slightly worse elsewhere", "x")
    result = loop(evals, tmp_path, Extractor(evals), changed, patience=1).run("Start.")
    assert result.steps[1].held_out_change > 0
    assert result.steps[1].held_out_low < -0.02
    assert result.steps[1].decision == "rolled back"
    changed = Scripted("read walls, slightly worse elsewhere", "x")
    tolerant = loop(evals, tmp_path / "2", Extractor(evals), changed, patience=1, margin=0.5).run("Start.")
    assert tolerant.steps[1].decision == "kept"


def test_the_paired_difference_is_over_the_held_out_evals(evals, tmp_path):
    result = loop(evals, tmp_path, Extractor(evals), Scripted("zones"), max_iterations=1).run("Start.")
    first, second = result.steps
    changes = [second.scores[name] - first.scores[name] for name in HELD_OUT]
    assert second.held_out_change == pytest.approx(sum(changes) / 2)
    assert second.held_out_low == pytest.approx(min(changes))
    assert second.held_out_high == pytest.approx(max(changes))
    assert second.train_f1 == pytest.approx(sum(second.scores[name] for name in TRAIN) / 3)
    assert result.gap == pytest.approx(second.train_f1 - second.held_out_f1)


@pytest.mark.slow
def test_the_proposer_never_sees_the_held_out_evals(evals, tmp_path):
    propose = Scripted("zones", "nothing", "walls")
    loop(evals, tmp_path, Extractor(evals), propose, max_iterations=3).run("Start.")
    assert len(propose.shown) == 3
    for failures, _ in propose.shown:
        assert failures
        assert {example["eval_id"] for failure in failures for example in failure.examples} <= set(TRAIN)
        counts = [failure.count for failure in failures]
        assert counts == sorted(counts, reverse=True)
    assert all(failure.error_type == "omission" for failure in propose.shown[0][0])


@pytest.mark.slow
def test_plateau(evals, tmp_path):
    propose = Scripted("zones", "a", "b", "c", "d", "e")
    result = loop(evals, tmp_path, Extractor(evals), propose, patience=2).run("Start.")
    assert [step.decision for step in result.steps] == ["baseline", "kept", "rolled back", "rolled back"]
    assert result.stopped == "plateau"


def test_an_unchanged_prompt_costs_no_extraction(evals, tmp_path):
    extract = Extractor(evals)
    result = loop(evals, tmp_path, extract, lambda failures, prompt: prompt, patience=2).run("Start.")
    assert len(extract.calls) == len(evals)
    assert result.steps[1].reason == "the prompt did not change"


@pytest.mark.slow
@pytest.mark.parametrize("kill_after", [0, 1, 4, 5, 6, 9, 10, 13])
def test_a_killed_loop_goes_on_and_asks_for_nothing_twice(evals, tmp_path, kill_after):
    lines = ("zones", "guess", "windows walls")
    whole = loop(evals, tmp_path / "whole", Extractor(evals), Scripted(*lines)).run("Start.")
    extract, propose = Extractor(evals), Scripted(*lines)
    extract.fail_after = kill_after
    with pytest.raises(KeyboardInterrupt):
        loop(evals, tmp_path, extract, propose).run("Start.")
    extract.fail_after = None
    resumed = loop(evals, tmp_path, extract, propose).run("Start.")
    assert len(extract.calls) == len(set(extract.calls)) == 4 * len(evals)
    assert propose.lines == []
    assert resumed.prompt.text == whole.prompt.text
    assert [(s.decision, s.scores) for s in resumed.steps] == [(s.decision, s.scores) for s in whole.steps]


@pytest.mark.slow
def test_a_finished_loop_stays_finished(evals, tmp_path):
    extract = Extractor(evals)
    first = loop(evals, tmp_path, extract, Scripted("zones"), max_iterations=1).run("Start.")
    calls = len(extract.calls)
    again = loop(evals, tmp_path, extract, Scripted(), max_iterations=1).run("Start.")
    assert again == first
    assert len(extract.calls) == calls
    longer = loop(evals, tmp_path, extract, Scripted("walls"), max_iterations=2).run("Start.")
    assert longer.steps[:2] == first.steps
    assert len(longer.steps) == 3


def test_propose_only_leaves_the_draft_for_a_person(evals, tmp_path):
    result = loop(evals, tmp_path, Extractor(evals), Scripted("maybe")).run("Start.", propose_only=True)
    assert result.stopped == "proposed"
    draft = tmp_path / "improve" / "prompts" / "v001.txt"
    assert draft.read_text() == result.prompt.text == "Start.\nmaybe"
    assert json.loads((tmp_path / "improve" / "failures" / "v001.json").read_text())["failures"]
    draft.write_text("Start. Read zones, windows and walls.")
    finished = loop(evals, tmp_path, Extractor(evals), Scripted()).run("Start.")
    assert finished.stopped == "perfect"
    assert finished.prompt.text == "Start. Read zones, windows and walls."


def test_answers_that_are_no_record_score_zero(evals, tmp_path):
    result = loop(evals, tmp_path, lambda prompt, document: "I cannot.", Scripted("x"), patience=1).run(
        "Start."
    )
    assert set(result.steps[0].scores.values()) == {0.0}


@pytest.mark.slow
def test_a_state_made_under_other_rules_is_refused(evals, tmp_path):
    loop(evals, tmp_path, Extractor(evals), Scripted("zones"), max_iterations=1).run("Start.")
    with pytest.raises(DataError, match="another configuration"):
        loop(evals, tmp_path, Extractor(evals), Scripted(), margin=0.5).run("Start.")
    (evals[0].folder / "document.txt").write_text("another document")
    with pytest.raises(DataError, match="other evals"):
        loop(evals, tmp_path, Extractor(evals), Scripted(), max_iterations=1).run("Start.")


def test_steps_store_what_they_were_made_under(evals, tmp_path):
    loop(evals, tmp_path, Extractor(evals), Scripted("zones"), max_iterations=1).run("Start.")
    state = json.loads((tmp_path / "improve" / "state.json").read_text())
    for step in state["steps"]:
        assert step["rules_hash"] == MAPPING.rules_hash()
        assert step["config_hash"] == ImproveConfig(held_out=HELD_OUT).config_hash()
        assert set(step["scores"]) == {*TRAIN, *HELD_OUT}
    assert [step["prompt_version"] for step in state["steps"]] == [0, 1]


@pytest.mark.parametrize(
    ("held_out", "words"),
    [((), "no evals are held out"), ((*TRAIN, *HELD_OUT), "every eval"), (("peble-house",), "did you mean")],
)
def test_held_out_evals_must_make_sense(evals, tmp_path, held_out, words):
    with pytest.raises(DataError, match=words):
        loop(evals, tmp_path, Extractor(evals), Scripted(), held_out=held_out)
