"""Answers are drawn to be labelled; labels of an earlier sample are counted, not lost in silence."""

import csv

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import LogError
from pcsuite.logging.labels import Labels, read_sample
from pcsuite.runners.judge_sample import write_labelling_sheet
from pcsuite.runners.run_suite import run_suite
from support.judged import write_judged_profile


def test_there_is_nothing_to_draw_from_before_a_run(tmp_path):
    suite = load_suite(write_judged_profile(tmp_path, items=2))
    with pytest.raises(LogError, match="no run to draw from"):
        write_labelling_sheet(suite, items=2)


def test_a_smaller_sample_says_which_labels_it_leaves_out(tmp_path, capsys):
    path = write_judged_profile(tmp_path, items=6)
    suite = load_suite(path, {"run.name": "other"})
    log = run_suite(suite, quiet=True).paths.log
    sheet = write_labelling_sheet(suite, items=6)
    with sheet.table.open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == len(sheet.sample.units)
    for unit in sheet.sample.units:
        Labels(log).add(unit, "pass_fail", "pass")
    smaller = write_labelling_sheet(suite, items=2, table=tmp_path / "two.csv")
    assert (smaller.log, smaller.table) == (log, tmp_path / "two.csv")
    assert len(smaller.sample.items["advice"]) == 2
    assert smaller.labelled == len(smaller.sample.units)
    assert smaller.labelled + smaller.outside == len(sheet.sample.units)
    assert read_sample(log) == smaller.sample
    # What the command says next is about the same run.
    assert main(["judge", "sample", "--config", str(path), "--name", "other", "--items", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"then    pcsuite judge check --config {path} --name other --labels " in shown
    assert f"label   pcsuite view other --output-dir {log.parent.parent}, page Label" in shown
