"""Judged scores beside gold labels: what is drawn, what counts as labelled, what corrected contrasts and checks say."""

import numpy as np
import pytest

from pcsuite.analysis.judging import (
    UNREAD,
    CellGold,
    Gold,
    agreements,
    draw_sample,
    judges_of,
    powered_contrast,
    read_gold,
    sample_words,
)
from pcsuite.analysis.load.item_scores import CellKey
from pcsuite.config.load import load_suite
from pcsuite.errors import AnalysisError
from pcsuite.logging.labels import Labels, write_sample
from pcsuite.logging.manifest import RunManifest, read_manifest
from pcsuite.runners.run_suite import run_suite
from support.judged import is_good, write_judged_profile


def cell(judged, labelled):
    return CellGold(dict(enumerate(judged)), labelled)


def test_a_contrast_by_hand():
    # A judge that passes everything: the effect is that of the labels, 12 items with differences 1 (×6) and 0 (×6).
    treated = cell([1.0] * 40, dict.fromkeys(range(12), (1.0, 1.0)))
    control = cell([1.0] * 40, {item: (float(item >= 6), 1.0) for item in range(12)})
    found = powered_contrast([(1.0, treated), (-1.0, control)])
    assert found.estimate.value == pytest.approx(0.5)
    assert (found.estimate.n, found.unlabelled, found.tuning) == (12, 28, 0.0)


def test_only_items_that_all_sides_have_count():
    treated = cell([1.0] * 30, dict.fromkeys(range(20), (1.0, 1.0)))
    control = CellGold(dict.fromkeys(range(15), 1.0), dict.fromkeys(range(5, 15), (0.0, 1.0)))
    found = powered_contrast([(1.0, treated), (-1.0, control)])
    assert (found.estimate.n, found.unlabelled) == (10, 5)
    control.labelled.pop(5)
    assert powered_contrast([(1.0, treated), (-1.0, control)]) is None


def test_cells_that_nobody_judged_have_no_contrast():
    key = CellKey("t", "m", "D0", "none", "C0")
    assert Gold().contrast({key: 1.0}) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judging")
    judging = {"sensitivity": 1.0, "specificity": 1.0, "unreadable": {"C1": 0.4, "default": 0.0}}
    path = write_judged_profile(folder, items=40, judging=judging, regimes=("D1",))
    return run_suite(load_suite(path), quiet=True).paths.log


def test_one_answer_of_each_cell_and_item_is_drawn(run):
    manifest = read_manifest(run)
    sample = draw_sample(run, manifest, items=15)
    assert len(sample.items["advice"]) == 15
    assert sample.frame == {"advice": 40}
    drawn = [run_id for unit in sample.units for run_id in unit.run_ids]
    assert len(drawn) == len(set(drawn)) == 15 * 2  # two conditions; of two seeds one
    assert sample.units == draw_sample(run, manifest, items=15).units
    assert draw_sample(run, manifest, items=15, seed="other").items != sample.items
    narrow = draw_sample(run, manifest, items=15, conditions=["C0"])
    assert sum(len(unit.run_ids) for unit in narrow.units) == 15


def test_nothing_to_draw_is_said(run):
    with pytest.raises(AnalysisError, match="no judged task"):
        draw_sample(run, RunManifest(), items=5)
    with pytest.raises(AnalysisError, match="no judged answer"):
        draw_sample(run, read_manifest(run), items=5, models=["nobody"])


def test_unreadable_verdicts_are_predictions_that_know_nothing(run):
    gold = read_gold([run])
    unread = CellKey("advice", "sim", "D1", "none", "C1")
    values = list(gold.cells[unread].judged.values())
    assert any(value in (UNREAD, UNREAD / 2, (1 + UNREAD) / 2) for value in values)
    assert all(0 <= value <= 1 for value in values)


