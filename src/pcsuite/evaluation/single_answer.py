"""Tasks whose answer is one value: a label or a choice here, numbers and short texts in modules of their own.

All go the same way: read the value, recognise an abstention, bring it to its canonical spelling, compare.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from random import Random
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from pcsuite._util.hashing import seed_from
from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError
from pcsuite.evaluation import base
from pcsuite.evaluation.abstention import ABSTENTION, stated_abstention, text_abstains, value_abstains
from pcsuite.evaluation.claims import Conclusion, Unsure
from pcsuite.evaluation.lenient import loose_answer
from pcsuite.evaluation.marks import field_line, marked_answer
from pcsuite.evaluation.mentions import claimed_choice, claimed_label, claimed_yes_or_no
from pcsuite.evaluation.parsing import parse_object
from pcsuite.evaluation.schema_check import written_answer
from pcsuite.evaluation.stated_numbers import last_line


class SingleAnswerOptions(Definition):
    """Options of every evaluator with one answer value."""

    answer_field: str = "answer"
    """Field of the JSON answer that holds the value."""
    abstain_field: str = "abstained"
    """Field that says whether the model abstains, where the schema has one."""
    confidence_field: str | None = None
    """Field with the stated confidence (0..1); logged with the row for calibration."""
    word_limits: dict[str, int] = Field(default_factory=dict)
    """Most words a field may have; excess is logged, not punished."""
    plain_text: bool | None = None
    """Whether an answer outside JSON is read too; by default only where the task has no schema."""
    answer_prefix: str = "Answer: "
    """What stands before the answer in a gold answer written as text."""


class SingleAnswerEvaluator(base.Evaluator):
    """Scores 1 for the right value and 0 for any other, for a missing one, and for a truncated answer."""

    Options: ClassVar[type[BaseModel]] = SingleAnswerOptions
    options: SingleAnswerOptions
    gold_key: ClassVar[str] = "answer"
    """Key of the truth that holds the right answer."""
    other_names: ClassVar[tuple[str, ...]] = ("answer", "final_answer", "result", "response")
    """Names of the answer field that a lenient reader accepts too."""
    closed: bool = True
    """Whether canonical answers are of a closed kind, so that one is surely an answer even if it reads like an
    abstention (an option may); where any text has a canonical form only a right one is."""
    reread: ClassVar[re.Pattern[str] | None] = None
    """What in a text makes a lenient reader look again although it has a canonical answer; by default nothing."""

    def __init__(self, options: BaseModel | None = None, schema: Mapping[str, Any] | None = None) -> None:
        super().__init__(options, schema)
        self._expected = base.required_fields(schema, (self.options.answer_field,))

    @abstractmethod
    def canonical(self, value: object, item: Item) -> str | None:
        """One spelling of an answer value, or ``None`` where it is no answer of this kind.

        ``value`` is what stood in the answer field or the text; canonical answers are compared, voted on and counted.
        """

    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether a canonical answer is right: by default whether it is the gold value.

        Called only for answers that do not abstain, to items that can be answered.
        """
        return answer == self.gold_value(item)

    def gold_value(self, item: Item) -> str:
        """The right answer as a model should write it: by default the truth's :attr:`gold_key`.

        Raises :class:`~pcsuite.errors.DataError` where the truth lacks it.
        """
        return str(base.truth_of(item, self.gold_key))

    @abstractmethod
    def wrong_value(self, item: Item, rng: Random) -> str:
        """A well-formed wrong answer."""

    def plain_value(self, text: str, item: Item) -> object:
        """The answer value in a text that is not JSON: what is marked as the answer, else the whole text.

        Called only for texts with content; :data:`~pcsuite.evaluation.claims.AMBIGUOUS` for one that gives several
        answers or takes its answer back.
        """
        marked = marked_answer(text)
        return text if marked is None else marked

    def plain_answer(self, item: Item, value: str) -> str:
        """A text that gives ``value`` as its marked answer, for tasks without a schema."""
        return f"{self.options.answer_prefix}{value}"

    def companions(self, item: Item, value: str) -> dict[str, Any]:
        """Other fields a complete JSON answer has beside the value.

        By default none; what the schema requires besides is filled in with the smallest value it accepts.
        """
        return {}

    def answer_metrics(self, item: Item, parsed: base.Parsed, value: object) -> dict[str, base.MetricValue]:
        """Further metrics of one row; ``value`` is what was read as the answer, before its canonical form.

        ``value`` is ``None`` for an answer that could not be read or was cut off. By default there are none.
        """
        return {}

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Score one answer: 1 for the right value, or for abstaining where the item is unanswerable.

        Logs ``confidence`` and its ``brier`` score where the options name a confidence field.
        """
        text = base.clean_text(answer.text)
        parsed, value = self._read(text, item)
        if isinstance(value, Unsure):
            parsed.reading, value = value.value, None
        parsed.answer = None if value is None else self.canonical(value, item)
        flag = parsed.fields.get(self.options.abstain_field)
        stated = None if flag is None else stated_abstention(flag)
        if stated is not None:
            abstained = stated
        elif parsed.answer is not None and (
            self.closed or (self.gold_key in item.truth and self.is_correct(parsed.answer, item))
        ):
            abstained = False
        else:
            unmarked = parsed.json_mode == "not_json" and marked_answer(text) is None
            abstained = value_abstains(value) or (unmarked and text_abstains(last_line(text)))
        if abstained:
            parsed.answer = ABSTENTION
        elif value is not None and parsed.answer is None:
            parsed.parse_errors.append(f"not an answer of this task: {str(value)[:80]!r}")
        unanswerable = item.unanswerable
        if unanswerable or abstained:
            correct = unanswerable and abstained
        else:
            correct = parsed.answer is not None and self.is_correct(parsed.answer, item)
        truncated, lenient = answer.finish_reason == "length", None
        settled = parsed.answer is not None and not (self.reread and self.reread.search(answer.text))
        if not (correct or abstained or unanswerable or truncated or settled):
            lenient = self._lenient_score(answer.text, item, parsed)
        extra = base.field_metrics(
            parsed.fields,
            word_limits=self.options.word_limits,
            expected=None if parsed.json_mode == "not_json" else self._expected,
            confidence_field=self.options.confidence_field,
        )
        extra |= self.answer_metrics(item, parsed, None if truncated else value)
        evaluation = base.conclude(
            parsed,
            answer,
            score=float(correct),
            lenient=lenient,
            exact_match=correct,
            abstained=abstained,
            unanswerable=unanswerable,
            extra=extra,
        )
        confidence = evaluation.metrics.get("confidence")
        if isinstance(confidence, float):
            score = evaluation.metrics["task_score"]
            evaluation.metrics["brier"] = (confidence - float(score or 0.0)) ** 2
        return evaluation

    def lenient_value(self, value: object, item: Item) -> Conclusion:
        """What a lenient reader takes the answer field's value for: its canonical form, or one by looser rules.

        Called with what stood in the field; ``None`` where even that reader finds no answer.
        """
        return self.canonical(value, item)

    def lenient_prose(self, text: str, item: Item) -> Conclusion:
        """What a lenient reader finds in an answer outside JSON: a line that names the field, or what is marked.

        ``text`` holds no object; by default the value is then read as in a field.
        """
        return self.lenient_value(field_line(text, self.field_names) or marked_answer(text) or text, item)

    def is_leniently_correct(self, value: str, item: Item) -> bool:
        """Whether a leniently read value is right: by default as for any canonical answer."""
        return self.is_correct(value, item)

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        """The answer field and the names that models give it instead."""
        return tuple(dict.fromkeys((self.options.answer_field, *self.other_names)))

    def _lenient_score(self, text: str, item: Item, parsed: base.Parsed) -> float:
        """1 where a lenient reader finds the right answer in what the strict one could not use."""
        doubted = parsed.reading == Unsure.AMBIGUOUS.value
        loose = loose_answer(text, parsed.fields, self.field_names, doubted=doubted)
        if loose is None:
            return 0.0
        value, rule = loose
        canonical = self.lenient_prose(value, item) if rule is None else self.lenient_value(value, item)
        if isinstance(canonical, Unsure):
            parsed.reading = canonical.value
            return 0.0
        if canonical is None:
            return 0.0
        if parsed.answer is None:
            parsed.reading = "lenient"
        if not self.is_leniently_correct(canonical, item):
            return 0.0
        parsed.note_lenient(repr(canonical[:40]), rule or "answer in a sentence")
        return 1.0

    def check(self, item: Item) -> None:
        """See that the truth's own answer would be right; :class:`~pcsuite.errors.DataError` where none could be.

        Items that are unanswerable need no answer. The error names what answers may be (:meth:`allowed`).
        """
        if item.unanswerable:
            return
        gold = self.gold_value(item)
        read = self.canonical(gold, item)
        if read is None or not self.is_correct(read, item):
            raise DataError(
                f"item '{item.item_id}': truth '{self.gold_key}' is {gold!r}, which no answer of the task can be",
                hint=self.allowed(item),
            )

    def allowed(self, item: Item) -> str | None:
        """What answers of the task look like, for an error; ``None`` where any text is one."""
        return None

    def gold_answer(self, item: Item) -> str:
        """A perfect answer: in JSON where the task has a schema, else as marked text.

        It states a confidence of 0.95 where the schema has that field, and abstains where that is right.
        """
        value = ABSTENTION if item.unanswerable else self.gold_value(item)
        return self._write(item, value, confidence=0.95)

    def exemplar_answer(self, item: Item) -> str:
        """A perfect answer whose confidence, between 0.6 and 0.98, hangs on the item.

        One figure in every exemplar would be a word to copy, not a confidence.
        """
        share = Random(seed_from(f"confidence of {item.item_id}")).random()
        value = ABSTENTION if item.unanswerable else self.gold_value(item)
        return self._write(item, value, confidence=round(0.6 + 0.38 * share, 2))

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """A well-formed answer with a wrong value.

        It states a confidence between 0.4 and 0.9 where the schema has that field.
        """
        value = self.wrong_value(item, rng)
        return self._write(item, value, confidence=round(0.4 + 0.5 * rng.random(), 2))

    def _write(self, item: Item, value: str, confidence: float) -> str:
        if self.schema is None:
            return self.plain_answer(item, value)
        fields: dict[str, Any] = {self.options.answer_field: value, **self.companions(item, value)}
        properties = self.schema.get("properties", {})
        if self.options.confidence_field in properties:
            fields[str(self.options.confidence_field)] = confidence
        if self.options.abstain_field in properties:
            fields[self.options.abstain_field] = value == ABSTENTION
        return written_answer(fields, self.schema)

    def _read(self, text: str, item: Item) -> tuple[base.Parsed, object]:
        """The answer value, from JSON where there is or must be some, else from the text."""
        plain = self.schema is None if self.options.plain_text is None else self.options.plain_text
        if self.schema is None and "{" not in text and text.lstrip()[:1] != "[":
            return base.Parsed(), (self.plain_value(text, item) if text.strip() else None)
        parsed = parse_object(text, self.schema, (self.options.answer_field,))
        value = parsed.fields.get(self.options.answer_field)
        if self.schema is None and parsed.json_mode == "embedded" and marked_answer(text) is not None:
            value = None  # a text task's marked answer wins over an object that happens to stand in the text
        if value is not None or not plain or stated_abstention(parsed.fields.get(self.options.abstain_field)):
            if parsed.json_valid and value is None:
                parsed.parse_errors.append(f"no field '{self.options.answer_field}'")
            return parsed, value
        if self.schema is None:
            parsed = base.Parsed()
        return parsed, (self.plain_value(text, item) if text.strip() else None)


_YES_NO_ALIASES = {"true": "yes", "false": "no", "y": "yes", "n": "no", "1": "yes", "0": "no"}
_WRAPPING = " \t\r\n.!,;:\"'“”‘’*`()[]"


class ClassificationOptions(SingleAnswerOptions):
    """Options of the ``classification`` evaluator."""

    answer_field: str = "label"
    """Field of the JSON answer that holds the label."""
    labels: tuple[str, ...] = ()
    """The labels; by default those the schema's ``enum`` lists."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Other spellings of a label; yes/no tasks know true/false by themselves."""
    confidence_field: str | None = "confidence"
    """Field with the stated confidence (0..1)."""
    rationale_field: str = "rationale"
    """Field with the reason, written into gold answers where the schema has it."""
    lenient_aliases: dict[str, str] = Field(default_factory=dict)
    """Further names of a label that only ``lenient_score`` accepts, such as ``Science and Technology: Sci/Tech``."""


