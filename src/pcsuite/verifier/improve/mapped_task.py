"""What an extraction prompt says where only a mapping is known: instruction, rules and schema made of its fields.

The bundled task speaks of buildings. Records of another domain are asked for in the words of their own mapping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pcsuite.config.definitions import TaskSpec
from pcsuite.runners.task_plan import TaskPlan
from pcsuite.verifier.mapping import FieldMapping, FieldRule, list_paths

_WORDS = {
    "text": "text",
    "fuzzy": "text",
    "identifier": "as printed",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "phone": "a phone number",
    "text_list": "a list of texts",
    "text_set": "a list of texts",
    "number_list": "a list of numbers, in order",
    "number_set": "a list of numbers",
}
_JSON = {
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "money": "number",
    "percent": "number",
}
_LONGEST_TEXT = 2_000


def instruction_of(mapping: FieldMapping) -> str:
    """An instruction that asks for every field of a mapping, with its type in words and the label of the truth.

    Fields that are not extractable are not asked for.
    """
    lines = ["Extract the record that the document describes as one JSON object.", "", "Its fields:"]
    lists = list_paths(mapping)
    rules = [(pattern, rule) for pattern, rule in mapping.patterns() if rule.extractable]
    lines += [f"- {pattern}: {_in_words(rule)}" for pattern, rule in rules if "[]" not in pattern]
    for path in sorted(lists, key=lambda one: (one.count("[]"), one)):
        columns = [(pattern, rule) for pattern, rule in rules if pattern.rpartition("[].")[0] == path]
        if not columns:
            continue
        if "[]" in path:
            holder, _, name = path.rpartition("[].")
            where = f"{name}, a list inside each item of {holder.rpartition('.')[2]}"
        else:
            where = f"{path}, a list"
        lines += ["", f"{where}, each item with:"]
        lines += [f"- {pattern.rpartition('[].')[2]}: {_in_words(rule)}" for pattern, rule in columns]
    lines += ["", "Leave out what the document does not state."]
    return "\n".join(lines)


def _in_words(rule: FieldRule) -> str:
    words = _WORDS.get(rule.type, "")
    if rule.type == "date":
        form = {"year": "YYYY", "month": "YYYY-MM"}.get(rule.precision or "", "YYYY-MM-DD")
        words = f"a date as {form}" + (f", or {' or '.join(rule.values)}" if rule.values else "")
    elif rule.type == "enum":
        words = f"one of {', '.join(rule.values)}"
    elif rule.type == "money":
        words = f"an amount in {rule.currency}, as a number" if rule.currency else "an amount of money"
    elif rule.type == "percent":
        words = "a share of 1" if rule.fraction else "in percent, as a number"
    elif rule.type == "quantity":
        words = f"in {rule.unit}, as a number"
    elif rule.unit:
        words = f"{words} in {rule.unit}"
    return f"{words} ({rule.label!r} in the document, or the like)" if rule.label else words


def schema_of(mapping: FieldMapping) -> dict[str, Any]:
    """The JSON Schema of a record under a mapping: what SCHEMA shows and constraints enforce."""
    root = _object()
    for pattern, rule in mapping.patterns():
        if not rule.extractable:
            continue
        node = root
        *holders, last = pattern.split(".")
        for holder in holders:
            key, is_list = holder.removesuffix("[]"), holder.endswith("[]")
            part = node["properties"].setdefault(
                key, {"type": "array", "items": _object()} if is_list else _object()
            )
            node = part["items"] if is_list else part
        node["properties"][last] = _value_schema(rule)
    return root


def _object() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _value_schema(rule: FieldRule) -> dict[str, Any]:
    if rule.type in ("text_list", "text_set"):
        return {"type": "array", "items": {"type": "string", "maxLength": _LONGEST_TEXT}}
    if rule.type in ("number_list", "number_set"):
        return {"type": "array", "items": {"type": "number"}}
    if rule.type == "enum":
        return {"type": "string", "enum": list(rule.values)}
    if rule.type == "quantity":
        return {"type": "number"}
    if rule.type in _JSON:
        return {"type": _JSON[rule.type]}
    return {"type": "string", "maxLength": _LONGEST_TEXT}


def task_of_mapping(planned: TaskPlan, mapping: FieldMapping) -> TaskPlan:
    """A task that extracts the records of a mapping, where the task's own texts are about something else.

    Instruction, role, rules, checks and schema are the mapping's; exemplars of another domain are left out.
    """
    spec: TaskSpec = planned.spec.model_copy(
        update={
            "title": "Records out of documents",
            "domain": "",
            "instruction": instruction_of(mapping),
            "role": "a careful clerk who transcribes documents into records, field by field",
            "goal": "Give every value the document states, under its own field, so that the record could replace it.",
            "rules": (
                "Copy names and numbers of things exactly as they stand in the document.",
                "Numbers are plain JSON numbers without unit and without thousands separator.",
                "Every row of a table is one item of its list.",
                "Take figures from the document as they stand; calculate nothing.",
            ),
            "abstain": "Leave a field out where the document does not give its value.",
            "decompose": (
                "Read the document once from beginning to end.",
                "Go through the fields one by one, then through each list row by row.",
                "Write the record.",
            ),
            "verifier_checklist": (
                "Is every number a JSON number, without unit, quotes or thousands separator?",
                "Has every list as many items as the document has rows?",
                "Does the document state every value that is given?",
            ),
            "length_band": None,
        }
    )
    prompting = replace(planned.prompting, task=spec, schema=schema_of(mapping), exemplars=())
    return replace(planned, spec=spec, prompting=prompting)
