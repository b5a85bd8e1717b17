import json
import shutil

import pytest

from pcsuite.errors import DataError
from pcsuite.importers.lm_eval_samples import FORMAT, LmEvalSamples
from support.import_logs import FIXTURES

LOGS = FIXTURES / "lm_eval"


def only_file(folder):
    (path,) = FORMAT.find(LOGS / folder)
    return path


def copied(folder, target):
    """A samples file with its results file in a folder of its own."""
    source = only_file(folder)
    for path in source.parent.iterdir():
        shutil.copy(path, target / path.name)
    return target / source.name


def edited(path, change):
    """The samples file with every line changed."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def results_of(path):
    (results,) = path.parent.glob("results_*.json")
    return results


def test_filters_are_measures_of_their_own():
    log = LmEvalSamples(only_file("bare"))
    assert log.header.measures == ("exact_match,last-number", "exact_match,whole-answer")
    assert (log.header.task, log.header.split, log.header.model) == ("sums", "test", "smollm2-135m")
    assert (log.header.temperature, log.header.max_tokens, log.header.expected) == (0.0, 24, 12)
    read = {name: list(log.samples(name)) for name in log.header.measures}
    for name, samples in read.items():
        assert len(samples) == 12
        assert sum(s.scores[name] for s in samples) / 12 == log.header.reported[name]
        assert list(samples[0].scores) == [name]
    assert log.header.reported == {"exact_match,last-number": 2 / 12, "exact_match,whole-answer": 0.0}


def test_answer_and_prompt_of_a_chat_model():
    plain = next(LmEvalSamples(only_file("bare")).samples("exact_match,last-number"))
    assert plain.prompt == "user: Mira has 3 pears and picks 4 more. How many pears does she have?"
    assert (plain.item_id, plain.text, plain.answer) == ("0", "Mira has 3 pears and 4 more pears.", "4")
    assert (plain.usage, plain.latency_ms, plain.finish_reason) == (None, None, "unknown")
    told = next(LmEvalSamples(only_file("told")).samples("exact_match,last-number"))
    assert told.prompt.startswith("system: Do the sum in one short sentence.")
    assert told.content == plain.content


def test_choice_by_likelihood():
    log = LmEvalSamples(only_file("choice"))
    assert log.header.measures == ("acc,none", "acc_norm,none")
    assert (log.header.regime, log.header.temperature) == ("loglikelihood", None)
    for sample in log.samples("acc,none"):
        values = [float(line.split("\t")[0]) for line in sample.text.splitlines()]
        options = [line.split("\t")[1] for line in sample.text.splitlines()]
        assert options[1] == "5"
        assert sample.answer == options[values.index(max(values))]
        assert sample.scores["acc,none"] == float(values[0] > values[1])  # the first option is the right one


def test_lists_and_no_filter_as_older_versions_wrote_them(tmp_path):
    def older(line):
        line["arguments"] = [list(request.values()) for request in line["arguments"].values()]
        del line["filter"], line["metrics"]

    path = edited(copied("choice", tmp_path), older)
    new, old = LmEvalSamples(only_file("choice")), LmEvalSamples(path)
    assert list(old.samples("acc,none")) == list(new.samples("acc,none"))
    assert old.header == new.header


def test_missing_numbers_are_unscored_and_tuples_no_measure(tmp_path):
    def change(line):
        line["acc"] = float("nan") if line["doc_id"] == 0 else None if line["doc_id"] == 1 else line["acc"]
        line["word_perplexity"] = [-3.5, 4]
        line["metrics"].append("word_perplexity")

    log = LmEvalSamples(edited(copied("choice", tmp_path), change))
    assert log.header.measures == ("acc,none", "acc_norm,none")
    assert log.header.remarks[0].startswith("no number for single samples: word_perplexity,none")
    samples = list(log.samples("acc,none"))
    assert [sample.scores["acc,none"] is None for sample in samples] == [True, True] + [False] * 10
    assert samples[0].unscored == "no number in the samples file"


def test_repeats_are_said(tmp_path):
    path = edited(copied("bare", tmp_path), lambda line: line["resps"][0].append("another"))
    sample = next(LmEvalSamples(path).samples("exact_match,last-number"))
    assert sample.remarks == ("2 answers, scored together by the tool",)


def test_what_is_better_when_lower_is_known_from_the_results(tmp_path):
    path = copied("choice", tmp_path)
    results = json.loads(results_of(path).read_text())
    results["higher_is_better"]["sums_choice"]["acc_norm"] = False
    results_of(path).write_text(json.dumps(results))
    assert LmEvalSamples(path).header.lower_is_better == {"acc_norm,none"}


def test_without_results_the_model_must_be_said(tmp_path):
    path = copied("bare", tmp_path)
    results_of(path).unlink()
    with pytest.raises(DataError, match=r"names the model \(put it there, or say --model NAME\)"):
        LmEvalSamples(path)
    header = LmEvalSamples(path, model="mine").header
    assert (header.model, header.temperature, header.reported) == ("mine", None, {})
    assert header.remarks[0].startswith("no results file beside it")


def test_broken_lines_and_other_files_are_named(tmp_path):
    path = copied("bare", tmp_path)
    path.write_text('{"doc_id": 0\n')
    with pytest.raises(DataError, match=r"\.jsonl:1: not JSON"):
        LmEvalSamples(path)
    path.write_text('{"filter": "none", "acc": 1.0}\n')
    log = LmEvalSamples(path)
    with pytest.raises(DataError, match=r"\.jsonl:1: not a sample of lm-eval"):
        list(log.samples("acc,none"))
    other = tmp_path / "other.jsonl"
    other.write_text("x")
    with pytest.raises(DataError, match="not a samples file"):
        LmEvalSamples(other)