class ClassificationEvaluator(SingleAnswerEvaluator):
    """Accuracy of a label; labels match exactly after trimming and case-folding."""

    Options: ClassVar[type[BaseModel]] = ClassificationOptions
    options: ClassificationOptions
    gold_key: ClassVar[str] = "label"
    other_names: ClassVar[tuple[str, ...]] = (
        "label",
        "category",
        "class",
        "topic",
        "answer",
        "prediction",
        "labels",
        "categories",
        "classes",
    )

    def __init__(self, options: BaseModel | None = None, schema: Mapping[str, Any] | None = None) -> None:
        super().__init__(options, schema)
        properties: Mapping[str, Any] = (schema or {}).get("properties", {})
        listed = properties.get(self.options.answer_field, {}).get("enum", ())
        of_schema = tuple(label for label in listed if isinstance(label, str) and label != ABSTENTION)
        self.labels: tuple[str, ...] = self.options.labels or of_schema
        """The label set: the options', else the schema's (less the abstention literal), else empty."""
        self.closed = bool(self.labels)
        spellings = {base.fold(label): label for label in self.labels}
        self._is_yes_no = set(spellings) == {"yes", "no"}
        if self._is_yes_no:
            spellings |= {alias: spellings[label] for alias, label in _YES_NO_ALIASES.items()}
        self._spellings = spellings | {
            base.fold(alias): label for alias, label in self.options.aliases.items()
        }
        self._loose = (
            {label: label for label in self.labels} | self.options.aliases | self.options.lenient_aliases
        )
        self._loose_folded = {base.fold(name): label for name, label in self._loose.items()}

    def allowed(self, item: Item) -> str | None:
        return f"labels are {', '.join(self.labels)}" if self.labels else None

    def canonical(self, value: object, item: Item) -> str | None:
        """The label as the label set spells it, whatever the case and punctuation around it.

        ``None`` for a label outside the set; without a set, the folded text.
        """
        text = str(value).lower() if isinstance(value, (bool, int)) else value
        if not isinstance(text, str):
            return None
        for form in (base.fold(text), base.fold(text.strip(_WRAPPING))):
            if form in self._spellings:
                return self._spellings[form]
            if not self.labels and form:
                gold = str(base.truth_of(item, "label"))
                return gold if form == base.fold(gold) else form
        return None

    def lenient_value(self, value: object, item: Item) -> Conclusion:
        """The label by another name, or the one that a text claims.

        A list of one label is that label.
        """
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        strict = self.canonical(value, item)
        if strict is not None or not isinstance(value, str) or not self.labels:
            return strict
        if self._is_yes_no:
            answer = claimed_yes_or_no(value, self.field_names)
            return self._spellings[answer] if isinstance(answer, str) else answer
        named = self._loose_folded.get(base.fold(value.strip(_WRAPPING)))
        return named or claimed_label(value, self._loose, self.field_names)

    def lenient_prose(self, text: str, item: Item) -> Conclusion:
        """What the text claims; without a set of labels, what a line names or marks."""
        return self.lenient_value(text, item) if self.labels else super().lenient_prose(text, item)

    def is_correct(self, answer: str, item: Item) -> bool:
        """Whether the label is the item's."""
        return base.fold(answer) == base.fold(str(base.truth_of(item, "label")))

    def answer_metrics(self, item: Item, parsed: base.Parsed, value: object) -> dict[str, base.MetricValue]:
        """``pred_label``: the label that was given, ``None`` for an answer that is none or was cut off."""
        return {"pred_label": parsed.answer if value is not None else None}

    def wrong_value(self, item: Item, rng: Random) -> str:
        """Another label, drawn at random."""
        gold = base.fold(str(item.truth.get("label", "")))
        others = [label for label in self.labels if base.fold(label) != gold]
        return rng.choice(others) if others else f"not {gold}"

    def companions(self, item: Item, value: str) -> dict[str, Any]:
        """A short reason, where the schema asks for one.

        The item's own rationale stands beside its own label, where it has one.
        """
        field = self.options.rationale_field
        if field not in (self.schema or {}).get("properties", {}):
            return {}
        rationale = item.truth.get("rationale")
        is_gold = base.fold(value) == base.fold(str(item.truth.get("label", "")))
        return {field: str(rationale) if rationale and is_gold else f"The text fits {value} best."}


