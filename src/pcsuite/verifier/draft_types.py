"""What type a field has, concluded from its values or its schema, for drafts of mappings."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pcsuite._util.text import counted
from pcsuite.errors import PcsuiteError
from pcsuite.verifier.amounts import MoneyReader, PercentReader, QuantityReader
from pcsuite.verifier.dates import DateReader
from pcsuite.verifier.value_reader import TypeOptions, ValueReader
from pcsuite.verifier.values import is_blank, parse_number

_IDENTIFIER = re.compile(
    r"(^|_)(id|ids|no|nr|number|code|sku|ref|reference|iban|bic|vat|ean|isbn|serial|loinc|mrn)$"
)
_AMOUNT = re.compile(
    r"(^|_)(total|subtotal|price|amount|cost|sum|net|gross|fee|balance|due|salary|vat_amount|tax_amount)($|_)"
)
_SHARE = re.compile(r"(^|_)(percent|percentage|pct|rate|share)$")
_PHONE = re.compile(r"(^|_)(phone|tel|telephone|mobile|fax|cell)(_number)?$")
_UNIT_TEXT = re.compile(r"[-+]?\d[\d.,]*\s*[A-Za-zµμ%°/][\w/^*²³µμ°%. -]*")
_LONG = 60
_FEW, _MANY = 6, 8


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A type with its options, why it was concluded, and what a person must still decide."""

    type: str
    why: str
    options: dict[str, Any] = field(default_factory=dict)
    question: str = ""
    tolerance: str | None = None


def conclude_type(
    pattern: str, values: Sequence[Any], truth_values: Sequence[str], schema: Mapping[str, Any] | None = None
) -> Conclusion:
    """The type of a field, from the schema where it has one, else from values of sample and truth.

    The values of a truth table are texts; those of the sample are of JSON. A field that is empty everywhere is text,
    and asked about.
    """
    key = pattern.rpartition(".")[2].casefold().replace("-", "_")
    present = [value for value in values if not is_blank(value) and value != [] and value != {}]
    if schema is not None:
        concluded = _of_schema(key, schema)
        if concluded is not None:
            return concluded
    if not present and not truth_values and any(isinstance(value, list) for value in values):
        return _of_list([value for value in values if isinstance(value, list)])
    if not present and not truth_values:
        return Conclusion(
            "text", "no value anywhere", question="no value to conclude a type from; text for now"
        )
    kinds = {_kind(value) for value in present}
    if kinds - {"integer", "number"} == {"text"} and len(kinds) > 1:
        amounts = [*present, *truth_values]
        numbers = [value for value in present if not isinstance(value, str)]
        texts = [value for value in amounts if isinstance(value, str)]
        if all(map(_is_number, texts)) and not _AMOUNT.search(key):
            concluded = _of_numbers(key, [*numbers, *_parsed(texts)], ())
            question = f"some of its numbers are texts, which {concluded.type} calls mistyped"
            return replace(concluded, question=question if concluded.type in ("integer", "number") else "")
        if _all(amounts, MoneyReader(TypeOptions())):
            return _money(amounts, "amounts of money")
        if _all(amounts, PercentReader(TypeOptions())) and any("%" in str(one) for one in amounts):
            return Conclusion("percent", "numbers, some with a percent sign")
    if len(kinds) > 1 and kinds != {"integer", "number"}:
        shown = " and ".join(sorted(kinds))
        return Conclusion(
            "text", f"{shown} in turn", question=f"the sample has {shown} in turn; text for now"
        )
    kind = next(iter(kinds - {"integer"}), next(iter(kinds), "text"))
    if kind == "list":
        return _of_list(present)
    if kind == "object":
        return Conclusion("text", "an empty object", question="an object without keys; text for now")
    if kind == "boolean":
        return Conclusion("boolean", "true or false")
    if kind in ("integer", "number"):
        return _of_numbers(key, present, truth_values)
    texts = [str(value).strip() for value in (*present, *truth_values)]
    return _of_texts(key, texts, is_sampled=bool(present))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "list" if isinstance(value, list) else "object" if isinstance(value, dict) else "text"


