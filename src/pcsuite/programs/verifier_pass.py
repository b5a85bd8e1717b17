"""The verifier pass: the same model, at temperature 0, judges an answer that it gave before.

It is asked two things: whether the answer contradicts itself, and whether it is right as far as the model can
tell. It sees the task's bare instruction, the input and the answer; never the truth, and no operator's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pcsuite.engines.adapters.base import Constraint, Decoding
from pcsuite.evaluation.base import Parsed
from pcsuite.evaluation.parsing import clean_text, parse_object

VERSION = 1
"""Raised when the question changes; part of the run ids of verifier rows."""
DECODING = Decoding("verifier", temperature=0.0, top_p=1.0, max_tokens=40)
ANSWER_CHARACTERS = 4_000
"""What is shown of an answer; longer ones are cut in the middle."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"contradiction": {"type": "boolean"}, "correct": {"type": "boolean"}},
    "required": ["contradiction", "correct"],
    "additionalProperties": False,
}
CONSTRAINT = Constraint("json_schema", json.dumps(SCHEMA))
"""Asked for where the model's engine enforces it, so that small models give a readable verdict."""

_WORDS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the model judged; ``None`` where it could not be read."""

    contradiction: bool | None
    correct: bool | None
    parsed: Parsed


def verdict_prompt(instruction: str, input_label: str, input_text: str, answer: str) -> str:
    """The question about one answer."""
    shown = answer.strip()
    if len(shown) > ANSWER_CHARACTERS:
        half = ANSWER_CHARACTERS // 2
        shown = f"{shown[:half]}\n[…]\n{shown[-half:]}"
    return (
        "Judge an answer that was given to a task. Do not solve the task anew and do not continue the answer.\n\n"
        f"Task:\n{instruction}\n\n{input_label}:\n{input_text}\n\nAnswer:\n{shown}\n\n"
        "Two questions:\n"
        "1. contradiction: does one part of the answer contradict another part of it?\n"
        "2. correct: is the answer right?\n"
        'Reply with one JSON object and nothing else: {"contradiction": true or false, "correct": true or false}'
    )


def verdict_text(*, contradiction: bool, correct: bool) -> str:
    """A verdict as it should be written."""
    return json.dumps({"contradiction": contradiction, "correct": correct})


def read_verdict(text: str, finish_reason: str) -> Verdict:
    """Read a verdict: from JSON, else from lines such as ``contradiction: no``; never guess one."""
    cleaned = clean_text(text)
    parsed = parse_object(cleaned, SCHEMA)
    if finish_reason == "length" and not parsed.schema_valid:
        parsed.parse_errors.append("truncated: generation ended at the token limit")
        return Verdict(None, None, parsed)
    contradiction = _truth_value(parsed.fields.get("contradiction"))
    correct = _truth_value(parsed.fields.get("correct"))
    if not parsed.json_valid:
        contradiction, correct = _stated(cleaned, "contradiction"), _stated(cleaned, "correct")
    return Verdict(contradiction, correct, parsed)


def _truth_value(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return _WORDS.get(value.strip().casefold()) if isinstance(value, str) else None


def _stated(text: str, name: str) -> bool | None:
    """The one value a text states for a name; ``None`` where it states none, or both."""
    pattern = rf"^[\s\d.)*\"'-]*{name}[\s\"'*]*[:=][\s\"'*]*(true|false|yes|no)\b"
    stated = {_WORDS[word.casefold()] for word in re.findall(pattern, text, re.IGNORECASE | re.MULTILINE)}
    return stated.pop() if len(stated) == 1 else None