_LETTER_FIRST = re.compile(r"[(\[*\"'`]{0,3}([A-Za-z])[)\]*\"'`]{0,3}(?:[.:)\-–—]|\s*$)")
_OPTION_WORD = re.compile(r"(?:option|choice|answer)\s{1,3}", re.IGNORECASE)
_CHOICE_WRAPPING = " \t\r\n.\"'“”‘’*`"


class ChoiceOptions(SingleAnswerOptions):
    """Options of the ``choice`` evaluator."""

    answer_field: str = "choice"
    """Field of the JSON answer that holds the letter."""
    confidence_field: str | None = "confidence"
    """Field with the stated confidence (0..1)."""
    justification_field: str = "justification"
    """Field with the reason, written into gold answers where the schema has it."""


class ChoiceEvaluator(SingleAnswerEvaluator):
    """Accuracy of a choice among lettered options (``truth``: ``choice`` and ``choices``)."""

    Options: ClassVar[type[BaseModel]] = ChoiceOptions
    options: ChoiceOptions
    gold_key: ClassVar[str] = "choice"
    other_names: ClassVar[tuple[str, ...]] = (
        "choice",
        "answer",
        "option",
        "letter",
        "selected",
        "final_answer",
    )

    def allowed(self, item: Item) -> str | None:
        return f"choices are {', '.join(item.truth['choices'])}"

    def canonical(self, value: object, item: Item) -> str | None:
        """The letter of the chosen option."""
        if not isinstance(value, str):
            return None
        choices: Mapping[str, str] = base.truth_of(item, "choices")
        return match_choice(value, choices)

    def lenient_value(self, value: object, item: Item) -> Conclusion:
        """The option that a text claims by its letter, its text or both.

        A list of one choice is that choice.
        """
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str):
            return None
        choices: Mapping[str, str] = base.truth_of(item, "choices")
        return self.canonical(value, item) or claimed_choice(value, choices, self.field_names)

    def lenient_prose(self, text: str, item: Item) -> Conclusion:
        """The option that the text claims."""
        return self.lenient_value(text, item)

    def answer_metrics(self, item: Item, parsed: base.Parsed, value: object) -> dict[str, base.MetricValue]:
        """``pred_choice``: the letter that was chosen, ``None`` for an answer that is none or was cut off."""
        return {"pred_choice": parsed.answer if value is not None else None}

    def wrong_value(self, item: Item, rng: Random) -> str:
        """Another letter, drawn at random."""
        gold = str(item.truth.get("choice", ""))
        letters: list[str] = sorted(base.truth_of(item, "choices"))
        return rng.choice([letter for letter in letters if letter != gold])

    def companions(self, item: Item, value: str) -> dict[str, Any]:
        """A short reason, where the schema asks for one."""
        field = self.options.justification_field
        if field not in (self.schema or {}).get("properties", {}):
            return {}
        chosen = " ".join(str(base.truth_of(item, "choices").get(value, "Nothing")).split()[:12])
        return {field: f"{chosen} fits the question best."}