def _of_schema(key: str, schema: Mapping[str, Any]) -> Conclusion | None:
    kind, form = schema.get("type"), schema.get("format")
    if "enum" in schema or "const" in schema:
        choices = [one for one in schema.get("enum", [schema.get("const")]) if one is not None]
        if choices and all(isinstance(one, str) for one in choices):
            return Conclusion("enum", "an enum of the schema", {"values": choices})
    if kind == "array":
        items = schema.get("items", {})
        of_numbers = items.get("type") in ("number", "integer")
        unique = "set" if schema.get("uniqueItems") else "list"
        return Conclusion(f"{'number' if of_numbers else 'text'}_{unique}", "a list of the schema")
    if kind == "string" and form in ("date", "date-time"):
        return Conclusion("date", f"format {form} of the schema")
    if kind == "string" and (_IDENTIFIER.search(key) or form == "uuid"):
        return Conclusion("identifier", "text of the schema, called like an identifier")
    if kind in ("number", "string") and _AMOUNT.search(key) and (kind == "number" or "pattern" in schema):
        return Conclusion("money", "a number called like an amount of money: to the cent")
    plain = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    if kind in plain:
        return Conclusion(plain[str(kind)], f"{kind} of the schema")
    return None


def _of_list(lists: Sequence[Any]) -> Conclusion:
    elements = [one for entries in lists for one in entries if not is_blank(one)]
    kinds = {_kind(one) for one in elements}
    if not elements:
        return Conclusion(
            "text_list", "only empty lists", question="only empty lists; a list of texts for now"
        )
    if kinds <= {"integer", "number"}:
        return Conclusion("number_list", "lists of numbers: compared in order (number_set: in any)")
    if kinds == {"text"}:
        return Conclusion("text_list", "lists of texts, in any order")
    return Conclusion(
        "text_list", "lists of several kinds", question="its lists hold several kinds; texts for now"
    )


def _of_numbers(key: str, values: Sequence[float], truth_values: Sequence[str]) -> Conclusion:
    numbers: list[float] = list(values)
    for text in truth_values:
        try:
            numbers.append(parse_number(text))
        except ValueError:
            if MoneyReader(TypeOptions()).comparable(text) is not None and not text[:1].isdigit():
                return _money(truth_values, "numbers in the sample, amounts with a currency in the truth")
            if PercentReader(TypeOptions()).comparable(text) is not None:
                return Conclusion("percent", "numbers in the sample, percentages in the truth")
            return Conclusion(
                "number", "numbers in the sample", question=f"the truth has '{text[:30]}', no number"
            )
    if _SHARE.search(key):
        is_fraction = all(0 <= number <= 1 for number in numbers)
        options = {"fraction": True} if is_fraction else {}
        why = "called like a share, and never above 1" if is_fraction else "called like a share, and above 1"
        question = "0.19 is read as 19 %; without fraction it would be 0.19 %" if is_fraction else ""
        return Conclusion("percent", why, options, question)
    if _AMOUNT.search(key):
        return Conclusion("money", "a number called like an amount of money: to the cent")
    if _IDENTIFIER.search(key) and all(float(one).is_integer() for one in numbers):
        return Conclusion("identifier", "whole numbers called like an identifier")
    if all(isinstance(one, int) or float(one).is_integer() for one in numbers) and all(
        isinstance(one, int) for one in values
    ):
        return Conclusion("integer", f"whole in {counted(len(numbers), 'value')}")
    decimals = max(_decimals(number) for number in numbers)
    tolerance = None if decimals == 2 else f"decimals_{min(max(decimals, 1), 9)}"
    return Conclusion("number", f"numbers with up to {decimals} decimals", tolerance=tolerance)


def _decimals(number: float) -> int:
    text = repr(float(number))
    return 9 if "e" in text else len(text.partition(".")[2].rstrip("0"))


def _all(texts: Sequence[Any], reader: ValueReader) -> bool:
    return all(reader.comparable(text) is not None for text in texts)


