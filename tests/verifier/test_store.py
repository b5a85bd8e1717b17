"""Iterations on disk: numbering, rules that change, several savers at once, savers that die."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from pcsuite._util import changes
from pcsuite._util.files import folder_lock
from pcsuite.errors import DataError, RunLockedError
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.results import Rules, score_bytes
from pcsuite.verifier.store import (
    field_trends,
    read_results,
    rebuild_aggregate,
    save_iteration,
    summarise,
)
from pcsuite.verifier.truth import parse_truth
from support.failing_steps import FailingSystem
from support.results import document

TRUTH = b"field,value\nClimate Zone,7\nCity,Somewhere\nBedrooms,3\nConditioned Floor Area,1000\n"
RIGHT = {
    "project": {"climate_zone": 7, "city": "Somewhere", "bedrooms": 3},
    "envelope": {"conditioned_floor_area": 1000},
}


def rules_of(truth=TRUTH, **changes):
    mapping = load_mapping()
    if changes:
        mapping = mapping.model_copy(update=changes)
    return Rules(parse_truth(truth, mapping), mapping)


def save(folder, record, rules=None, eval_id="house"):
    rules = rules or rules_of()
    data = record if isinstance(record, bytes) else json.dumps(record).encode()
    return save_iteration(folder, score_bytes(data, rules, "x", strict=False), rules, eval_id, "v1")


def aggregate_of(folder):
    return json.loads((folder / "results" / "aggregate.json").read_text(encoding="utf-8"))


def test_each_save_is_the_next_iteration(tmp_path):
    half = {"project": RIGHT["project"] | {"bedrooms": 9, "city": None}, "envelope": None}
    for number, record in enumerate((half, RIGHT, RIGHT, half), start=1):
        saved = save(tmp_path, record)
        assert saved.folder.name == f"iteration-{number:03d}"
        assert {path.name for path in saved.folder.iterdir()} == {
            "eval-results.json",
            "eval-report.html",
            "extracted.json",
        }
    aggregate = aggregate_of(tmp_path)
    assert [entry["trend"] for entry in aggregate["iterations"]] == [
        "first",
        "improved",
        "unchanged",
        "regressed",
    ]
    # of 4 fields 1 right, 2 omitted, 1 wrong: TP 1, FP 1, FN 3, F1 = 2/6
    assert aggregate["iterations"][0]["f1"] == pytest.approx(1 / 3)
    assert aggregate["iterations"][0]["error_counts"] == {
        "omission": 2, "hallucination": 0, "format_error": 0, "wrong_value": 1
    }  # fmt: skip
    assert (aggregate["best_f1"], aggregate["best_iteration"]) == (1.0, 2)  # the first of equals
    assert aggregate["eval_id"] == "house"


def test_results_document(tmp_path):
    document = read_results(save(tmp_path, {"project": {"climate_zone": "7"}}).folder)
    assert document["iteration"] == 1
    assert document["timestamp"].endswith("+00:00")
    assert document["instructions_version"] == "v1"
    assert document["rules_hash"] == load_mapping().rules_hash()
    assert document["metrics"]["errors_by_type"] == {
        "omission": 3, "hallucination": 0, "format_error": 1, "wrong_value": 0
    }  # fmt: skip
    assert set(document["by_section"]) == {"project", "envelope"}
    assert document["discrepancies"][1] == {
        "field_path": "project.climate_zone", "expected": 7, "actual": "7", "error_type": "format_error",
        "note": "text where a number belongs",
    }  # fmt: skip


def test_other_rules_score_earlier_iterations_again(tmp_path):
    record = {"project": RIGHT["project"], "envelope": {"conditioned_floor_area": 1030}}
    save(tmp_path, record)
    loose = load_mapping().tolerances | {
        "default": load_mapping().tolerances["default"].model_copy(update={"relative": 0.05})
    }
    save(tmp_path, record, rules_of(tolerances=loose))
    first, second = aggregate_of(tmp_path)["iterations"]
    assert first["rescored"]["recorded_f1"] == pytest.approx(0.75)
    assert (first["f1"], second["f1"], second["trend"]) == (1.0, 1.0, "unchanged")
    assert read_results(tmp_path / "results" / "iteration-001")["metrics"]["f1"] == pytest.approx(0.75)


def test_another_truth_scores_earlier_iterations_again(tmp_path):
    save(tmp_path, RIGHT)
    save(tmp_path, RIGHT, rules_of(TRUTH.replace(b"Bedrooms,3", b"Bedrooms,4")))
    assert [entry["f1"] for entry in aggregate_of(tmp_path)["iterations"]] == [0.75, 0.75]


def test_iterations_that_cannot_be_scored_again_are_marked(tmp_path):
    saved = save(tmp_path, RIGHT)
    (saved.folder / "extracted.json").unlink()
    save(tmp_path, {"project": RIGHT["project"]}, rules_of(TRUTH.replace(b"1000", b"2000")))
    first, second = aggregate_of(tmp_path)["iterations"]
    assert (first["comparable"], first["trend"]) == (False, "not comparable")
    assert "extraction is gone" in first["note"]
    assert (second["comparable"], second["trend"]) == (True, "first")
    assert aggregate_of(tmp_path)["best_iteration"] == 2


def test_without_rules_those_of_the_newest_iteration_count(tmp_path):
    save(tmp_path, RIGHT)
    save(tmp_path, RIGHT, rules_of(TRUTH.replace(b"1000", b"2000")))
    aggregate = rebuild_aggregate(tmp_path, None)
    assert [entry["comparable"] for entry in aggregate["iterations"]] == [False, True]
    assert aggregate["best_f1"] == 0.75


def test_a_broken_results_file_is_marked(tmp_path):
    save(tmp_path, RIGHT)
    (tmp_path / "results" / "iteration-001" / "eval-results.json").write_text("{")
    save(tmp_path, RIGHT)
    first, second = aggregate_of(tmp_path)["iterations"]
    assert (first["f1"], first["comparable"]) == (None, False)
    assert second["trend"] == "first"


def test_a_record_that_failed_to_parse_scores_zero_and_is_kept(tmp_path):
    saved = save(tmp_path, b'{"project": {"city": ')
    assert saved.document["metrics"]["f1"] == 0
    assert saved.document["metrics"]["errors_by_type"]["omission"] == 4
    assert "not JSON" in saved.document["parse_error"]
    assert (saved.folder / "extracted.json").read_bytes() == b'{"project": {"city": '
    save(tmp_path, RIGHT, rules_of(TRUTH.replace(b"1000", b"2000")))
    assert aggregate_of(tmp_path)["iterations"][0]["f1"] == 0


def test_one_folder_holds_one_eval(tmp_path):
    save(tmp_path, RIGHT)
    with pytest.raises(DataError, match="holds iterations of eval 'house'"):
        save(tmp_path, RIGHT, eval_id="barn")
    assert len(list((tmp_path / "results").glob("iteration-*"))) == 1


def test_text_that_utf8_cannot_hold(tmp_path):
    saved = save(tmp_path, b'{"project": {"city": "\\ud800<u>"}}')
    assert read_results(saved.folder)["discrepancies"]
    assert "<u>" not in saved.report.read_text(encoding="utf-8")


def test_numbering_goes_past_a_thousand(tmp_path):
    save(tmp_path, RIGHT).folder.rename(tmp_path / "results" / "iteration-999")
    assert save(tmp_path, RIGHT).folder.name == "iteration-1000"
    assert save(tmp_path, RIGHT).folder.name == "iteration-1001"
    assert [entry["iteration"] for entry in aggregate_of(tmp_path)["iterations"]] == [999, 1000, 1001]


def _save_many(folder, count):
    for _ in range(count):
        save(folder, RIGHT)


def test_two_processes_lose_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_save_many, args=(tmp_path, 8)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert [entry["iteration"] for entry in aggregate_of(tmp_path)["iterations"]] == list(range(1, 17))
    assert not list((tmp_path / "results").glob(".partial*"))


KILLED = """
import sys
from pathlib import Path
here = Path(sys.argv[2])
sys.path[:0] = [str(here), str(here.parent)]
from test_store import save, RIGHT
print("ready", flush=True)
while True:
    save(Path(sys.argv[1]), RIGHT)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_saver_leaves_whole_iterations_and_a_valid_aggregate(tmp_path):
    rng = random.Random(5)
    here = os.path.dirname(__file__)  # noqa: PTH120
    for _ in range(4):
        saver = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), here], stdout=subprocess.PIPE)
        assert saver.stdout.readline() == b"ready\n"
        time.sleep(0.05 + rng.random() * 0.25)
        saver.send_signal(signal.SIGKILL)
        saver.wait()
        saver.stdout.close()
        results = tmp_path / "results"
        folders = sorted(results.glob("iteration-*"))
        for folder in folders:
            assert read_results(folder)["metrics"]["f1"] == 1.0
            assert (folder / "eval-report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
        if (results / "aggregate.json").exists():
            listed = [entry["iteration"] for entry in aggregate_of(tmp_path)["iterations"]]
            assert listed == list(range(1, len(listed) + 1))
            assert len(folders) - len(listed) in (0, 1)
    save(tmp_path, RIGHT)
    assert len(aggregate_of(tmp_path)["iterations"]) == len(list((tmp_path / "results").glob("iteration-*")))
    assert not list((tmp_path / "results").glob(".partial*"))


def test_a_save_cut_off_at_any_step(tmp_path, monkeypatch):
    def cut():
        raise KeyboardInterrupt

    saved = 1
    save(tmp_path, RIGHT)
    for step in range(1, 60):
        system = FailingSystem(step, cut)
        with monkeypatch.context() as patch:
            patch.setattr(changes, "os", system)
            with suppress(KeyboardInterrupt):
                save(tmp_path, RIGHT)
        listed = rebuild_aggregate(tmp_path, None)["iterations"]
        assert aggregate_of(tmp_path)["iterations"] == listed, f"step {step}"
        assert len(listed) in (saved, saved + 1)
        saved = len(listed)
        assert not [path.name for path in (tmp_path / "results").iterdir() if "artial" in path.name]
        if system.calls < step:
            break
    assert 10 < step < 59


def test_a_lock_that_is_held_is_waited_for_and_then_refused(tmp_path):
    refused = pytest.raises(RunLockedError, match="another process")
    with folder_lock(tmp_path), refused, folder_lock(tmp_path, timeout=0.1):
        pass
    with folder_lock(tmp_path, timeout=0.1):
        pass


def test_trends_ignore_rounding():
    entries = [
        {"iteration": n, "f1": f1, "rules_hash": "r"} for n, f1 in ((1, 0.5), (2, 0.5 + 1e-15), (3, 0.6))
    ]
    assert [e["trend"] for e in summarise("x", entries, "r")["iterations"]] == [
        "first",
        "unchanged",
        "improved",
    ]


def test_field_trends(tmp_path):
    import json

    for number, f1 in ((1, 0.0), (2, 0.5), (3, 1.0)):
        folder = tmp_path / "results" / f"iteration-{number:03d}"
        folder.mkdir(parents=True)
        entry = document() | {
            "iteration": number,
            "metrics": {"f1": f1, "precision": f1, "recall": f1, "errors_by_type": {}},
            "by_field": {"windows[].area": {"f1": f1}, "project.city": {"f1": 1.0}},
        }
        (folder / "eval-results.json").write_text(json.dumps(entry))
    trends = field_trends(tmp_path, rebuild_aggregate(tmp_path, None))
    assert [(trend.field, trend.scores) for trend in trends] == [
        ("windows[].area", (0.0, 0.5, 1.0)),
        ("project.city", (1.0, 1.0, 1.0)),
    ]
    assert trends[0].change == 1.0