def match_choice(value: str, choices: Mapping[str, str]) -> str | None:
    """The letter meant by ``"B"``, ``"(b)"``, ``"B. bank"``, ``"option B"``, or by an option's exact text.

    A letter with text that is not its option's may mean another: it is none.

    >>> match_choice("(b)", {"A": "shop", "B": "bank"}), match_choice("The bank", {"A": "shop", "B": "the bank"})
    ('B', 'B')
    """
    text = value.strip()
    letters = {letter.upper(): letter for letter in choices}
    bare = text.strip(_CHOICE_WRAPPING + "()[]").upper()
    if bare in letters:
        return letters[bare]
    spellings = (base.fold(text), base.fold(text.strip(_CHOICE_WRAPPING)))
    for letter, option in choices.items():
        if base.fold(option) in spellings or base.fold(option.strip(_CHOICE_WRAPPING)) == spellings[1]:
            return letter
    word = _OPTION_WORD.match(text)
    match = _LETTER_FIRST.match(text, word.end() if word else 0)
    chosen = letters.get(match[1].upper()) if match else None
    if match is None or chosen is None:
        return None
    rest, option = base.squad_normalise(text[match.end() :]), base.squad_normalise(choices[chosen])
    return chosen if not rest or f"{rest} ".startswith(f"{option} ") else None
