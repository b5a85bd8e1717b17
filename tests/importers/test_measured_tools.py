"""deepeval, mlflow and phoenix: files that the tools wrote, and the figures that they reported."""

import json
import math
import random

import pytest

from pcsuite.errors import ConfigError, DataError
from pcsuite.importers.base import FORMATS, ReadOptions, detect_format, open_log
from pcsuite.importers.import_run import ImportOptions, import_logs
from pcsuite.logging.log import RunPaths
from support.import_logs import FIXTURES

DEEPEVAL, MLFLOW, PHOENIX = (FIXTURES / name for name in ("deepeval", "mlflow", "phoenix"))


def imported_mean(tmp_path, path, measure, **options):
    name = f"{path.stem}-{measure}"
    (log,) = import_logs(None, [path], RunPaths.of(tmp_path, name), ImportOptions([measure], **options))
    return log


@pytest.mark.parametrize("name", ["base", "new"])
@pytest.mark.parametrize("measure", ["Contains", "Brevity"])
def test_deepevals_means_are_its_own(tmp_path, name, measure):
    log = imported_mean(tmp_path, DEEPEVAL / f"{name}.json", measure)
    assert (log.evaluation.format, log.agrees) == ("deepeval", True)


def test_a_case_passes_where_all_its_metrics_do_and_a_failed_metric_leaves_it_open(tmp_path):
    base = imported_mean(tmp_path, DEEPEVAL / "base.json", "pass")
    # Eight cases: one metric could not be computed, "wax and honey" is too long, six pass.
    assert (base.mean, base.errors.total()) == (pytest.approx(6 / 7), 1)
    new = imported_mean(tmp_path, DEEPEVAL / "new.json", "pass")
    assert new.agrees


@pytest.mark.parametrize("name", ["base", "new"])
@pytest.mark.parametrize("kind", ["traces.jsonl", "result_df.json"])
@pytest.mark.parametrize("measure", ["contains", "brevity"])
def test_mlflows_means_are_its_own(tmp_path, name, kind, measure):
    told = json.loads((MLFLOW / f"{name}_metrics.json").read_text())
    log = imported_mean(tmp_path, MLFLOW / f"{name}_{kind}", measure)
    assert log.evaluation.format == "mlflow"
    assert log.mean == pytest.approx(told[f"{measure}/mean"], abs=1e-15)


@pytest.mark.parametrize("name", ["base", "new"])
def test_the_older_table_of_mlflow_is_read_once_the_item_is_named(tmp_path, name):
    path = MLFLOW / f"{name}_eval_results_table.json"
    told = json.loads((MLFLOW / f"{name}_table_metrics.json").read_text())
    assert imported_mean(tmp_path, path, "right", item="question").mean == told["right/mean"]
    with pytest.raises(ConfigError, match="which column names the item"):
        imported_mean(tmp_path, path, "right")


def test_a_scorer_that_failed_leaves_its_trace_unscored(tmp_path):
    log = imported_mean(tmp_path, MLFLOW / "base_traces.jsonl", "contains")
    assert log.errors == {"not scored by contains: contains: the judge could not be reached": 1}


@pytest.mark.parametrize(
    ("name", "measure"), [("base", "contains"), ("base", "brevity"), ("new", "contains")]
)
def test_phoenixs_means_are_its_own(tmp_path, name, measure):
    told = json.loads((PHOENIX / f"{name}_means.json").read_text())
    log = imported_mean(tmp_path, PHOENIX / f"{name}.json", measure)
    assert log.evaluation.format == "phoenix"
    assert log.sample_mean == pytest.approx(told[measure], abs=1e-15)


def test_a_task_of_phoenix_that_failed_is_missing_whatever_its_evaluators_made_of_it(tmp_path):
    log = imported_mean(tmp_path, PHOENIX / "new.json", "brevity")
    assert log.errors == {"phoenix: ConnectionError('the table did not answer')": 1}


def test_repetitions_of_phoenix_are_told_apart():
    (log,) = FORMATS.get("phoenix").open(PHOENIX / "base.json", ReadOptions())
    assert (log.header.epochs, len(log.listed)) == (2, 16)


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("deepeval", DEEPEVAL / "new.json"),
        ("mlflow", MLFLOW / "new_traces.jsonl"),
        ("mlflow", MLFLOW / "new_result_df.json"),
        ("mlflow", MLFLOW / "new_eval_results_table.json"),
        ("phoenix", PHOENIX / "new.json"),
    ],
)
def test_the_tool_is_known_by_the_file_alone(tool, path):
    assert detect_format(path) == tool


@pytest.mark.parametrize(
    "tool", ["deepeval", "mlflow", "phoenix", "langfuse", "openai-evals", "otel", "helm"]
)
@pytest.mark.parametrize("content", [b"{}", b"[]", b"[1]", b'{"data": 3}', b"not json", b'{"testCases": {}}'])
def test_what_is_no_file_of_the_tool_is_told_in_one_line(tmp_path, tool, content):
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises((DataError, ConfigError)) as error:
        FORMATS.get(tool).open(path, ReadOptions())
    assert "\n" not in str(error.value)


def test_unknown_fields_are_named(tmp_path):
    document = json.loads((DEEPEVAL / "new.json").read_text())
    document["mood"] = document["testCases"][0]["weather"] = 1
    (tmp_path / "new.json").write_text(json.dumps(document))
    (log,) = FORMATS.get("deepeval").open(tmp_path / "new.json", ReadOptions())
    assert log.header.remarks == (
        "fields that this reader does not know, and leaves out: 'mood', 'testCases.weather'",
    )


def places(value, path=()):
    """Every place in a JSON value, of lists the first three."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    )
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("promptfoo", "promptfoo/several.json"),
        ("deepeval", "deepeval/new.json"),
        ("phoenix", "phoenix/new.json"),
        ("mlflow", "mlflow/new_eval_results_table.json"),
    ],
)
def test_a_value_of_another_kind_is_told_in_one_line_or_does_no_harm(tmp_path, tool, name):
    draws = random.Random(name)
    text = (FIXTURES / name).read_text()
    everywhere, told = list(places(json.loads(text))), []
    for _ in range(60):
        document = json.loads(text)
        *above, last = draws.choice(everywhere)
        place = document
        for key in above:
            place = place[key]
        place[last] = draws.choice([None, 3, "x", [], {}, True, [1], {"a": 1}])
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(document))
        try:
            logs = open_log(tool, path, ReadOptions(item="question"))
        except (DataError, ConfigError) as error:
            told.append(str(error))
            continue
        for log in logs:
            for sample in log.samples(log.header.measures[0]):
                assert all(score is None or math.isfinite(score) for score in sample.scores.values())
    assert not any("\n" in line for line in told)
