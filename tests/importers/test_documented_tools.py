"""Langfuse, OpenAI's evals and OpenTelemetry: samples written after their documented schemas, and HELM's folders."""

import json

import pytest

from pcsuite.errors import ConfigError, DataError
from pcsuite.importers.base import FORMATS, ReadOptions, detect_format
from pcsuite.importers.import_run import ImportOptions, import_logs
from pcsuite.logging.log import RunPaths, newest_rows
from support.helm_folder import write_run

TRACES = [
    {
        "id": f"t{number}", "timestamp": f"2026-11-01T10:0{number}:00Z", "htmlPath": "/project/p/traces/t",
        "input": {"question": question}, "output": "an answer", "release": "v2", "latency": 0.5, "totalCost": 0.01,
        "metadata": {"customer": customer},
        "scores": [
            {"name": "right", "value": right, "dataType": "BOOLEAN"},
            {"name": "tone", "value": 0.0, "stringValue": "warm", "dataType": "CATEGORICAL"},
        ],
    }
    for number, (question, customer, right) in enumerate([("Oslo?", "ann", 1), ("Bergen?", "bob", 0), ("Oslo?", "ann", 0)])
]  # fmt: skip


def output_item(number, *, passed, run="run_1", error=None):
    return {
        "object": "eval.run.output_item", "id": f"o{number}", "run_id": run, "eval_id": "eval_1", "created_at": 1,
        "status": "pass", "datasource_item_id": number, "datasource_item": {"question": f"q{number}"},
        "results": [
            {"name": "match", "passed": passed, "score": 1.0 if passed else 0.0},
            {"name": "style", "passed": True, "score": 0.5},
        ],
        "sample": {
            "input": [{"role": "user", "content": f"q{number}"}], "output": [{"role": "assistant", "content": "a"}],
            "finish_reason": "stop", "model": "gpt-x", "temperature": 1.0, "top_p": 1.0, "error": error,
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        },
    }  # fmt: skip


RECORDS = [
    {"spec": {"completion_fns": ["gpt-x"], "eval_name": "sums.dev.v0", "base_eval": "sums", "run_id": "r1"}},
    *(
        {"run_id": "r1", "event_id": n, "sample_id": f"sums.dev.{n}", "type": kind, "data": data}
        for n, right in enumerate([True, True, False])
        for kind, data in (
            ("sampling", {"prompt": f"sum {n}", "sampled": ["3"]}),
            ("match", {"correct": right, "expected": "3", "picked": "3"}),
        )
    ),
    {"final_report": {"accuracy": 2 / 3}},
]


def attribute(key, value):
    kind = "stringValue" if isinstance(value, str) else "doubleValue"
    return {"key": key, "value": {kind: value}}


def span(number, question, score, *, status=None):
    events = [] if score is None else [
        {
            "name": "gen_ai.evaluation.result",
            "attributes": [
                attribute("gen_ai.evaluation.name", "Relevance"), attribute("gen_ai.evaluation.score.value", score)
            ],
        }
    ]  # fmt: skip
    return {
        "spanId": f"s{number}", "name": "chat m", "startTimeUnixNano": "1000000000", "endTimeUnixNano": "1250000000",
        "attributes": [
            attribute("gen_ai.request.model", "m"), attribute("gen_ai.input.messages", question),
            attribute("app.case", f"case {number}"),
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "2"}},
        ],
        "status": status or {}, "events": events,
    }  # fmt: skip


