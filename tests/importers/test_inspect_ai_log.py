import json

import pytest

from pcsuite.errors import DataError
from pcsuite.importers.inspect_ai_log import FORMAT, InspectLog
from support.import_logs import FIXTURES, repacked, with_sample

ODD = FIXTURES / "odd.eval"
GRADES = {"full": 1.0, "half": 0.5, "wrong": 0.0, "silent": 0.0, "word": 1.0, "vague": 0.0, "open": None}


def samples_of(path, measure="grade"):
    log = InspectLog(path)
    found = {(sample.item_id, sample.epoch): sample for sample in log.samples(measure)}
    log.close()
    return log.header, found


def test_every_kind_of_value_in_a_real_log():
    header, samples = samples_of(ODD)
    assert header.measures == ("grade", "rubric.clarity", "rubric.length")
    assert (header.task, header.model, header.tool_version) == ("odd", "mockllm/model", "0.3.285")
    assert {name: samples[name, 1].scores["grade"] for name in GRADES} == GRADES
    assert samples["open", 1].unscored == "grader_failed"
    assert samples["vague", 1].unmapped == {"grade": "good"}
    assert samples["broken", 1].error == "RuntimeError('the tool of this sample broke')"
    assert samples["broken", 1].scores == {}
    assert samples["word", 1].scores["rubric.clarity"] == 4 / 8
    # (1 + 0.5 + 0 + 0 + 1 + 0) / 6 scored; clarity (0 + 1 + … + 5) / 8 / 6; length (3 + … + 8) / 6
    assert header.reported == {"grade": 2.5 / 6, "rubric.clarity": 15 / 48, "rubric.length": 5.5}


@pytest.mark.parametrize("other", ["odd.json", "odd_chunked.eval", "deflate"])
def test_all_containers_say_the_same(other, tmp_path):
    path = repacked(ODD, tmp_path / "odd.eval") if other == "deflate" else FIXTURES / other
    assert samples_of(path) == samples_of(ODD)


def test_a_real_run_on_the_embedded_model():
    header, samples = samples_of(FIXTURES / "inspect_c0.eval", "includes")
    assert header.measures == ("match", "includes")
    assert (header.temperature, header.top_p, header.max_tokens, header.epochs) == (0.8, 1.0, 24, 2)
    assert (header.condition, header.expected, len(samples)) == ("C0", 24, 24)
    pears = samples["pears", 2]
    assert pears.prompt.startswith("system: Answer the question.\n\nuser: Mira has 3 pears")
    assert pears.usage.completion_tokens <= 24
    assert pears.finish_reason in ("stop", "length")
    assert pears.latency_ms > 0


def test_a_killed_run_gives_what_it_has():
    header, samples = samples_of(FIXTURES / "inspect_stopped.eval", "includes")
    assert (header.expected, len(samples), header.reported) == (24, 21, {})
    assert header.remarks == ("the evaluation did not end well (status 'started')",)


def test_the_first_log_schema_has_one_score_without_a_name(tmp_path):
    def older(sample):
        sample["score"] = sample.pop("scores")["grade"]

    path = with_sample(ODD, tmp_path / "a.eval", "half_epoch_1", older)
    assert samples_of(path)[1]["half", 1].scores == {"grade": 0.5}


def test_remarks_of_the_header(tmp_path):
    def shuffled(name, data):
        if name != "header.json":
            return data
        header = json.loads(data)
        header["version"] = 3
        header["eval"]["dataset"] |= {"shuffled": True, "sample_ids": [1, 2]}
        return json.dumps(header).encode()

    header, _ = samples_of(repacked(ODD, tmp_path / "a.eval", shuffled))
    newer, order = header.remarks
    assert newer.startswith("log schema 3 is newer")
    assert "--match-by content" in order


def test_what_is_not_a_log_is_said_in_one_line(tmp_path):
    no_header = repacked(
        ODD, tmp_path / "a.eval", lambda name, data: data if name.startswith("samples/") else None
    )
    with pytest.raises(DataError, match=r"a.eval: no header.json inside \(is this a log of inspect_ai\?\)"):
        InspectLog(no_header)
    other = tmp_path / "b.json"
    other.write_text('{"results": [1]}')
    with pytest.raises(DataError, match="b.json: no key 'eval'"):
        InspectLog(other)
    broken = with_sample(ODD, tmp_path / "c.eval", "full_epoch_1", lambda sample: sample.pop("id"))
    with pytest.raises(DataError, match=r"c.eval: samples/full_epoch_1.json cannot be read"):
        InspectLog(broken)


def test_a_folder_gives_its_logs_and_nothing_else(tmp_path):
    for name in ("2026-01-01T00-00-00_a.json", "x.eval", "logs.json", "notes.txt"):
        (tmp_path / name).write_text("")
    assert [path.name for path in FORMAT.find(tmp_path)] == ["2026-01-01T00-00-00_a.json", "x.eval"]
