"""Evaluators by name."""

from __future__ import annotations

import json
from random import Random

import pytest

from pcsuite.data.items import Item
from pcsuite.errors import ConfigError
from pcsuite.evaluation import EVALUATORS, build_evaluator
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, MetricValue, Parsed, score_answer


def test_every_name_builds() -> None:
    names = [
        "assert",
        "buildingspec",
        "check",
        "choice",
        "classification",
        "extraction",
        "fever",
        "judged",
        "ner",
        "number",
        "relations",
        "short_answer",
        "sql",
        "truthfulqa",
    ]
    assert list(EVALUATORS) == names
    needed = {"judged": {"judge": {"model": "m", "rubric": "r"}, "instruction": "Answer."}}
    assert all(isinstance(build_evaluator(name, needed.get(name)), Evaluator) for name in names)


def test_mistakes_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown evaluator 'clasification'.*did you mean 'classification'"
    ):
        build_evaluator("clasification")
    with pytest.raises(ConfigError, match=r"evaluator 'classification': lables: .*did you mean 'labels'"):
        build_evaluator("classification", {"lables": ["a"]})
    with pytest.raises(ConfigError, match="evaluator 'sql': time_limit_s: "):
        build_evaluator("sql", {"time_limit_s": 0})
    with pytest.raises(ConfigError, match="bleurt"):
        build_evaluator("truthfulqa", {"bleurt_checkpoint": "/nowhere"})


class OfOthers(Evaluator):
    """Reads JSON by itself, as deep as it goes, and knows no lenient rule."""

    def __init__(self, metrics: dict[str, MetricValue]) -> None:
        super().__init__()
        self.metrics = metrics

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        return Evaluation(Parsed(answer="x", fields=json.loads(answer.text)), dict(self.metrics))

    def gold_answer(self, item: Item) -> str:
        return "{}"

    def wrong_answer(self, item: Item, rng: Random) -> str:
        return "{}"


def test_what_an_evaluator_of_others_leaves_out_or_puts_in_fits_a_row() -> None:
    item = Item("i", "?", {})
    strict = score_answer(OfOthers({"task_score": 0.5}), item, Answer('{"a": 1}'))
    assert (strict.metrics, strict.parsed.fields) == ({"task_score": 0.5, "lenient_score": 0.5}, {"a": 1})
    kinder = score_answer(OfOthers({"task_score": 0.0, "lenient_score": 1.0}), item, Answer("{}"))
    assert kinder.metrics["lenient_score"] == 1.0
    deep = score_answer(OfOthers({"task_score": 1.0}), item, Answer('{"a": ' * 250 + "1" + "}" * 250))
    assert (deep.parsed.answer, deep.parsed.fields) == ("x", {})
    assert deep.parsed.parse_errors == ["fields left out: nested more than 200 levels deep"]
    level = score_answer(OfOthers({"task_score": 1.0}), item, Answer('{"a": ' * 200 + "1" + "}" * 200))
    assert level.parsed.parse_errors == []