def _of_texts(key: str, texts: Sequence[str], *, is_sampled: bool) -> Conclusion:
    """The type of texts: the most particular one that reads all of them."""
    if dated := _dates(texts):
        return dated
    if all(text.endswith(("%", "‰")) for text in texts) and _all(texts, PercentReader(TypeOptions())):
        return Conclusion("percent", "texts that end in %")
    if _IDENTIFIER.search(key) and all(
        re.search(r"[A-Za-z]", text) and re.search(r"\d", text) for text in texts
    ):
        return Conclusion("identifier", "codes: case and punctuation do not matter")
    if (
        _AMOUNT.search(key)
        and any(not _is_number(text) for text in texts)
        and _all(texts, MoneyReader(TypeOptions()))
    ):
        return _money(texts, "amounts of money")
    if all(re.search(r"\d", text) and re.search(r"[^\d\s.,'()+-]", text) for text in texts):
        if _all(texts, MoneyReader(TypeOptions())):
            return _money(texts, "amounts with a currency")
        if all(_UNIT_TEXT.fullmatch(text) for text in texts) and (quantity := _quantities(texts)):
            return quantity
    if _PHONE.search(key) or all(re.fullmatch(r"\+\d[\d ()/.-]{6,}", text) for text in texts):
        if importlib.util.find_spec("phonenumbers") is None:
            return Conclusion(
                "identifier", "phone numbers, by their digits (the extra verify knows country codes)"
            )
        question = (
            ""
            if all(text.startswith("+") for text in texts)
            else "some numbers have no country code: say region"
        )
        return Conclusion("phone", "called or written like phone numbers", question=question)
    if all(_is_number(text) for text in texts):
        if _IDENTIFIER.search(key) or any(re.fullmatch(r"0\d+", text) for text in texts):
            return Conclusion("identifier", "digits that are no quantity: called so, or with leading zeros")
        if not is_sampled:
            return _of_numbers(key, _parsed(texts), ())
        return Conclusion(
            "text",
            "numbers as text",
            question="the sample has numbers as text; number would call them mistyped",
        )
    if _IDENTIFIER.search(key) or all(re.fullmatch(r"(?=.*\d)[\w./-]{3,40}", text) for text in texts):
        return Conclusion("identifier", "codes: case and punctuation do not matter")
    if all(text.casefold() in ("yes", "no", "true", "false") for text in texts) and not is_sampled:
        return Conclusion("boolean", "Yes or No")
    counts = Counter(texts)
    if len(texts) >= _MANY and 2 <= len(counts) <= _FEW and max(map(len, counts)) <= 30:
        shown = ", ".join(sorted(counts))
        question = f"are {shown} all its values, and how else are they written? (values: {{A: [synonym]}})"
        return Conclusion(
            "enum", f"{len(counts)} values in {len(texts)}", {"values": sorted(counts)}, question
        )
    if sum(map(len, texts)) / len(texts) > _LONG:
        return Conclusion("fuzzy", "long texts: nearly the same is the same", {"threshold": 0.85})
    return Conclusion("text", f"text in {counted(len(texts), 'value')}")


def _money(values: Sequence[Any], why: str) -> Conclusion:
    """Amounts of money; an amount without a currency is in the only one that the others have."""
    reader = MoneyReader(TypeOptions())
    readable = [value for value in values if reader.comparable(value) is not None]
    codes = {code for _, code in map(reader.read, readable)} - {None}
    if len(codes) == 1:
        return Conclusion("money", why, {"currency": codes.pop()})
    question = (
        f"amounts in {', '.join(sorted(map(str, codes)))}: in which is one that names none?" if codes else ""
    )
    return Conclusion("money", why, question=question)


def _parsed(texts: Sequence[str]) -> list[float]:
    """Numbers that are written as texts; whole ones where all of them are written so."""
    numbers = [parse_number(text) for text in texts]
    whole = all(number.is_integer() and "." not in text for number, text in zip(numbers, texts, strict=True))
    return [int(one) for one in numbers] if whole else numbers


def _is_number(text: str) -> bool:
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def _dates(texts: Sequence[str]) -> Conclusion | None:
    if all(re.fullmatch(r"\d{1,4}", text) for text in texts):
        return None  # years, or any other number
    readers: dict[bool | None, Callable[[str], Any]] = {
        choice: DateReader(TypeOptions(day_first=choice)).comparable for choice in (None, True, False)
    }
    if all(readers[None](text) for text in texts):
        return Conclusion("date", "all of them are dates")
    fits = [choice for choice in (True, False) if all(readers[choice](text) for text in texts)]
    if len(fits) == 1:
        which = "day" if fits[0] else "month"
        return Conclusion("date", f"dates that only fit with the {which} first", {"day_first": fits[0]})
    if fits:
        question = "03/04/2026 has its day or its month first: day_first says which"
        return Conclusion("date", "dates that can be read in two ways", {"day_first": True}, question)
    return None


def _quantities(texts: Sequence[str]) -> Conclusion | None:
    """Quantities in the unit that most of them have, where pint is there and knows all units."""
    units = Counter(re.sub(r"^[-+]?\d[\d.,]*\s*", "", text) for text in texts)
    unit = units.most_common(1)[0][0]
    if not re.search("[A-Za-zµμ°]", unit) or importlib.util.find_spec("pint") is None:
        return None
    try:
        reader = QuantityReader(TypeOptions(unit=unit))
    except PcsuiteError:
        return None
    readings = [reader.comparable(text) for text in texts]
    if not all(isinstance(one, float) and one == one for one in readings):
        return None
    others = f" ({', '.join(sorted(set(units) - {unit}))} converted)" if len(units) > 1 else ""
    return Conclusion("quantity", f"numbers with a unit{others}", {"unit": unit})
