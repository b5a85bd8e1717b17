"""Scoring functions in a file of the user's: what they are given, what they may return, and how they fail."""

import pickle
from random import Random

import pytest

from pcsuite.config.load import ScorerFile, load_suite
from pcsuite.data.items import Item
from pcsuite.errors import ConfigError, DataError
from pcsuite.evaluation.base import Answer, NamedScore
from pcsuite.evaluation.own_scorer import OwnScorer, OwnScorerOptions
from support.own_task import write_own_profile

ITEM = Item(
    "t-1", "My parcel is late", {"queue": "delivery", "answer": "delivery"}, columns={"sender": "Ann"}
)


def scorer_of(tmp_path, body, *, options=None, name="score"):
    path = tmp_path / "my_scorer.py"
    path.write_text(body, encoding="utf-8")
    return OwnScorer(ScorerFile.read(f"my_scorer.py:{name}", [tmp_path]), options)


def score(tmp_path, expression, text="It is delivery", **more):
    evaluator = scorer_of(tmp_path, f"def score(answer, item):\n    return {expression}\n")
    return evaluator.evaluate(ITEM, Answer(text, **more)).metrics


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("item['queue'] in answer", 1.0),
        ("False", 0.0),
        ("0.25", 0.25),
        ("1", 1.0),
        ("{'score': 0.5, 'words': len(answer.split())}", 0.5),
        ("{'pass': True}", 1.0),
        ("item.expected == 'delivery' and item.id == 't-1' and item.input.startswith('My')", 1.0),
        ("item['sender'] == 'Ann'", 1.0),
        ("__import__('numpy').float32(0.5)", 0.5),
        ("__import__('numpy').bool_(True)", 1.0),
    ],
)
def test_what_a_function_may_return(tmp_path, expression, expected):
    assert score(tmp_path, expression)["task_score"] == expected


def test_metrics_of_a_mapping_are_logged_and_its_answer_is_the_canonical_one(tmp_path):
    evaluator = scorer_of(
        tmp_path,
        "def score(answer, item):\n    return {'score': 1, 'words': 3, 'tone': 'kind', 'answer': 'delivery'}",
    )
    made = evaluator.evaluate(ITEM, Answer("To delivery, please"))
    assert (made.metrics["words"], made.metrics["tone"]) == (3, "kind")
    assert made.parsed.answer == "delivery"


def test_named_scores_are_metrics_and_keep_their_reasons(tmp_path):
    returned = (
        "{'score': 1, 'scores': {'tone': 0.5, 'facts': {'score': True, 'reason': 'both dates are right'}}}"
    )
    body = f"def score(answer, item):\n    return {returned}"
    evaluation = scorer_of(tmp_path, body).evaluate(ITEM, Answer("To delivery, please"))
    assert (evaluation.metrics["tone"], evaluation.metrics["facts"]) == (0.5, 1.0)
    assert evaluation.scores == {"tone": NamedScore(0.5), "facts": NamedScore(1.0, "both dates are right")}


def test_the_answer_reads_itself_as_json_and_as_a_number(tmp_path):
    body = "def score(answer, item):\n    return {'score': answer.json['n'] == 7, 'value': answer.number}\n"
    metrics = scorer_of(tmp_path, body).evaluate(ITEM, Answer('Sure: {"n": 7}')).metrics
    assert (metrics["task_score"], metrics["value"]) == (1.0, 7.0)
    plain = scorer_of(
        tmp_path, "def score(answer, item):\n    return answer.json is None and answer.number is None"
    )
    assert plain.evaluate(ITEM, Answer("no idea")).metrics["task_score"] == 1.0


