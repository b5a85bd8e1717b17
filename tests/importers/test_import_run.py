import json
import shutil
from collections import Counter

import pytest

from pcsuite.errors import ConfigError, DataError, LogError
from pcsuite.importers.import_run import ImportOptions, import_logs
from pcsuite.logging.log import RunPaths, iter_rows, newest_rows
from support.import_logs import FIXTURES, repacked, with_sample
from support.synthetic_log import make_row, write_log

ODD = FIXTURES / "odd.eval"
C0, C1 = FIXTURES / "inspect_c0.eval", FIXTURES / "inspect_c1.eval"
BARE, TOLD = FIXTURES / "lm_eval" / "bare", FIXTURES / "lm_eval" / "told"
GRADE = ImportOptions(measures=["grade"])


@pytest.fixture
def paths(tmp_path):
    return RunPaths.of(tmp_path / "outputs", "study")


@pytest.mark.parametrize(
    ("format_name", "log", "measure"),
    [
        ("inspect", C0, "match"),
        ("inspect", C0, "includes"),
        ("inspect", C1, "match"),
        ("inspect", C1, "includes"),
        ("inspect", ODD, "grade"),
        ("inspect", ODD, "rubric.length"),
        ("lm-eval", BARE, "exact_match,last-number"),
        ("lm-eval", TOLD, "exact_match,last-number"),
        ("lm-eval", FIXTURES / "lm_eval" / "choice", "acc"),
        ("lm-eval", FIXTURES / "lm_eval" / "choice", "acc_norm"),
    ],
)
def test_the_mean_is_the_tools_own_to_the_last_digit(format_name, log, measure, paths):
    (imported,) = import_logs(format_name, [log], paths, ImportOptions(measures=[measure]))
    assert imported.agrees
    assert imported.mean == imported.reported


def test_importing_again_adds_nothing(paths):
    (first,) = import_logs("inspect", [ODD], paths, GRADE)
    written, prompts = paths.log.read_bytes(), paths.prompts.read_bytes()
    (second,) = import_logs("inspect", [FIXTURES / "odd.json"], paths, GRADE)
    assert (first.new, first.changed, first.unchanged) == (8, 0, 0)
    assert (second.new, second.changed, second.unchanged) == (0, 0, 8)
    assert (paths.log.read_bytes(), paths.prompts.read_bytes()) == (written, prompts)


def test_a_log_that_was_scored_anew_replaces_its_rows_and_back(paths, tmp_path):
    def regrade(sample):
        sample["scores"]["grade"]["value"] = "C"

    regraded = with_sample(ODD, tmp_path / "odd.eval", "wrong_epoch_1", regrade)
    for log, changed, score in ((ODD, 0, 0.0), (regraded, 1, 1.0), (ODD, 1, 0.0)):
        (imported,) = import_logs("inspect", [log], paths, GRADE)
        assert imported.changed == changed
        assert imported.agrees is (log is ODD)  # the header of the regraded log still has the old mean
        scores = {row.task.item_id: row.metrics.get("task_score") for row in newest_rows(paths.log)}
        assert scores["wrong"] == score


def test_samples_without_a_score_are_kept_counted_and_named(paths):
    (imported,) = import_logs("inspect", [ODD], paths, GRADE)
    assert imported.errors == Counter(
        {
            "inspect_ai: RuntimeError('the tool of this sample broke')": 1,
            "not scored by grade: grader_failed": 1,
        }
    )
    assert imported.unmapped == Counter({"good": 1})
    rows = {row.task.item_id: row for row in iter_rows(paths.log)}
    assert len(rows) == 8
    assert (rows["open"].metrics, rows["open"].generation.text[:7]) == ({}, "answer ")
    assert rows["broken"].generation is None
    assert rows["vague"].parsed.parse_errors == ["the value 'good' is no number; the tool counts it as 0"]


def test_rows_say_where_they_come_from(paths):
    import_logs("inspect", [ODD], paths, GRADE)
    row = next(row for row in iter_rows(paths.log) if row.task.item_id == "half")
    assert (row.profile, row.model.provider, row.prompt.template) == ("imported:inspect",) * 3
    assert row.engine["tool"] == "inspect_ai"
    assert row.metrics == {
        "task_score": 0.5,
        "inspect:rubric.clarity": 1 / 8,
        "inspect:rubric.length": 4,
        "token_cost": 12,
    }
    assert (row.decoding.id, row.decoding.temperature) == ("default", None)
    manifest = json.loads(paths.log.with_suffix(".manifest.json").read_text())
    assert manifest["tasks"]["odd"]["primary_metric"] == "grade"
    assert manifest["tasks"]["odd"]["pooling"] == "mean"


def test_epochs_become_seeds(paths):
    import_logs("inspect", [C0], paths, ImportOptions(measures=["match"], first_seed=11))
    assert Counter(row.seed for row in iter_rows(paths.log)) == {11: 12, 12: 12}


def test_the_condition_comes_from_the_user_the_header_or_a_key_of_it(paths):
    for options, condition in (
        (ImportOptions(["match"]), "C0"),
        (ImportOptions(["match"], condition="mine"), "mine"),
        (ImportOptions(["match"], condition_from="eval.task_args.temperature"), "0.8"),
    ):
        (imported,) = import_logs("inspect", [C0], paths, options)
        assert imported.evaluation.condition == condition
    with pytest.raises(ConfigError, match=r"no value 'eval.task_arg.condition' .*'eval.task_args.condition'"):
        import_logs(
            "inspect", [C0], paths, ImportOptions(["match"], condition_from="eval.task_arg.condition")
        )


