"""Whether an answer can be read: by form alone, never by the truth."""

from __future__ import annotations

from pcsuite.data.items import Item
from pcsuite.evaluation.base import Answer, Evaluator

_MOST_PROBLEMS = 3


def problems_of(evaluator: Evaluator, item: Item, text: str, finish_reason: str) -> list[str]:
    """What keeps an answer from being read, in words for the model; empty where nothing does.

    Only the evaluator's parse is looked at: the answer must conform to the task's schema, where it has one,
    and hold an answer of the task's kind. Whether that answer is right plays no part. A truncated answer is
    never whole.
    """
    parsed = evaluator.evaluate(item, Answer(text, finish_reason)).parsed
    if finish_reason != "length" and parsed.schema_valid is not False and parsed.answer is not None:
        return []
    named = list(dict.fromkeys(parsed.parse_errors))[:_MOST_PROBLEMS]
    return named or ["it holds no answer to the task"]


def conforms(evaluator: Evaluator, item: Item, text: str) -> bool:
    """Whether a text is beyond doubt an answer: the task has a schema and the text conforms to it."""
    if evaluator.schema is None:
        return False
    parsed = evaluator.evaluate(item, Answer(text)).parsed
    return parsed.schema_valid is True and parsed.answer is not None