def test_reasoning_is_set_aside_and_a_cut_or_empty_answer_scores_0(tmp_path):
    assert score(tmp_path, "answer == 'delivery'", "<think>billing?</think>delivery")["task_score"] == 1.0
    assert score(tmp_path, "True", finish_reason="length")["task_score"] == 0.0
    assert score(tmp_path, "True", "")["task_score"] == 0.0


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("7", "returned 7: a score is a number from 0 to 1"),
        ("-0.1", "from 0 to 1"),
        ("None", "returned None"),
        ("'yes'", "returned 'yes'"),
        ("float('nan')", "returned nan"),
        ("{'words': 3}", "a mapping without 'score'"),
        ("{'score': 1, 'words': [1]}", "returned [1] as 'words'"),
        ("{'score': 1, 'words': float('inf')}", "returned inf as 'words'"),
        ("{'score': 1, 'two words': 1}", "a metric called 'two words'"),
        ("{'score': 1, 'answered': True}", "a metric called 'answered'"),
        ("{'score': 1, 'scores': {'tone': 7}}", "'tone', returned 7"),
        ("{'score': 1, 'tone': 1, 'scores': {'tone': 1}}", "two scores called 'tone'"),
        ("{'score': 1, 'scores': {'two words': 1}}", "a metric called 'two words'"),
        ("item['quueue']", "(line 2) fails on item 't-1': KeyError: 'quueue'"),
        ("1 / 0", "fails on item 't-1': ZeroDivisionError"),
    ],
)
def test_what_goes_wrong_is_one_line_with_file_and_item(tmp_path, expression, words):
    with pytest.raises(ConfigError) as caught:
        score(tmp_path, expression)
    said = str(caught.value)
    assert words in said
    assert "my_scorer.py:score" in said
    assert "'t-1'" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def score(answer, item)\n    return 1\n", "my_scorer.py:1:"),
        ("import nothing_of_that_name\n", "my_scorer.py:1: ModuleNotFoundError"),
        ("x = 1\nraise SystemExit(3)\n", "my_scorer.py:2: SystemExit"),
        ("def grade(answer, item):\n    return 1\n", "no function 'score' (it has grade)"),
        ("score = 3\n", "no function 'score'"),
        ("async def score(answer, item):\n    return 1\n", "is async"),
        ("def score(answer):\n    return 1\n", "cannot be called with an answer and an item"),
        ("def score(answer, item, limit):\n    return 1\n", "limit"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path, body, words):
    with pytest.raises(ConfigError) as caught:
        scorer_of(tmp_path, body)
    assert words in str(caught.value)


def test_settings_and_modules_beside_the_file(tmp_path):
    (tmp_path / "beside.py").write_text("LIMIT = 2\n")
    body = "from beside import LIMIT\ndef score(answer, item, most=9):\n    return len(answer) <= min(LIMIT, most)\n"
    options = OwnScorerOptions(settings={"most": 1})
    assert (
        scorer_of(tmp_path, body, options=options).evaluate(ITEM, Answer("ab")).metrics["task_score"] == 0.0
    )
    assert scorer_of(tmp_path, body).evaluate(ITEM, Answer("ab")).metrics["task_score"] == 1.0


def test_it_travels_to_another_process_without_its_file(tmp_path):
    evaluator = scorer_of(tmp_path, "def score(answer, item):\n    return answer == item.expected\n")
    packed = pickle.dumps(evaluator)
    (tmp_path / "my_scorer.py").unlink()
    assert pickle.loads(packed).evaluate(ITEM, Answer("delivery")).metrics["task_score"] == 1.0


def test_gold_and_wrong_answers_for_simulated_models(tmp_path):
    evaluator = scorer_of(tmp_path, "def score(answer, item):\n    return answer == item.expected\n")
    assert evaluator.gold_answer(ITEM) == "delivery"
    wrong = evaluator.wrong_answer(ITEM, Random(1))
    assert evaluator.evaluate(ITEM, Answer(wrong)).metrics["task_score"] == 0.0
    with pytest.raises(DataError, match="nothing says what the expected answer is"):
        evaluator.gold_answer(Item("x", "?", {"other": 1}))
    generous = scorer_of(tmp_path, "def score(answer, item):\n    return True\n")
    with pytest.raises(DataError, match="as right"):
        generous.wrong_answer(ITEM, Random(1))


def test_names_of_evaluators_are_no_files(tmp_path):
    assert ScorerFile.read("classification", [tmp_path]) is None
    with pytest.raises(ConfigError, match="names no function"):
        ScorerFile.read("my_scorer.py", [tmp_path])
    with pytest.raises(ConfigError, match="no scorer file 'gone.py'"):
        ScorerFile.read("gone.py:score", [tmp_path])


def test_an_edit_changes_the_hash_of_the_profile(tmp_path):
    own_profile = write_own_profile(tmp_path)
    before = load_suite(own_profile).config_hash
    scorer = tmp_path / "my_scorer.py"
    scorer.write_text(scorer.read_text() + "\n# another thought\n")
    assert load_suite(own_profile).config_hash != before
    scorer.unlink()
    with pytest.raises(ConfigError, match=r"tasks\.yaml:\d+: tasks\.tickets\.evaluator"):
        _ = load_suite(own_profile).config_hash


def test_what_a_scorer_changes_stays_with_it(tmp_path):
    body = "def score(answer, item):\n    item['tags'].append(answer)\n    return len(item['tags']) == 1\n"
    item = Item("a", "?", {"tags": []})
    evaluator = scorer_of(tmp_path, body)
    assert [evaluator.evaluate(item, Answer("x")).metrics["task_score"] for _ in range(2)] == [1.0, 1.0]
    assert item.truth == {"tags": []}