def test_agreement_counts_what_could_not_be_read(run):
    sample = draw_sample(run, read_manifest(run), items=30)
    write_sample(run, sample)
    labels = Labels(run)
    for unit in sample.units:
        labels.add(unit, "pass_fail", "pass" if is_good(unit.answer) else "fail")
    found = {entry["condition"]: entry for entry in agreements(run, judges_of(read_manifest(run)))}
    assert list(found) == ["all", "C0", "C1"]
    assert found["C0"]["unreadable"] == 0
    assert found["C1"]["unreadable"] > 0
    assert found["all"]["agreement"] == 1.0  # of those that could be read
    assert found["C0"]["bias"] == 0
    assert found["C0"]["bias_low"] < 0 < found["C0"]["bias_high"]  # never of zero width
    assert (found["C0"]["sensitivity"], found["C0"]["specificity"]) == (1.0, 1.0)


def test_a_judge_that_goes_by_length_is_found_out(tmp_path):
    """Replies that pass whatever is long, by a judge on a server."""
    from support.loopback import LoopbackServer

    def answer(body):
        prompt = body["messages"][-1]["content"]
        if "Rubric:" not in prompt:
            number = int("".join(filter(str.isdigit, prompt))[:4] or 0)
            return "Open it. " * (9 if number % 2 else 1)
        shown = prompt.split("<answer>")[1].split("</answer>")[0]
        return '{"verdict": "pass"}' if len(shown) > 40 else '{"verdict": "fail"}'

    known = {"provider": "openai", "family": "f", "size": "7B", "model": "m", "structured": "none"}
    with LoopbackServer(answer=answer) as server:
        models = {name: known | {"base_url": server.base_url} for name in ("remote", "judge")}
        path = write_judged_profile(tmp_path, items=24, models=models, conditions=("C0",))
        log = run_suite(load_suite(path), quiet=True).paths.log
    sample = draw_sample(log, read_manifest(log), items=24)
    write_sample(log, sample)
    for place, unit in enumerate(sample.units):
        Labels(log).add(unit, "pass_fail", "pass" if place % 2 else "fail")  # people do not go by length
    (whole, _) = agreements(log, judges_of(read_manifest(log)))
    assert whole["length_bias"] > 0.5
    assert whole["length_bias_low"] > 0
    assert np.isfinite(whole["bias"])


def test_labelled_items_are_held_against_the_rest():
    key, other = (CellKey("t", "m", "D0", "none", name) for name in ("C0", "C1"))
    # The judge passes all twelve labelled items and half of the other forty.
    judged = [1.0] * 12 + [1.0, 0.0] * 20
    cells = {key: cell(judged, dict.fromkeys(range(12), (1.0, 1.0))), other: cell(judged, {})}
    sample = Gold(cells=cells).sample("t")
    assert (sample.labelled, sample.others) == (1.0, 0.5)
    assert not sample.alike
    assert sample_words(sample) == (
        "labelled items are unlike the rest: the judge passes 1.00 of them and 0.50 of the others (difference +0.50"
        " [+0.34, +0.66]); corrected effects hold for items like those labelled"
    )
    # Half of the labelled ones pass too: nothing to tell, unless asked.
    alike = Gold(cells={key: cell([1.0, 0.0] * 26, dict.fromkeys(range(12), (1.0, 1.0)))}).sample("t")
    assert sample_words(alike) == ""
    assert sample_words(alike, always=True).startswith(
        "labelled items resemble the rest: the judge passes 0.50"
    )
    # All twelve are of one customer, who is no sample of customers: nothing can be said by cluster.
    cells[key].clusters |= {item: "one" if item < 12 else f"c{item % 10}" for item in range(52)}
    assert Gold(cells=cells).sample("t") is None
    assert Gold(cells={key: cell(judged, {})}).sample("t") is None


def test_labels_of_related_items_correct_by_cluster():
    labelled = dict.fromkeys(range(20), (1.0, 1.0))
    treated, control = (
        cell([1.0] * 40, labelled),
        cell([1.0] * 40, {k: (float(k % 2), 1.0) for k in range(20)}),
    )
    alone = powered_contrast([(1.0, treated), (-1.0, control)])
    treated.clusters |= {item: f"c{item % 8}" for item in range(40)}
    clustered = powered_contrast([(1.0, treated), (-1.0, control)])
    assert clustered.estimate.value == alone.estimate.value == pytest.approx(0.5)
    assert clustered.estimate.method.endswith("8 clusters labelled")
    assert clustered.estimate.low <= alone.estimate.low
