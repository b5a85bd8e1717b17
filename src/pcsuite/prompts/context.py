"""What a prompt may say about a task and an item."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, get_args

from pcsuite._util.hashing import canonical_json
from pcsuite.config.definitions import TaskKind, TaskSpec, Wording
from pcsuite.config.spellings import EVALUATOR_OF_KIND, task_kind
from pcsuite.errors import PromptError, did_you_mean


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A solved item from the training split."""

    input_text: str
    output_text: str
    item_id: str = ""

    @classmethod
    def of(cls, entry: Any) -> Exemplar:
        """An exemplar of plain values: a mapping with ``input`` and ``output`` (or ``input_text`` and ``output_text``),
        or a pair.

        An output that is no text is shown as JSON; a mapping without one of the two is a ``PromptError``.
        """
        if isinstance(entry, Exemplar):
            return entry
        if isinstance(entry, Mapping):
            shown, output = (entry.get(f"{key}_text", entry.get(key)) for key in ("input", "output"))
            if shown is None or output is None:
                raise PromptError("an exemplar needs 'input' and 'output'")
            text = output if isinstance(output, str) else canonical_json(output)
            return cls(str(shown), text)
        first, second = entry
        return cls(str(first), str(second))


class Lines(tuple[Any, ...]):
    """Values of a context that templates go through one by one, or print as they are: then each is a line of a list."""

    def __str__(self) -> str:
        return "\n".join(f"- {entry}" for entry in self)


DEFAULT_GOAL = "Answer what is asked, correctly and completely."
DEFAULT_CHECKLISTS: Mapping[TaskKind, tuple[str, ...]] = {
    "structured": (
        "Is the answer one JSON object with every required field?",
        "Is every value taken from the input, with nothing invented?",
        "Is every field of the right type and in the allowed form?",
    ),
    "reasoning": (
        "Does every step follow from the input and the steps before it?",
        "Does the last line answer what was asked?",
        "Is the last line in the form that was asked for?",
    ),
    "judged": (
        "Does the answer do what was asked, and all of it?",
        "Is everything it says right and of use to the reader?",
    ),
}
"""What VERIFIER checks where nothing says it."""


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The variables templates see. Only ``task_id``, ``task_kind`` and ``input_text`` are always needed."""

    task_id: str
    task_kind: TaskKind
    input_text: str
    task_title: str = ""
    task_goal: str = ""
    instruction: str = ""
    role: str = ""
    rules: tuple[str, ...] = ()
    abstain: str = 'Say "INSUFFICIENT_INFO" in place of the answer.'
    decompose: tuple[str, ...] = ()
    schema_text: str = ""
    final_answer_format: str = ""
    exemplars: tuple[Exemplar, ...] = ()
    verifier_checklist: tuple[str, ...] = ()
    input_label: str = "Input"
    answer_regex: str = ""
    grammar: str = ""
    lmql_query: str = ""
    wording: Wording = "2"
    """Layout of the prompt; see ``wording`` of an operators file."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the item that placeholders of a verbatim prompt name."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> PromptContext:
        """Build a context from plain values, as ``build_condition`` takes them.

        Exemplars may be mappings (``input_text`` and ``output_text``) or pairs, an output or a schema may be an
        object, and what is left out has a plain default. A key that is unknown, missing or wrong is a
        ``PromptError``.
        """
        names = {entry.name for entry in fields(cls)}
        for key in values:
            if key not in names:
                raise PromptError(f"ctx has an unknown key '{key}'", hint=did_you_mean(key, names))
        for key in ("task_id", "task_kind", "input_text"):
            if key not in values:
                raise PromptError(f"ctx needs '{key}'")
        kind = task_kind(values["task_kind"])
        if kind not in get_args(TaskKind):
            raise PromptError(
                f"ctx['task_kind'] is '{kind}'",
                hint=did_you_mean(str(kind), ["structured", *EVALUATOR_OF_KIND]),
            )
        # What is None was left out by the caller: the field's own default holds.
        known: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
        known["task_kind"] = kind
        for key in ("rules", "decompose", "verifier_checklist"):
            if key in known:  # a list, or a text with an entry on each line
                lines = known[key].split("\n") if isinstance(known[key], str) else known[key]
                known[key] = tuple(
                    str(line).strip().removeprefix("- ") for line in lines if str(line).strip()
                )
        if not known.get("verifier_checklist"):
            known["verifier_checklist"] = DEFAULT_CHECKLISTS[kind]
        known["exemplars"] = tuple(Exemplar.of(entry) for entry in values.get("exemplars") or ())
        title = known.get("task_title") or str(values["task_id"]).replace("_", " ")
        known.setdefault("instruction", f"{title}: answer for the input below.")
        known.setdefault("role", f"a careful specialist in {title}")
        if not known.get("task_goal"):  # else GOAL would be a heading over nothing
            known["task_goal"] = DEFAULT_GOAL
        schema = known.get("schema_text")
        if isinstance(schema, Mapping):
            known["schema_text"] = schema_text(schema)
        return cls(**known)

    def variables(self) -> dict[str, Any]:
        """Plain mapping for templates; ``checklist`` is a second name of ``verifier_checklist``."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in ("rules", "decompose", "verifier_checklist"):
            values[name] = Lines(values[name])
        values["checklist"] = values["verifier_checklist"]
        return values


_TASK_FIELDS = (
    "instruction", "role", "rules", "abstain", "decompose", "final_answer_format", "verifier_checklist", "input_label",
    "answer_regex",
)  # fmt: skip
"""What a context takes from its task under the same name; ``None`` there leaves the default."""


@dataclass(frozen=True)
class TaskPrompting:
    """A task's part of the context, made once; :meth:`context` adds the item."""

    task_id: str
    task: TaskSpec
    schema: Mapping[str, Any] | None
    grammar: str | None
    exemplars: tuple[Exemplar, ...] = ()
    lmql_query: str | None = None
    wording: Wording = "2"

    def context(self, input_text: str, columns: Mapping[str, str] | None = None) -> PromptContext:
        """The context of one item; an empty ``input_text`` gives what all items of the task share.

        ``columns`` are those of the item that placeholders of a verbatim prompt name.
        """
        return replace(self._without_input, input_text=input_text, columns=columns or {})

    @cached_property
    def _without_input(self) -> PromptContext:
        task = self.task
        shared = {name: getattr(task, name) for name in _TASK_FIELDS if getattr(task, name) is not None}
        return PromptContext(
            task_id=self.task_id,
            task_kind=task.kind,
            input_text="",
            task_title=task.title,
            task_goal=task.goal,
            schema_text=schema_text(self.schema) if self.schema else "",
            exemplars=self.exemplars,
            grammar=self.grammar or "",
            lmql_query=self.lmql_query or "",
            wording=self.wording,
            **shared,
        )


def schema_text(schema: Mapping[str, Any]) -> str:
    """The schema as a prompt shows it and a constraint enforces it: on one line, keys in their order.

    ``$schema``, ``$id`` and ``title`` are left out; they say nothing about the answer.
    """
    shown = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "title")}
    return json.dumps(shown, ensure_ascii=False, separators=(", ", ": "))