def test_long_and_empty_values_of_the_header_name_conditions_too(paths):
    last = ["exact_match,last-number"]
    (imported,) = import_logs("lm-eval", [BARE], paths, ImportOptions(last))
    assert imported.evaluation.condition == "imported"
    bare, told = import_logs(
        "lm-eval", [BARE, TOLD], paths, ImportOptions(last, condition_from="system_instruction")
    )
    assert bare.evaluation.condition == "none"
    # first 48 characters of the instruction, then the beginning of the whole text's sha256
    assert told.evaluation.condition == "Do the sum in one short sentence. Write the answ… c3ddd8da"


def test_scores_must_be_chosen_where_there_are_several(paths):
    with pytest.raises(
        ConfigError,
        match=r"odd.eval has several scores: 'grade', 'rubric.clarity', 'rubric.length' \(choose one with --metric",
    ):
        import_logs("inspect", [ODD], paths)
    with pytest.raises(ConfigError, match=r"no score 'rubric.clarty' \(did you mean 'rubric.clarity'\?\)"):
        import_logs("inspect", [ODD], paths, ImportOptions(["rubric.clarty"]))
    with pytest.raises(
        ConfigError, match=r"has all of 'exact_match,last-number', 'exact_match,whole-answer'"
    ):
        import_logs("lm-eval", [BARE], paths, ImportOptions(["exact_match"]))
    assert not paths.log.exists()


def test_several_logs_at_once_each_with_its_score(paths):
    imported = import_logs("inspect", [C0, C1, ODD], paths, ImportOptions(["match", "grade"]))
    assert [entry.evaluation.measure for entry in imported] == ["match", "match", "grade"]
    assert [entry.evaluation.condition for entry in imported] == ["C0", "C1", "imported"]
    assert len(newest_rows(paths.log)) == 24 + 24 + 8


def test_another_evaluation_of_the_same_cell_is_refused_unless_told(paths):
    match = ImportOptions(["match"], condition="same")
    with pytest.raises(ConfigError, match=r"inspect_c1.eval and inspect_c0.eval are different evaluations"):
        import_logs("inspect", [C0, C1], paths, match)
    import_logs("inspect", [C0], paths, match)
    with pytest.raises(ConfigError, match=r"rows of study.jsonl and the log to import are different eval"):
        import_logs("inspect", [C1], paths, match)
    import_logs("inspect", [C1], paths, ImportOptions(["match"], condition="same", first_seed=3))
    assert len(newest_rows(paths.log)) == 48
    (replaced,) = import_logs(
        "inspect", [C1], paths, ImportOptions(["match"], condition="same", replace=True)
    )
    assert replaced.changed == 24


def test_of_several_tries_of_an_evaluation_the_newest_counts(paths, tmp_path):
    def retried(name, data):
        content = json.loads(data)
        if name == "header.json":
            content["eval"]["created"] = "2031-01-01T00:00:00+00:00"
        if name == "samples/broken_epoch_1.json":
            content |= {"error": None, "scores": {"grade": {"value": "P"}}}
        return json.dumps(content).encode()

    retry = repacked(ODD, tmp_path / "a_retry.eval", retried)
    first, second = import_logs("inspect", [retry, ODD], paths, GRADE)
    assert (first.path, first.new, second.path, second.changed) == (ODD, 8, retry, 1)
    broken = [row for row in newest_rows(paths.log) if row.task.item_id == "broken"]
    assert [row.metrics["task_score"] for row in broken] == [0.5]


def test_items_may_be_named_by_content(paths, tmp_path):
    def renumber(name, data):
        if not name.startswith("samples/"):
            return data
        sample = json.loads(data)
        sample["id"] = 1000 + len(sample["input"])
        return json.dumps(sample).encode()

    renamed = repacked(ODD, tmp_path / "renamed.eval", renumber)
    by_content = ImportOptions(["grade"], by_content=True)
    import_logs("inspect", [ODD], paths, by_content)
    (again,) = import_logs("inspect", [renamed], paths, by_content)
    assert again.unchanged == 8


def test_a_run_of_our_own_and_missing_logs_are_refused(paths, tmp_path):
    paths.log.parent.mkdir(parents=True)
    write_log(paths.log, [make_row()])
    with pytest.raises(LogError, match="is a run of pcsuite itself"):
        import_logs("inspect", [ODD], paths, GRADE)
    with pytest.raises(DataError, match="nowhere.eval: no such file or folder"):
        import_logs("inspect", [tmp_path / "nowhere.eval"], paths, GRADE)
    with pytest.raises(DataError, match="no log of lm-eval in this folder"):
        import_logs("lm-eval", [tmp_path], paths, GRADE)
    with pytest.raises(ConfigError, match=r"unknown log format 'lmeval' \(did you mean 'lm-eval'\?\)"):
        import_logs("lmeval", [BARE], paths, GRADE)


def test_what_is_better_when_lower_cannot_be_the_score(paths, tmp_path):
    folder = tmp_path / "logs"
    shutil.copytree(FIXTURES / "lm_eval" / "choice", folder)
    (results,) = folder.rglob("results_*.json")
    content = json.loads(results.read_text())
    content["higher_is_better"]["sums_choice"]["acc"] = False
    results.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="acc,none is better when lower"):
        import_logs("lm-eval", [folder], paths, ImportOptions(["acc"]))


def test_the_same_sample_twice_is_an_error(paths, tmp_path):
    (source,) = BARE.rglob("samples_*.jsonl")
    doubled = tmp_path / source.name
    text = source.read_text(encoding="utf-8")
    doubled.write_text(text + text, encoding="utf-8")
    with pytest.raises(DataError, match="item 0, repetition 1 is there twice"):
        import_logs("lm-eval", [doubled], paths, ImportOptions(["exact_match,last-number"], model="m"))
