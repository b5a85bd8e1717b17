"""promptfoo's results: every file here was written by promptfoo itself (see the fixtures' README)."""

import json

import pytest

from pcsuite.errors import DataError
from pcsuite.importers.base import ReadOptions, detect_format
from pcsuite.importers.import_run import ImportOptions, import_logs
from pcsuite.importers.promptfoo_results import FORMAT
from pcsuite.logging.log import RunPaths, newest_rows
from support.import_logs import FIXTURES

FOLDER = FIXTURES / "promptfoo"


def evaluations(name):
    return FORMAT.open(FOLDER / name, ReadOptions())


def changed(tmp_path, change):
    document = json.loads((FOLDER / "base.json").read_bytes())
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("name", "count"),
    [("base.json", 1), ("new.json", 1), ("several.json", 2), ("exported.json", 2), ("repeated_base.json", 1)],
)
def test_the_tools_own_figures_are_reproduced(tmp_path, name, count):
    for measure in ("pass", "score", "queue", "brevity"):
        paths = RunPaths.of(tmp_path, measure)
        imported = import_logs(None, [FOLDER / name], paths, ImportOptions([measure]))
        assert [log.agrees for log in imported] == [True] * count
    # The share that promptfoo prints is of whole numbers, so that nothing is rounded.
    for log in import_logs(None, [FOLDER / name], RunPaths.of(tmp_path, "plain")):
        assert log.sample_mean == log.reported


def test_a_failed_call_has_no_score_and_a_failed_assertion_has():
    (log,) = evaluations("new.json")
    failed = [sample for sample in log.samples("pass") if sample.error]
    assert [sample.error for sample in failed] == ["connection reset by the table"]
    assert "The parcel came open" in failed[0].item_id
    (base,) = evaluations("base.json")
    wrong = [sample for sample in base.samples("pass") if sample.scores["pass"] == 0]
    assert len(wrong) == 6
    assert all(sample.error is None for sample in wrong)


def test_results_with_equal_variables_are_repetitions():
    (log,) = evaluations("repeated_base.json")
    samples = list(log.samples("pass"))
    assert (len(samples), log.header.epochs) == (42, 3)
    assert len({sample.item_id for sample in samples}) == 14
    assert sorted({sample.epoch for sample in samples}) == [1, 2, 3]


def test_an_item_is_known_by_its_variables_whatever_its_place(tmp_path):
    def turn_round(document):
        document["results"]["results"].reverse()
        for place, result in enumerate(document["results"]["results"]):
            result["testIdx"] = place
            result["testCase"]["description"] = f"Row #{place}"

    (turned,) = FORMAT.open(changed(tmp_path, turn_round), ReadOptions())
    (plain,) = evaluations("base.json")
    scores = [{sample.item_id: sample.scores for sample in log.samples("pass")} for log in (plain, turned)]
    assert scores[0] == scores[1]


def test_tests_that_only_their_assertions_tell_apart_are_two_items(tmp_path):
    def double(document):
        result = json.loads(json.dumps(document["results"]["results"][0]))
        result["testCase"]["assert"] = [{"type": "contains", "value": "queue"}]
        document["results"]["results"].append(result)

    (log,) = FORMAT.open(changed(tmp_path, double), ReadOptions())
    assert log.header.epochs == 1
    assert len({sample.item_id for sample in log.samples("pass")}) == 23


def test_unknown_fields_are_named(tmp_path):
    def add(document):
        document["mood"] = "fine"
        document["results"]["results"][3]["weather"] = "rain"

    (log,) = FORMAT.open(changed(tmp_path, add), ReadOptions())
    assert log.header.remarks == (
        "fields that this reader does not know, and leaves out: 'mood', 'results.weather'",
    )
    assert evaluations("base.json")[0].header.remarks == ()


def test_prompts_and_providers_are_conditions_and_models():
    plain, listed = evaluations("several.json")
    assert (plain.header.model, listed.header.model) == ("triage-table", "triage-table")
    assert plain.header.condition.startswith("plain.txt: Which queue")
    assert listed.header.fields["prompt"]["index"] == 1
    assert (plain.header.tool, plain.header.tool_version) == ("promptfoo", "0.121.20")


def test_lines_are_read_as_well(tmp_path):
    (imported,) = import_logs("promptfoo", [FOLDER / "lines.jsonl"], RunPaths.of(tmp_path, "lines"))
    assert (imported.samples, imported.mean) == (8, 0.625)
    rows = list(newest_rows(RunPaths.of(tmp_path, "lines").log))
    (invoice,) = [row for row in rows if row.task.item_id.startswith("message=The invoice of May")]
    # The provider counts 40 tokens and the characters of the message: "The invoice of May is missing".
    assert invoice.metrics["token_cost"] == 69


def test_a_version_before_the_third_has_no_prompt_numbers(tmp_path):
    def old(document):
        for result in document["results"]["results"]:
            for key in ("promptIdx", "promptId", "failureReason", "testCase", "id"):
                result.pop(key)
        document["results"].pop("prompts")

    path = changed(tmp_path, old)
    (log,) = FORMAT.open(path, ReadOptions())
    assert [sample.scores["pass"] for sample in log.samples("pass")].count(0.0) == 6


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"results": {"results": 3}}', "no list 'results.results'"),
        (b'{"results": {"results": []}}', "no results in it"),
        (b'{"results": {"results": [{"vars": {}}]}}', "result 1 does not say whether it passed"),
        (b"[1]", "not a JSON object"),
    ],
)
def test_what_is_no_results_file_is_told_in_one_line(tmp_path, content, problem):
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        FORMAT.open(path, ReadOptions())


def test_the_tool_is_known_by_the_file():
    assert {detect_format(FOLDER / name) for name in ("base.json", "exported.json", "lines.jsonl")} == {
        "promptfoo"
    }
    assert detect_format(FIXTURES / "odd.json") == "inspect"
    assert detect_format(FIXTURES / "inspect_c0.eval") == "inspect"
    assert detect_format(FIXTURES / "lm_eval") == "lm-eval"
    with pytest.raises(DataError, match="a plain table is read with --from table"):
        detect_format(FOLDER / "tests.csv")
