"""One evaluator per kind of task, looked up by name."""

from __future__ import annotations

from pcsuite.evaluation.base import Evaluator
from pcsuite.registry import Registry

EVALUATORS: Registry[type[Evaluator]] = Registry(
    "evaluator",
    "pcsuite.tasks",
    {
        "buildingspec": "pcsuite.verifier.evaluator:BuildingSpecEvaluator",
        "choice": "pcsuite.evaluation.choice:ChoiceEvaluator",
        "classification": "pcsuite.evaluation.classification:ClassificationEvaluator",
        "extraction": "pcsuite.evaluation.extraction:ExtractionEvaluator",
        "fever": "pcsuite.evaluation.fever:FeverEvaluator",
        "ner": "pcsuite.evaluation.ner:NerEvaluator",
        "number": "pcsuite.evaluation.number:NumberEvaluator",
        "short_answer": "pcsuite.evaluation.short_answer:ShortAnswerEvaluator",
        "sql": "pcsuite.evaluation.sql:SqlEvaluator",
        "truthfulqa": "pcsuite.evaluation.truthfulqa:TruthfulQaEvaluator",
    },
)
