"""Reading HELM's folders: figures that equal its own, intervals it does not give, and runs without results."""

import json
import os

import pytest

from pcsuite.errors import AnalysisError
from pcsuite.integrations.helm.results import (
    FAILURES,
    HelmInstance,
    helm_tables,
    main_score,
    read_helm_runs,
    task_of,
)
from support.helm_folder import SCENARIO, write_run

NAMES = {"pcsuite/tiny": "tiny"}


def table(runs, name):
    return next(one for one in helm_tables(runs, NAMES) if one.name == name)


def test_a_figure_equals_helms_own_and_gets_the_interval_of_a_proportion(tmp_path):
    write_run(tmp_path, {f"id{k}": [float(k < 3)] for k in range(10)}, truncated=("id7",))
    (run,) = read_helm_runs(tmp_path)
    assert (run.status, run.scenario, run.model, len(run.instances)) == (
        "complete",
        SCENARIO,
        "pcsuite/tiny",
        10,
    )
    (record,) = table([run], "helm_metrics").records()
    low, high = 0.087264, 0.619411  # Blaker's, within the exact one's 0.0667 to 0.6525
    assert record["value"] == record["helm_value"] == pytest.approx(0.3)
    assert (record["value_low"], record["value_high"]) == (
        pytest.approx(low, abs=1e-5),
        pytest.approx(high, abs=1e-5),
    )
    assert (record["metric"], record["main"], record["interval"]) == (
        "exact_match",
        True,
        "blaker",
    )
    assert (record["model"], record["task"], record["n_instances"]) == ("tiny", "truthfulqa_mc", 10)
    (shown,) = table([run], "helm_runs").records()
    assert (shown["instances"], shown["prompts_truncated"]) == (10, 1)


def test_trials_are_averaged_within_the_instance_and_perturbed_copies_left_out(tmp_path):
    write_run(tmp_path, {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [0.0, 0.0]}, outputs={"a": "=B"})
    (run,) = read_helm_runs(tmp_path)
    assert run.scores("exact_match", "valid") == [0.5, 1.0, 0.0]
    assert run.means == {("exact_match", "valid"): 0.5, ("num_instances", "valid"): 9.0}
    (record,) = table([run], "helm_metrics").records()
    assert (record["value"], record["n_instances"]) == (0.5, 3)
    first = next(table([run], "helm_instances").records())
    assert (first["instance_id"], first["trials"], first["output"]) == ("a", 2, "=B")
    assert (first["correct_references"], first["finish_reason"], first["exact_match"]) == (
        "right a",
        "length",
        0.5,
    )


def test_a_graded_metric_gets_a_bootstrap_interval_around_its_mean(tmp_path):
    values = [0.1, 0.2, 0.9, 0.4, 0.6, 0.7, 0.3, 0.8, 0.5, 0.25, 0.35, 0.65]
    scores = {f"id{k}": [value] for k, value in enumerate(values)}
    write_run(tmp_path, scores, metric="f1_score", scenario="natural_qa:mode=closedbook")
    (record,) = table(read_helm_runs(tmp_path), "helm_metrics").records()
    assert record["interval"] == "bayesian bootstrap, end item"
    assert record["value_low"] < sum(values) / 12 < record["value_high"]
    # The normal interval of these values is 0.479 ± 0.155; this one must be of that size.
    assert 0.25 < record["value_high"] - record["value_low"] < 0.40


def test_every_way_to_have_no_results_is_one_line(tmp_path):
    good = write_run(tmp_path, {"a": [1.0], "b": [0.0]})
    suite = good.parent
    (suite / "eval_cache").mkdir()
    names = {
        "empty": f"{SCENARIO},model=pcsuite_empty",
        "failed": "gsm:model=pcsuite_tiny",
        "torn": f"{SCENARIO},model=pcsuite_torn",
        "partial": f"{SCENARIO},model=pcsuite_partial",
    }
    for name in names.values():
        (suite / name).mkdir()
    (suite / FAILURES).write_text(json.dumps({names["failed"]: "JSONDecodeError: line 1"}))
    (suite / names["partial"] / "run_spec.json").write_text("{}")
    for file in good.iterdir():
        (suite / names["torn"] / file.name).write_text(file.read_text()[:-20])
    runs = {run.name: run for run in read_helm_runs(tmp_path)}
    assert len(runs) == 5
    assert runs[good.name].status == "complete"
    assert runs[names["empty"]].reason == "no results: it was interrupted or failed"
    assert runs[names["failed"]].reason == "JSONDecodeError: line 1"
    assert (runs[names["failed"]].scenario, runs[names["failed"]].model) == ("gsm", "pcsuite/tiny")
    assert runs[names["partial"]].reason.startswith("interrupted: it has no stats.json")
    assert "interrupted while writing" in runs[names["torn"]].reason
    assert not any("\n" in run.reason for run in runs.values())
    assert len(table(list(runs.values()), "helm_runs")) == 5
    assert len(table(list(runs.values()), "helm_metrics")) == 1


def test_nothing_at_all_is_an_error_of_one_line(tmp_path):
    with pytest.raises(AnalysisError, match=f"{tmp_path} holds no HELM run"):
        read_helm_runs(tmp_path)
    with pytest.raises(AnalysisError, match="is not a folder"):
        read_helm_runs(tmp_path / "nowhere")


def test_the_newest_finished_run_counts(tmp_path):
    old = write_run(tmp_path, {"a": [1.0], "b": [0.0]}, suite="m2")
    new = write_run(tmp_path, {"a": [1.0], "b": [1.0], "c": [1.0]}, suite="m3")
    stale = tmp_path / "runs" / "m1" / old.name
    stale.mkdir(parents=True)
    for folder, when in ((old, 2_000), (new, 3_000), (stale, 1_000)):
        for path in [*folder.iterdir(), folder]:
            os.utime(path, (when, when))
    runs = read_helm_runs(tmp_path)
    assert [(run.suite, run.status) for run in runs] == [("m2", "superseded"), ("m3", "complete")]
    assert [row["value"] for row in table(runs, "helm_metrics").records()] == [1.0]
    assert [run.suite for run in read_helm_runs(old)] == ["m2"]
    assert [run.suite for run in read_helm_runs(new.parent)] == ["m3"]


def test_which_benchmark_is_ours():
    assert task_of("gsm") == "gsm8k"
    assert task_of("commonsense:dataset=commonsenseqa,method=x") == "csqa_json"
    assert task_of("commonsense:dataset=hellaswag") == ""
    assert task_of("mmlu:subject=econometrics") == ""


def test_the_first_metric_is_helms(tmp_path):
    write_run(tmp_path, {"a": [1.0]}, scenario="gsm", metric="final_number_exact_match")
    write_run(tmp_path, {"a": [1.0]}, scenario="mine:x=1", metric="some_score")
    gsm, mine = read_helm_runs(tmp_path)
    assert main_score(gsm) == ("final_number_exact_match", "valid")
    assert main_score(mine) == ("some_score", "valid")
    mine.instances.append(HelmInstance("b", "test", scores={"other": 1.0, "exact_match": 0.0}))
    assert main_score(mine) == ("exact_match", "test")
    assert [row["main"] for row in table([mine], "helm_metrics").records()] == [False, False, True]