def otlp(*spans, logs=()):
    document = {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": list(spans)}]}]}
    if logs:
        document["resourceLogs"] = [{"scopeLogs": [{"logRecords": list(logs)}]}]
    return document


@pytest.fixture
def written(tmp_path):
    def write(document, name="file.json"):
        path = tmp_path / name
        lines = name.endswith(".jsonl")
        path.write_text("\n".join(map(json.dumps, document)) if lines else json.dumps(document))
        return path

    return write


def test_langfuse_traces_with_their_scores(written, tmp_path):
    for path in (written({"data": TRACES}), written(TRACES, "list.json"), written(TRACES, "lines.jsonl")):
        assert detect_format(path) == "langfuse"
        (log,) = FORMATS.get("langfuse").open(path, ReadOptions())
        assert (log.header.condition, log.header.epochs, log.header.measures) == ("v2", 2, ("right", "tone"))
        assert [sample.scores["right"] for sample in log.listed] == [1.0, 0.0, 0.0]
    paths = RunPaths.of(tmp_path, "run")
    import_logs(None, [path], paths, ImportOptions(["right"], cluster=["customer"]))
    assert {row.task.cluster for row in newest_rows(paths.log)} == {"ann", "bob"}


def test_langfuse_scores_that_are_only_ids_are_refused(written):
    with pytest.raises(DataError, match="only their ids"):
        FORMATS.get("langfuse").open(written([TRACES[0] | {"scores": ["a"]}]), ReadOptions())


def test_output_items_of_openais_platform(written, tmp_path):
    items = [output_item(number, passed=number != 2) for number in range(3)]
    items.append(output_item(3, passed=False, error={"code": "x", "message": "timed out"}))
    path = written({"object": "list", "data": items, "has_more": False})
    assert detect_format(path) == "openai-evals"
    (imported,) = import_logs(None, [path], RunPaths.of(tmp_path, "run"))
    assert (imported.evaluation.measure, imported.samples) == ("pass", 4)
    assert (imported.mean, imported.errors) == (pytest.approx(2 / 3), {"openai-evals: timed out": 1})
    with pytest.raises(DataError, match="one page of several"):
        FORMATS.get("openai-evals").open(written({"data": items, "has_more": True}), ReadOptions())


def test_record_files_of_openais_package(written, tmp_path):
    path = written(RECORDS, "records.jsonl")
    assert detect_format(path) == "openai-evals"
    (imported,) = import_logs(None, [path], RunPaths.of(tmp_path, "run"))
    assert (imported.evaluation.measure, imported.agrees) == ("correct", True)


def test_spans_with_evaluation_results(written, tmp_path):
    failed = span(3, "third?", None, status={"code": 2, "message": "timed out"})
    logged = {
        "eventName": "gen_ai.evaluation.result", "spanId": "s2",
        "attributes": [attribute("gen_ai.evaluation.name", "Relevance"), attribute("gen_ai.evaluation.score.value", 0.5)],
    }  # fmt: skip
    document = otlp(span(1, "first?", 1.0), span(2, "second?", None), failed, logs=[logged])
    path = written(document)
    assert detect_format(path) == "otel"
    (log,) = FORMATS.get("otel").open(path, ReadOptions())
    assert {sample.item_id: sample.scores.get("Relevance") for sample in log.listed} == {
        "first?": 1.0, "second?": 0.5, "third?": None,
    }  # fmt: skip
    assert [sample.error for sample in log.listed] == [None, None, "timed out"]
    assert (log.listed[0].latency_ms, log.listed[0].usage.total_tokens) == (250.0, 9)
    (named,) = FORMATS.get("otel").open(path, ReadOptions(item="app.case"))
    assert [sample.item_id for sample in named.listed] == ["case 1", "case 2", "case 3"]


def test_a_span_that_does_not_say_what_was_asked_needs_its_item_named(written):
    bare = span(1, "x", 1.0)
    bare["attributes"] = [attribute("gen_ai.request.model", "m")]
    with pytest.raises(ConfigError, match="--item ATTRIBUTE"):
        FORMATS.get("otel").open(written(otlp(bare)), ReadOptions())


def test_helms_instances_have_its_own_mean(tmp_path):
    folder = write_run(tmp_path / "helm", {"id1": [1.0], "id2": [0.0], "id3": [1.0]})
    assert detect_format(tmp_path / "helm") == "helm"
    (imported,) = import_logs(None, [folder], RunPaths.of(tmp_path, "run"))
    assert (imported.evaluation.measure, imported.mean) == ("exact_match", pytest.approx(2 / 3))
    assert imported.agrees
