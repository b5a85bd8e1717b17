"""Section "Items and rows" of the specification: item files in the forms it names, rows and tables under its names."""

import csv
import json
import re

import duckdb
import pytest

from pcsuite.analysis.load.runs import RunTables, read_runs
from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.data.items import find_items
from pcsuite.errors import DataError, Exit
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.metric_cache import MetricCache, write_cache_report
from pcsuite.logging.log import iter_newest_rows
from pcsuite.runners.task_plan import plan_task
from support.profiles import write_profile


@pytest.fixture
def planned(tmp_path):
    """Plans a task on items that are given as truths, in a file of a given name."""

    def plan(task, file, *truths, input_text="Where?\nA. sea\nB. bank"):
        folder = tmp_path / "cache" / "datasets"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            {"item_id": f"i{n}", "input_text": input_text, "truth": truth}
            for n, truth in enumerate(truths, start=1)
        ]
        (folder / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
        profile = write_profile(tmp_path, tasks=(task,), conditions=("C0",), regimes=("D0",))
        return plan_task(load_suite(profile), task)

    return plan


def score(task, text, index=0):
    item = sorted(task.items, key=lambda item: item.item_id)[index]
    return task.evaluator.evaluate(item, Answer(text)).metrics


CSQA = "commonsense_qa_validation.jsonl"


@pytest.mark.parametrize(
    "truth",
    [
        {"label": "B", "choices": [["A", "sea"], ["B", "bank"]]},
        {"label": "B", "choices": {"A": "sea", "B": "bank"}},
        {"answerKey": "B", "choices": {"label": ["A", "B"], "text": ["sea", "bank"]}},
        {"label": "B", "choices": [{"label": "A", "text": "sea"}, {"label": "B", "text": "bank"}]},
        {"answer": 1, "choices": ["sea", "bank"]},
        {"label": "bank", "choices": ["sea", "bank"]},
        {"choice": "B", "choices": {"A": "sea", "B": "bank"}},
    ],
)
def test_csqa_truth_with_label_and_choices(planned, truth):
    """``truth`` of CSQA ``{"label": "B", "choices": [["A","…"], …]}``."""
    task = planned("csqa_json", CSQA, truth)
    assert task.items[0].truth == {"choice": "B", "choices": {"A": "sea", "B": "bank"}}
    assert score(task, '{"choice": "B", "justification": "x"}')["task_score"] == 1.0
    assert score(task, '{"choice": "A", "justification": "x"}')["task_score"] == 0.0


def test_options_that_the_input_does_not_show_are_written_below_it(planned):
    truth = {"label": "B", "choices": [["A", "sea"], ["B", "bank"]]}
    task = planned("csqa_json", CSQA, truth, input_text="Where is money kept?")
    assert task.items[0].input_text == "Where is money kept?\nA. sea\nB. bank"


FEVER = "fever_dev.jsonl"
SENTENCE = {"page": "Soul_Food_-LRB-film-RRB-", "sentence": 0}


@pytest.mark.parametrize(
    ("evidence", "sets"),
    [
        ([[[289914, 283015, "Soul_Food", 0]], [[1, 2, "Soul_Food", 3], [1, 2, "Film", 1]]], [[0], [3, 1]]),
        ([[289914, 283015, "Soul_Food", 0], [1, 2, "Soul_Food", 3], [1, 2, "Film", 1]], [[0], [3, 1]]),
        ([["Soul_Food", 0], ["Film", 1]], [[0], [1]]),
        ([{"page": "Soul_Food", "sentence": 0}], [[0]]),
        ([[{"page": "Soul_Food", "sentence": 0}, {"page": "Film", "sentence": 1}]], [[0, 1]]),
        ({"evidence_wiki_url": ["Soul_Food"], "evidence_sentence_id": [0]}, [[0]]),
        ([{"wiki_url": "Soul_Food", "sentence_id": "0"}], [[0]]),
        ([["Soul_Food", 0, "Soul Food is a film."]], [[0]]),
    ],
)
def test_fever_evidence_nested_or_flat(planned, evidence, sets):
    """``truth`` of FEVER ``{"label", "evidence": …}`` in the dataset's nested or flat form."""
    task = planned("fever_json", FEVER, {"label": "SUPPORTS", "evidence": evidence})
    assert [[row["sentence"] for row in rows] for rows in task.items[0].truth["evidence_sets"]] == sets
    cited = json.dumps(
        {
            "label": "SUPPORTS",
            "evidence": [{"page": "Soul Food", "sentence": 0}, {"page": "Film", "sentence": 1}],
        }
    )
    found = score(task, cited)
    assert (found["task_score"], found["fever_score"]) == (1.0, 1.0)
    assert score(task, '{"label": "SUPPORTS", "evidence": []}')["fever_score"] == 0.0


def test_fever_claim_without_enough_information_needs_no_evidence(planned):
    task = planned(
        "fever_json", FEVER, {"label": "NOT ENOUGH INFO", "evidence": [[[108548, None, None, None]]]}
    )
    assert task.items[0].truth["evidence_sets"] == []
    assert score(task, '{"label": "NOT_ENOUGH_INFO", "evidence": []}')["task_score"] == 1.0


def test_fever_truth_without_a_word_on_evidence_scores_the_label_alone(planned):
    task = planned("fever_json", FEVER, {"label": "SUPPORTS"})
    found = score(task, '{"label": "SUPPORTS", "evidence": []}')
    assert found["task_score"] == 1.0
    assert found["fever_score"] is None
    assert found["evidence_r_sentence"] is None


TRUTHFUL = "truthful_qa_generation_validation.jsonl"


@pytest.mark.parametrize("joined", [False, True])
def test_truthfulqa_truth_with_its_three_references(planned, joined):
    """``truth`` of TruthfulQA ``{"best_answer","correct_answers","incorrect_answers"}``."""
    correct, wrong = ["It is water.", "Just water"], ["It is wine.", "It is milk"]
    truth = {
        "best_answer": "It is water.",
        "correct_answers": "; ".join(correct) if joined else correct,
        "incorrect_answers": "; ".join(wrong) if joined else wrong,
    }
    task = planned("truthfulqa_gen", TRUTHFUL, truth)
    assert score(task, '{"answer": "It is water.", "abstained": false}')["task_score"] == 1.0
    assert score(task, '{"answer": "It is wine.", "abstained": false}')["task_score"] == 0.0
    assert task.items[0].truth["unanswerable"] is False


def test_truthfulqa_reference_that_has_no_comment_makes_the_item_unanswerable(planned):
    truth = {"correct_answers": ["I have no comment."], "incorrect_answers": ["Yes"]}
    task = planned("truthfulqa_gen", TRUTHFUL, truth)
    assert task.items[0].truth["unanswerable"] is True


def test_truthful_qa_files_are_found(tmp_path, planned):
    """Files ``truthful_qa_generation_validation.jsonl``, ``truthful_qa_mc_validation.jsonl`` found."""
    truth = {"correct_answers": ["a"], "incorrect_answers": ["b"]}
    assert planned("truthfulqa_gen", TRUTHFUL, truth).source.kind == "cache"
    mc = {"mc1_targets": {"choices": ["sea", "bank"], "labels": [0, 1]}}
    task = planned("truthfulqa_mc", "truthful_qa_mc_validation.jsonl", mc)
    assert task.source.kind == "cache"
    assert task.items[0].truth["choice"] == "B"
    # An exported file under any of its names goes before the bundled sample.
    found = find_items("truthful_qa", "validation", tmp_path / "cache")
    assert found.path.name == TRUTHFUL


@pytest.mark.parametrize(
    ("task", "file", "truth", "says"),
    [
        ("csqa_json", CSQA, {"label": "F", "choices": [["A", "sea"], ["B", "bank"]]}, "'label' is 'F'"),
        ("csqa_json", CSQA, {"label": "A", "choices": "sea or bank"}, "truth 'choices' cannot be read"),
        ("csqa_json", CSQA, {"label": "A"}, "truth has no 'choice'"),
        ("csqa_json", CSQA, {"choices": [["A", "sea"], ["B", "bank"]]}, "truth has no 'choice'"),
        ("fever_json", FEVER, {"label": "SUPPORTS", "evidence": "Soul_Food"}, "truth 'evidence' cannot be read"),
        ("fever_json", FEVER, {"label": "SUPPORTS", "evidence": [[1, 2, 3, 4, 5]]}, "truth 'evidence' cannot be read"),
        ("fever_json", FEVER, {"label": "SUPPORTS", "evidence": []}, "truth 'evidence' names no sentence"),
        ("fever_json", FEVER, {"label": 1, "evidence": []}, "truth 'label' is 1"),
        ("fever_json", FEVER, {"verdict": "SUPPORTS"}, "truth has no 'label'"),
        ("truthfulqa_gen", TRUTHFUL, {"correct_answers": [], "incorrect_answers": ["b"]}, "'correct_answers'"),
        ("truthfulqa_gen", TRUTHFUL, {"best_answer": "a"}, "'correct_answers'"),
        ("agnews_json", "ag_news_test.jsonl", {"label": 2}, "truth 'label' is '2'"),
        ("agnews_json", "ag_news_test.jsonl", {"label": "Politics"}, "labels are World, Sports"),
        ("gsm8k", "gsm8k_test.jsonl", {"answer": "twelve apples"}, "'answer' is not a number"),
        ("gsm8k", "gsm8k_test.jsonl", {}, "truth has no 'answer'"),
        ("conll03_ner_json", "conll2003_test.jsonl", {"entities": [{"text": "Bo", "type": "PER"}]}, "is not in the input"),
        ("conll03_ner_json", "conll2003_test.jsonl", {"entities": [{"text": "Bo", "type": "PER", "start": 1, "end": 3}]}, "'Bo'"),
        ("conll03_ner_json", "conll2003_test.jsonl", {"entities": ["Bo"]}, "entit"),
        ("conll03_ner_json", "conll2003_test.jsonl", {"tokens": ["Where"], "ner_tags": [9]}, "'ner_tags'"),
        ("nq_open", "nq_open_dev.jsonl", {"answers": []}, "'answers' is empty"),
        ("boolq", "boolq_dev.jsonl", {"label": None}, "'label'"),
        ("spider_sql", "spider_dev.jsonl", {"sql": "SELECT 1"}, "'query'"),
    ],
)  # fmt: skip
def test_a_truth_that_cannot_be_read_is_refused_with_file_and_field(
    planned, capsys, tmp_path, task, file, truth, says
):
    """Read, or refused in one line that names the file and the field; never a traceback, never a silent zero."""
    with pytest.raises(DataError) as refused:
        planned(task, file, truth)
    assert file in str(refused.value)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert main(["run", "--quiet", "--config", str(tmp_path / "profile.yaml")]) == Exit.BAD_INPUT
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture
def run(tmp_path):
    tasks = ("agnews_json", "csqa_json", "conll03_ner_json", "truthfulqa_gen")
    profile = write_profile(tmp_path, tasks=tasks, conditions=("C0", "C3"), items=3, run={"name": "study"} | {
        "output_dir": str(tmp_path / "outputs"), "cache_dir": str(tmp_path / "cache")})  # fmt: skip
    assert main(["run", "--quiet", "--config", str(profile)]) == Exit.DONE
    return profile, tmp_path / "outputs" / "runs" / "study.jsonl"


@pytest.mark.slow
def test_a_rows_decoding_perturbation_profile_and_commit(run):
    """``decoding.id`` "D1"; ``perturbation`` null when clean; ``profile`` the run's name; commit or tag in the row."""
    _, log = run
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert {row["decoding"]["id"] for row in rows} == {"D0", "D1"}
    assert {(row["perturbation"]["type"], row["perturbation"]["id"]) for row in rows} == {(None, None)}
    assert {row["profile"] for row in rows} == {"study"}
    assert all("git_commit" in row for row in rows)


@pytest.mark.slow
def test_entropy_cat_is_null_in_a_row_and_filled_in_summaries(run):
    """``metrics.entropy_cat`` null in a row; ``summary_by_condition.csv`` has entropy for the closed-answer tasks."""
    profile, log = run
    rows = list(iter_newest_rows(log))
    assert all("entropy_cat" in row.metrics and row.metrics["entropy_cat"] is None for row in rows)
    assert main(["report", "--config", str(profile), "--no-plots"]) == Exit.DONE
    (path,) = {file.resolve() for file in (log.parents[1]).rglob("summary_by_condition.csv")}
    with path.open(newline="", encoding="utf-8") as stream:
        summary = list(csv.DictReader(stream))
    sampled = [
        row for row in summary if row["decoding"] == "D1" and row["task"] in ("agnews_json", "csqa_json")
    ]
    entropy = [name for name in summary[0] if "entropy" in name]
    assert entropy
    assert all(row[entropy[0]] != "" for row in sampled)


@pytest.mark.slow
def test_runs_are_readable_under_dotted_names(run, tmp_path):
    """``runs.parquet`` and ``runs.csv`` also under ``task.id``, ``metrics.task_score``, …: a view, not a second file."""
    _, log = run
    folder = tmp_path / "tables"
    with RunTables([log], folder) as tables:
        tables.write_csv()
    for path in (folder / "runs.parquet", folder / "runs.csv", folder):
        rows = read_runs(path)
        assert {
            "task.id",
            "model.id",
            "decoding.id",
            "perturbation.type",
            "generation.usage.total_tokens",
        } <= set(rows)
        assert {"metrics.task_score", "metrics.entropy_cat", "prompt.prompt_hash", "run_id"} <= set(rows)
        assert set(rows["task.id"]) == {"agnews_json", "csqa_json", "conll03_ner_json", "truthfulqa_gen"}
        assert len(rows["run_id"]) == 4 * 2 * 3 * 3
    view = (folder / "runs_dotted.sql").read_text().replace("'runs.parquet'", f"'{folder / 'runs.parquet'}'")
    with duckdb.connect() as connection:
        connection.execute(view)
        found = connection.execute(
            'SELECT "task.id", avg("metrics.task_score") FROM runs GROUP BY ALL'
        ).fetchall()
        clean = connection.execute('SELECT count(*) FROM runs WHERE "perturbation.type" IS NULL').fetchone()
    assert len(found) == 4
    assert clean == (72,)


@pytest.mark.slow
def test_single_tasks_have_the_specifications_metric_names(run):
    """conll precision/recall, ``pred_choice``, ``truthfulqa_rougeL_acc`` beside ours."""
    _, log = run
    for row in iter_newest_rows(log):
        if row.task.id == "conll03_ner_json":
            tp, fp, fn = (row.metrics[name] for name in ("tp", "fp", "fn"))
            if tp + fp and tp + fn:
                assert row.metrics["precision"] == pytest.approx(tp / (tp + fp))
                assert row.metrics["recall"] == pytest.approx(tp / (tp + fn))
        if row.task.id == "csqa_json":
            assert row.metrics["pred_choice"] == row.parsed.answer
        if row.task.id == "truthfulqa_gen":
            assert row.metrics["truthfulqa_rougeL_acc"] == row.metrics["rouge_l_acc"]


@pytest.mark.slow
def test_cache_report_says_when_it_was_modified_and_how_the_saving_is_estimated(run, tmp_path):
    """``cache_report.md`` also: last modified, notes on how the saving is estimated."""
    cache = tmp_path / "metric_cache.sqlite"
    with MetricCache(cache, tmp_path / "stats") as kept:
        kept.compute("rouge_l", "an answer", "a reference", lambda: 0.5)
    text = write_cache_report(tmp_path / "cache_report.md", cache, tmp_path / "stats").read_text(
        encoding="utf-8"
    )
    assert re.search(r"^- Last modified: 20\d\d-\d\d-\d\dT[\d:]+\+00:00$", text, re.MULTILINE)
    assert "## How the saving is estimated" in text
    assert "hits × average compute seconds per put" in text
