"""Assertions: what an answer must be, in YAML or in a column of a table, without code.

    evaluator: assert
    evaluator_options:
      assert:
        - contains: refund
        - not: {regex: "(?i)as an ai"}
        - any_of: [{equals: "{{ queue }}"}, {number: 3, within: 0.5}]

In a table each cell holds one (``contains: refund``, or bare text that the answer must equal), as promptfoo's
``__expected`` does, or a JSON list of them. The answer passes where every assertion holds.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, Field, field_validator

from pcsuite._util.json_schema import schema_problem
from pcsuite._util.text import shorten
from pcsuite._util.user_patterns import user_pattern
from pcsuite.config.definitions import Definition
from pcsuite.data.items import Item
from pcsuite.errors import DataError, did_you_mean
from pcsuite.evaluation import base
from pcsuite.evaluation.parsing import read_json
from pcsuite.evaluation.schema_check import schema_error, written_answer
from pcsuite.evaluation.stated_numbers import final_number, number_of
from pcsuite.prompts.verbatim import fill_placeholders

ITEM_KEY = "assert"
"""Key of the truth under which an item has assertions of its own."""
_LONGEST_CANONICAL = 2_000
_SPELLINGS = {
    "==": "equals",
    "=": "equals",
    "is_equal": "equals",
    "contains_json": "is_json",
    "matches": "regex",
    "is_number": "number",
    "and": "all_of",
    "or": "any_of",
    "assert_set": "all_of",
}
_CASELESS = {
    f"i{name}": name
    for name in ("equals", "contains", "contains_any", "contains_all", "starts_with", "ends_with")
}
_NEEDS_A_JUDGE = (
    "llm_rubric",
    "similar",
    "factuality",
    "model_graded",
    "javascript",
    "python",
    "answer_relevance",
)


@dataclass(frozen=True, slots=True)
class Assertion:
    """One thing that an answer must be: a check, what it compares with, and how."""

    check: str
    value: Any
    within: Fraction | None = None
    """Of ``number``: the largest distance that passes."""
    ignore_case: bool = False
    name: str = ""
    """Logged as a metric of this name, where it has one."""

    def __str__(self) -> str:
        value = self.value
        if self.check in ("all_of", "any_of", "not"):
            inner = ", ".join(str(part) for part in (value if isinstance(value, tuple) else (value,)))
            return f"{self.check}({inner})"
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        within = f" within {float(self.within):g}" if self.within is not None else ""
        return f"{self.check}: {shorten(shown, 60)}{within}"


def read_assertion(entry: Any, where: str) -> Assertion:
    """One assertion as written: ``{contains: x}``, promptfoo's ``{type: contains, value: x}``, or its text form.

    Raises :class:`DataError`, which begins with ``where``, for a check that does not exist (with the nearest), one
    that needs a judge, and a value that the check cannot use.

    >>> str(read_assertion("contains-any: red, blue", "row 1")), str(read_assertion({"number": 3, "within": 0.1}, ""))
    ('contains_any: ["red", "blue"]', 'number: 3 within 0.1')
    """
    if isinstance(entry, str):
        return _from_text(entry, where)
    if not isinstance(entry, Mapping) or not entry:
        raise DataError(f"{where}: an assertion is a mapping such as {{contains: text}}, found {entry!r}")
    options = {str(key): value for key, value in entry.items()}
    if "type" in options:
        check, value = str(options.pop("type")), options.pop("value", options.pop("threshold", None))
        options.pop("weight", None)
    else:
        extra = ("within", "within_percent", "ignore_case", "name", "metric")
        checks = [key for key in options if key not in extra]
        if len(checks) != 1:
            listed = ", ".join(checks) or "none"
            raise DataError(
                f"{where}: an assertion has one check, found {listed}",
                hint="several go into a list, or into all_of and any_of",
            )
        check, value = checks[0], options.pop(checks[0])
    name = str(options.pop("name", options.pop("metric", "")) or "")
    return _made(check, value, options, name, where)


def _from_text(text: str, where: str) -> Assertion:
    """``contains: refund``, ``not-regex: ^no``, ``number: 3 within 1``, ``is-json``, or what the answer must equal."""
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            return read_assertion(json.loads(stripped), where)
        except ValueError:
            pass  # an answer that must equal something in braces
    head, colon, rest = stripped.partition(":")
    check = _spelled(head)
    plain = check.removeprefix("not_").partition("(")[0]
    plain = _CASELESS.get(plain, plain)
    if not colon and plain == "is_json":
        return _made(check, True, {}, "", where)
    if not colon or (plain not in CHECKS and plain not in _NEEDS_A_JUDGE):
        return Assertion("equals", stripped)
    value: Any = rest.strip()
    options: dict[str, Any] = {}
    if plain in ("contains_any", "contains_all"):
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif plain == "json_schema":
        try:
            value = json.loads(value)
        except ValueError as error:
            raise DataError(f"{where}: json_schema holds no JSON ({error})") from error
    elif plain == "number":
        number, _, within = re.sub(r"\s*(?:±|\+-|\+/-|within)\s*", "\x00", value).partition("\x00")
        value, options = number, ({"within": within} if within else {})
    return _made(check, value, options, "", where)


def _spelled(check: str) -> str:
    name = check.strip().replace("-", "_").casefold()
    denied = name.startswith("not_")
    name = name.removeprefix("not_")
    return ("not_" if denied else "") + _SPELLINGS.get(name, name)


def _made(check: str, value: Any, options: dict[str, Any], name: str, where: str) -> Assertion:
    spelled = _spelled(check)
    if spelled.startswith("not_"):
        return Assertion("not", _made(spelled.removeprefix("not_"), value, options, "", where), name=name)
    if spelled == "not":
        return Assertion("not", read_assertion(value, where), name=name)
    if spelled in ("all_of", "any_of"):
        if not isinstance(value, (list, tuple)) or not value:
            raise DataError(f"{where}: {spelled} needs a list of assertions")
        return Assertion(spelled, tuple(read_assertion(part, where) for part in value), name=name)
    ignore_case = bool(options.pop("ignore_case", False))
    if spelled in _CASELESS:
        spelled, ignore_case = _CASELESS[spelled], True
    within = options.pop("within", None)
    percent = options.pop("within_percent", None)
    if spelled.partition("(")[0] in _NEEDS_A_JUDGE or spelled not in CHECKS:
        hint = did_you_mean(spelled, CHECKS)
        if spelled.partition("(")[0] in _NEEDS_A_JUDGE:
            hint = "write a function (evaluator: my_scorer.py:score), or have a model judge (kind: judged)"
        raise DataError(f"{where}: there is no assertion '{check}'", hint=hint)
    if options:
        raise DataError(f"{where}: {spelled} has no option '{next(iter(options))}'")
    problem = CHECKS[spelled].problem(value)
    if problem:
        raise DataError(f"{where}: {spelled}: {problem}")
    distance = None
    if within is not None or percent is not None:
        if spelled != "number":
            raise DataError(f"{where}: 'within' goes with number, not with {spelled}")
        distance = _distance(within, percent, value, where)
    return Assertion(spelled, value, distance, ignore_case, name)


def _distance(within: Any, percent: Any, value: Any, where: str) -> Fraction:
    tolerance = within if within is not None else percent
    text = number_of(tolerance)
    if text is None or Fraction(text) < 0:
        raise DataError(f"{where}: the tolerance {tolerance!r} is no number of 0 or more")
    if within is not None:
        return Fraction(text)
    expected = number_of(value)
    if expected is None:
        raise DataError(f"{where}: within_percent needs a number to take the share of")
    return abs(Fraction(expected)) * Fraction(text) / 100


class Check(NamedTuple):
    """A kind of assertion: whether a text passes, and what is wrong with a value it is given."""

    passes: Callable[[str, Any, Assertion], bool]
    problem: Callable[[Any], str | None]


def _is_text(value: Any) -> str | None:
    return None if isinstance(value, (str, int, float)) else "needs a text"


def _is_list(value: Any) -> str | None:
    good = isinstance(value, (list, tuple)) and value and all(_is_text(part) is None for part in value)
    return None if good else "needs a list of texts"


def _is_pattern(value: Any) -> str | None:
    try:
        re.compile(str(value))
    except re.error as error:
        return f"{value!r} is no regular expression ({error})"
    return None if isinstance(value, str) else "needs a regular expression"


def _is_number(value: Any) -> str | None:
    if isinstance(value, str) and "{{" in value:
        return None
    return None if number_of(value) is not None else f"{value!r} is no number"


def _is_schema(value: Any) -> str | None:
    return schema_problem(value) if isinstance(value, Mapping) else "needs a JSON schema"


def _folded(text: Any, assertion: Assertion) -> str:
    plain = str(text).strip()
    return plain.casefold() if assertion.ignore_case else plain


def _compared(test: Callable[[str, str], bool]) -> Callable[[str, Any, Assertion], bool]:
    """The test on a text and a value whose case is folded as the assertion says."""
    return lambda text, value, assertion: test(_folded(text, assertion), _folded(value, assertion))


def _contains_of(how_many: Callable[[Iterable[bool]], bool]) -> Callable[[str, Any, Assertion], bool]:
    """Whether a text contains any or all of the values."""
    contains = _compared(operator.contains)
    return lambda text, values, assertion: how_many(contains(text, value, assertion) for value in values)


def _equals(text: str, value: Any, assertion: Assertion) -> bool:
    if isinstance(value, (dict, list)):
        reading = read_json(text)
        return reading.mode != "none" and reading.value == value
    return _folded(text, assertion) == _folded(value, assertion)


def _number_close(text: str, value: Any, assertion: Assertion) -> bool:
    stated, expected = final_number(text)[0], number_of(value)
    if stated is None or expected is None:
        return False
    return abs(Fraction(stated) - Fraction(expected)) <= (assertion.within or 0)


def _fits_schema(text: str, value: Any, assertion: Assertion) -> bool:
    reading = read_json(text)
    return reading.mode != "none" and schema_error(reading.value, value) is None


CHECKS: Mapping[str, Check] = {
    "equals": Check(_equals, lambda value: None if value is not None else "needs a value"),
    "contains": Check(_compared(operator.contains), _is_text),
    "contains_any": Check(_contains_of(any), _is_list),
    "contains_all": Check(_contains_of(all), _is_list),
    "starts_with": Check(_compared(str.startswith), _is_text),
    "ends_with": Check(_compared(str.endswith), _is_text),
    "regex": Check(
        lambda text, value, assertion: user_pattern(value, int(re.IGNORECASE) * assertion.ignore_case).search(
            text
        ),
        _is_pattern,
    ),
    "is_json": Check(lambda text, value, assertion: read_json(text).mode != "none", lambda value: None),
    "json_schema": Check(_fits_schema, _is_schema),
    "number": Check(_number_close, _is_number),
}
"""What can be asserted, beside ``all_of``, ``any_of`` and ``not``."""


def holds(assertion: Assertion, text: str, fill: Callable[[str], str] = str) -> bool:
    """Whether an answer's text is as asserted; ``fill`` puts an item's columns into ``{{ column }}`` of values."""
    value = assertion.value
    if assertion.check == "not":
        return not holds(value, text, fill)
    if assertion.check == "all_of":
        return all(holds(part, text, fill) for part in value)
    if assertion.check == "any_of":
        return any(holds(part, text, fill) for part in value)
    if isinstance(value, str):
        value = fill(value)
    elif isinstance(value, (list, tuple)):
        value = [fill(part) if isinstance(part, str) else part for part in value]
    return CHECKS[assertion.check].passes(text, value, assertion)


class AssertionOptions(Definition):
    """Options of the ``assert`` evaluator."""

    assertions: tuple[Any, ...] = Field(default=(), alias="assert")
    """What every answer must be; an item may have more of its own (``truth``: ``assert``)."""
    score: Literal["all", "share"] = "all"
    """``all``: 1 where every assertion holds, else 0; ``share``: the share of those that hold."""

    @field_validator("assertions", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return value if isinstance(value, (list, tuple)) else (value,)


class AssertionEvaluator(base.Evaluator):
    """Scores an answer by assertions, those of the task and those of the item together."""

    Options: ClassVar[type[BaseModel]] = AssertionOptions
    options: AssertionOptions

    def __init__(self, options: BaseModel | None = None, schema: Mapping[str, Any] | None = None) -> None:
        super().__init__(options, schema)
        self._shared = [
            read_assertion(entry, f"assertion {number}")
            for number, entry in enumerate(self.options.assertions, start=1)
        ]

    def assertions_of(self, item: Item) -> list[Assertion]:
        """The task's assertions and the item's; ``DataError`` where there is none, or one that cannot be read."""
        value = item.truth.get(ITEM_KEY) or ()
        of_item = value if isinstance(value, (list, tuple)) else (value,)
        assertions = [*self._shared, *(read_assertion(entry, f"item '{item.item_id}'") for entry in of_item)]
        if not assertions:
            raise DataError(
                f"item '{item.item_id}': nothing is asserted of its answer",
                hint="evaluator_options: {assert: […]}, or a column of assertions",
            )
        return assertions

    def check_items(self, items: Sequence[Item]) -> None:
        """Read the assertions of every item, so that a wrong one raises before the first call."""
        for item in items:
            self.assertions_of(item)

    def evaluate(self, item: Item, answer: base.Answer) -> base.Evaluation:
        """Score one answer; what did not hold stands among the parse errors, as a reader wrote it."""
        text = base.clean_text(answer.text)
        fill = _filler(item)
        outcomes = [(assertion, holds(assertion, text, fill)) for assertion in self.assertions_of(item)]
        share = sum(passed for _, passed in outcomes) / len(outcomes)
        score = share if self.options.score == "share" else float(share == 1)
        parsed = base.Parsed(answer=base.fold(text)[:_LONGEST_CANONICAL] or None)
        for assertion, passed in outcomes:
            if not passed:
                parsed.note_failed(assertion)
        named: dict[str, base.MetricValue] = {entry.name: passed for entry, passed in outcomes if entry.name}
        extra = {"assertions_held": share, **named}
        return base.conclude(parsed, answer, score=score, exact_match=score == 1, extra=extra)

    def gold_answer(self, item: Item) -> str:
        """A text that meets every assertion, made of their values; ``DataError`` where that does not succeed.

        A truth's ``answer`` is taken first: patterns cannot be turned into a text that matches them.
        """
        assertions, fill = self.assertions_of(item), _filler(item)
        stated = item.truth.get("answer")
        candidates = [str(stated)] if stated is not None else []
        parts = [text for assertion in assertions for text in _texts(assertion, fill)]
        candidates += [*parts, " ".join(parts)]
        for candidate in candidates:
            if all(holds(assertion, candidate, fill) for assertion in assertions):
                return candidate
        raise DataError(
            f"item '{item.item_id}': no right answer can be made up from {'; '.join(map(str, assertions))}",
            hint="give its truth an 'answer', which exemplars and simulated models show",
        )

    def wrong_answer(self, item: Item, rng: Random) -> str:
        """A text that one assertion at least does not hold for; ``DataError`` where every one tried passes."""
        assertions, fill = self.assertions_of(item), _filler(item)
        candidates = rng.sample(_WRONG, len(_WRONG))
        for candidate in candidates:
            if not all(holds(assertion, candidate, fill) for assertion in assertions):
                return candidate
        raise DataError(f"item '{item.item_id}': its assertions hold for {', '.join(candidates)}")


_WRONG = ("none of these", "something else entirely", "-1", "{}", "")


def _filler(item: Item) -> Callable[[str], str]:
    columns = {name: str(value) for name, value in {**item.truth, **item.columns}.items()}
    return lambda text: fill_placeholders(text, item.input_text, columns)


def _texts(assertion: Assertion, fill: Callable[[str], str]) -> Sequence[str]:
    """Texts that meet an assertion, as far as its value says one."""
    value = assertion.value
    if assertion.check in ("all_of", "any_of"):
        return [text for part in value for text in _texts(part, fill)]
    if assertion.check in ("not", "regex"):
        return []
    if assertion.check == "is_json":
        return ["{}"]
    if assertion.check == "json_schema":
        return [written_answer({}, value)]
    if isinstance(value, (list, tuple)) and assertion.check != "equals":
        return [" ".join(fill(str(part)) for part in value)]
    return [fill(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
