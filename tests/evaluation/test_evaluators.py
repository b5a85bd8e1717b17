"""Evaluators by name."""

from __future__ import annotations

import pytest

from pcsuite.errors import ConfigError
from pcsuite.evaluation import EVALUATORS, build_evaluator
from pcsuite.evaluation.base import Evaluator


def test_every_name_builds() -> None:
    names = [
        "assert",
        "buildingspec",
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
    with pytest.raises(
        ConfigError, match=r"evaluator 'classification': option 'lables'.*did you mean 'labels'"
    ):
        build_evaluator("classification", {"lables": ["a"]})
    with pytest.raises(ConfigError, match="evaluator 'sql': option 'time_limit_s'"):
        build_evaluator("sql", {"time_limit_s": 0})
    with pytest.raises(ConfigError, match="bleurt"):
        build_evaluator("truthfulqa", {"bleurt_checkpoint": "/nowhere"})
