"""A JSON schema as the cases in which a value conforms to it, and those in which it does not.

Everything that combines schemas (``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if``, ``$ref``, dependencies, unevaluated
properties and items) is worked out here, so that what is written for an engine has plain types and alternatives
only. Which keywords count is for the draft's own validator to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from itertools import combinations, pairwise
from typing import Any

from pcsuite._util.json_schema import exact_class, validator_class, with_patterns
from pcsuite._util.patterns import Pattern, read_pattern
from pcsuite._util.user_patterns import user_pattern
from pcsuite.engines.schema_shapes import (
    ANYTHING,
    NOTHING,
    TYPES,
    UNLIMITED,
    Arrays,
    Case,
    Contains,
    Demand,
    Evaluated,
    Fields,
    Numbers,
    Objects,
    Plain,
    Record,
    Strings,
    Unsayable,
    both,
    exact_number,
    except_for,
    only,
)
from pcsuite.engines.word_patterns import FORMATS, LONGEST
from pcsuite.errors import ConstraintUnavailableError, OutOfMemoryError, OutOfTimeError

MOST_CASES = 256
_OLD_DRAFTS = ("Draft3Validator", "Draft4Validator", "Draft6Validator", "Draft7Validator")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRINGS = ("minLength", "maxLength", "pattern", "format")
_ARRAYS = ("prefixItems", "items", "minItems", "maxItems", "uniqueItems", "contains")
_OBJECTS = ("properties", "patternProperties", "additionalProperties", "required", "minProperties",
            "maxProperties", "propertyNames")  # fmt: skip
_SIMPLE = frozenset(("type", *_NUMBERS, *_STRINGS, *_ARRAYS, *_OBJECTS))
_REFERENCES = ("$ref", "$dynamicRef")


class Cases:
    """The cases of one schema and of the schemas in it, worked out as they are asked for."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        from referencing import Registry
        from referencing.jsonschema import specification_with

        self.patterns: dict[str, Pattern] = {}
        """What each pattern of the schema is, by how Python reads it."""
        root = with_patterns(schema, self._read_pattern)
        draft: Any = validator_class(root)
        self._vocabulary = frozenset(draft.VALIDATORS)
        self._old = draft.__name__ in _OLD_DRAFTS
        self._draft4 = draft.__name__ == "Draft4Validator"
        dialect = str(draft.META_SCHEMA.get("$id") or draft.META_SCHEMA.get("id", ""))
        self._specification: Any = specification_with(dialect)
        resource = self._specification.create_resource(root)
        registry: Any = Registry()
        resolver = registry.with_resource(resource.id() or "", resource).resolver_with_root(resource)
        self._validator = exact_class(draft)(
            root,
            registry=registry.with_resource(resource.id() or "", resource),
            format_checker=_format_checker(),
        )
        self._schemas: list[Any] = []
        self._resolvers: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._memo: dict[tuple[int, bool], list[Case]] = {}
        self._open: set[tuple[int, bool]] = set()
        text = repr(schema)
        self._resources = len(re.findall(r"'\$?id': '", text))
        # Only where something asks what was looked at do overlapping alternatives have to be told apart.
        self._tracked = "'unevaluated" in text
        self.root = self._demand(root, resolver)

    def of(self, demand: Demand) -> list[Case]:
        """The cases of all that a demand asks for; values that are listed are those that conform.

        Raises :class:`~pcsuite.errors.ConstraintUnavailableError` for a reference that cannot be followed and for more
        cases than can be written.
        """
        if demand == NOTHING:
            return []
        cases = [Case()]
        for number, sign in demand:
            cases = self._product(cases, self._cases(number, sign))
        listed = [value for case in cases if case.values is not None for value in case.values]
        plain = [case for case in cases if case.values is None]
        if not listed:
            return plain
        kept = [value for value in _distinct(listed) if self.conforms(value, demand)]
        return [*plain, Case({}, tuple(kept))] if kept else plain

    def conforms(self, value: Any, demand: Demand) -> bool:
        """Whether a value is what a demand asks for, by the validator of the schema's draft."""
        for number, sign in demand:
            if number < 0:
                return False
            errors = self._validator.descend(value, self._schemas[number], resolver=self._resolvers[number])
            with _in_time():
                conforms = next(iter(errors), None) is None
            if conforms is not sign:
                return False
        return True

    def is_void(self, demand: Demand, depth: int = 4) -> bool:
        """Whether nothing can conform to a demand, as far as this can be seen in ``depth`` steps down."""
        if demand == NOTHING:
            return True
        if depth == 0 or not demand:
            return False
        try:
            return all(self._is_void_case(case, depth - 1) for case in self.of(demand))
        except ConstraintUnavailableError:
            return False

    def _is_void_case(self, case: Case, depth: int) -> bool:
        if case.values is not None:
            return not case.values
        for record in case.records.values():
            if isinstance(record, Objects):
                if not any(self.is_void(self.field(record, name), depth) for name in record.required):
                    return False
            elif isinstance(record, Arrays):
                if not any(self.is_void(record.at(index), depth) for index in range(min(record.low, 8))):
                    return False
            else:
                return False
        return True

    def field(self, record: Objects, name: str) -> Demand:
        """What an object asks of the value of one key."""
        demands: list[Demand] = []
        for part in record.parts:
            matching = [part.names[name]] if name in part.names else []
            matching += [demand for pattern, demand in part.patterns.items() if matches_key(pattern, name)]
            demands += matching or [part.rest]
        if record.keys and not self.conforms(name, record.keys):
            return NOTHING
        return both(*demands) if demands else ANYTHING

    def _read_pattern(self, text: str) -> str:
        pattern = read_pattern(text, "ecma")
        self.patterns[pattern.python] = pattern
        return pattern.python

    def _number(self, schema: Any, resolver: Any) -> int:
        if id(schema) not in self._numbers:
            self._numbers[id(schema)] = len(self._schemas)
            self._schemas.append(schema)
            self._resolvers.append(resolver)
        return self._numbers[id(schema)]

    def _demand(self, schema: Any, resolver: Any, sign: bool = True) -> Demand:
        """What a schema asks for; ``resolver`` is that of its parent."""
        if isinstance(schema, bool):
            return ANYTHING if schema is sign else NOTHING
        if not isinstance(schema, Mapping) or not schema:
            return ANYTHING if sign else NOTHING
        resource = self._specification.create_resource(schema)
        return ((self._number(schema, resolver.in_subresource(resource)), sign),)

    def _cases(self, number: int, sign: bool) -> list[Case]:
        key = (number, sign)
        if key not in self._memo:
            if key in self._open:
                raise _refused("$ref", "it only leads back to itself, and no finite answer conforms to it")
            self._open.add(key)
            try:
                keywords = self._keywords(self._schemas[number])
                work = _Positive if sign else _Negative
                self._memo[key] = work(self, keywords, self._resolvers[number]).cases()
            finally:
                self._open.discard(key)
        return self._memo[key]

    def _keywords(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A schema's keywords that its draft knows, in the words of draft 2020-12."""
        if self._old and isinstance(schema.get("$ref"), str):
            return {"$ref": schema["$ref"]}
        beside = {"then", "else"} if "if" in self._vocabulary else set()
        if "contains" in self._vocabulary and not self._old:
            beside |= {"minContains", "maxContains"}
        known = {word: part for word, part in schema.items() if word in self._vocabulary or word in beside}
        if "dependencies" in schema and "dependencies" not in known:
            raise _refused(
                "dependencies", "its draft has it not; say dependentRequired, or name draft 7 in $schema"
            )
        if "$recursiveRef" in known:
            raise _refused("$recursiveRef", "it is followed by no engine; say $ref")
        if "additionalItems" in self._vocabulary:
            further = known.pop("additionalItems", None)
            if isinstance(known.get("items"), list):
                known["prefixItems"] = known.pop("items")
                if further is not None:
                    known["items"] = further
        if self._draft4:
            for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
                if schema.get(word) is True and bound in known:
                    known[word] = known.pop(bound)
        for name, entry in known.pop("dependencies", {}).items():
            kind = "dependentRequired" if isinstance(entry, list) else "dependentSchemas"
            known.setdefault(kind, {})[name] = entry
        return known

    def _product(self, first: Sequence[Case], second: Sequence[Case]) -> list[Case]:
        pairs = (one.intersect(other) for one in first for other in second)
        product = [case for case in pairs if case is not None]
        if len(product) > MOST_CASES:
            raise ConstraintUnavailableError(
                f"the schema cannot be enforced: its alternatives come to more than {MOST_CASES} together",
                hint="combine fewer anyOf, oneOf, if and not",
            )
        return product


class _Reading:
    """One schema's keywords, with what both its conforming and its other cases need."""

    def __init__(self, whole: Cases, keywords: dict[str, Any], resolver: Any) -> None:
        self.whole, self.keywords, self.resolver = whole, keywords, resolver

    def demand(self, schema: Any, sign: bool = True) -> Demand:
        return self.whole._demand(schema, self.resolver, sign)

    def of(self, schema: Any, sign: bool = True) -> list[Case]:
        return self.whole.of(self.demand(schema, sign))

    def product(self, *factors: Iterable[Case]) -> list[Case]:
        cases = [Case()]
        for factor in factors:
            cases = self.whole._product(cases, list(factor))
        return cases

    def target(self, keyword: str, sign: bool) -> list[Case]:
        """The cases of what a reference names."""
        from referencing.exceptions import Unresolvable

        reference = self.keywords[keyword]
        if keyword == "$dynamicRef" and self.whole._resources > 1:
            raise _refused(keyword, "what it means depends on the way to it; say $ref")
        try:
            resolved = self.resolver.lookup(reference)
        except Unresolvable as error:
            raise _refused(keyword, f"{reference} is not in the schema") from error
        schema = resolved.contents
        if isinstance(schema, bool):
            return [Case()] if schema is sign else []
        return self.whole.of(((self.whole._number(schema, resolved.resolver), sign),))

    def types(self) -> set[str]:
        kinds = self.keywords.get("type", [*TYPES])
        return {kinds} if isinstance(kinds, str) else set(kinds)

    def evaluated(self) -> Evaluated:
        words = self.keywords
        return Evaluated(
            frozenset(words.get("properties", {})),
            frozenset(words.get("patternProperties", {})),
            "additionalProperties" in words,
            len(words.get("prefixItems", ())),
            "items" in words,
            "contains" in words,
        )

    def numbers(self) -> Numbers:
        words = self.keywords
        record = Numbers()
        for word, exclusive in (("minimum", False), ("exclusiveMinimum", True)):
            if word in words and not isinstance(words[word], bool):
                record = record.intersect(Numbers(low=(exact_number(words[word]), exclusive)))
        for word, exclusive in (("maximum", False), ("exclusiveMaximum", True)):
            if word in words and not isinstance(words[word], bool):
                record = record.intersect(Numbers(high=(exact_number(words[word]), exclusive)))
        return replace(record, step=abs(exact_number(words["multipleOf"])) if "multipleOf" in words else None)

    def strings(self) -> Strings:
        words = self.keywords
        return Strings(
            int(words.get("minLength", 0)),
            _whole(words.get("maxLength")),
            (words["pattern"],) if "pattern" in words else (),
            (words["format"],) if "format" in words else (),
        )

    def arrays(self) -> Arrays:
        words = self.keywords
        contains: tuple[Contains, ...] = ()
        if "contains" in words:
            least, most = int(words.get("minContains", 1)), _whole(words.get("maxContains"))
            if least or most is not None:
                contains = (Contains(self.demand(words["contains"]), least, most),)
        return Arrays(
            tuple(self.demand(entry) for entry in words.get("prefixItems", ())),
            self.demand(words.get("items", True)),
            int(words.get("minItems", 0)),
            _whole(words.get("maxItems")),
            contains,
            words.get("uniqueItems") is True,
        )

    def objects(self) -> Objects:
        words = self.keywords
        parts: tuple[Fields, ...] = ()
        if any(word in words for word in ("properties", "patternProperties", "additionalProperties")):
            names = {name: self.demand(entry) for name, entry in words.get("properties", {}).items()}
            patterns = words.get("patternProperties", {})
            parts = (
                Fields(
                    names,
                    {pattern: self.demand(entry) for pattern, entry in patterns.items()},
                    self.demand(words.get("additionalProperties", True)),
                ),
            )
        return Objects(
            parts,
            tuple(dict.fromkeys(words.get("required", ()))),
            int(words.get("minProperties", 0)),
            _whole(words.get("maxProperties")),
            self.demand(words.get("propertyNames", True)),
        )


class _Positive(_Reading):
    """The cases in which a value conforms."""

    def cases(self) -> list[Case]:
        """All of them. A schema that lists its values has those, whatever else it says: each is judged by all of it."""
        words = self.keywords
        combining: dict[str, Callable[[], list[Case]]] = {
            "$ref": lambda: self.target("$ref", True),
            "$dynamicRef": lambda: self.target("$dynamicRef", True),
            "allOf": lambda: self.product(*(self.of(entry) for entry in words["allOf"])),
            "anyOf": self._any_of,
            "oneOf": self._one_of,
            "not": lambda: [case.unseen() for case in self.of(words["not"], False)],
            "if": self._if,
            "dependentRequired": self._dependent_required,
            "dependentSchemas": self._dependent_schemas,
        }
        cases, simple_done = [Case()], False
        # In the order of the schema: it is the order in which the properties of an answer come.
        for word in words:
            if word in _SIMPLE and not simple_done:
                cases, simple_done = self.product(cases, [self._simple()]), True
            elif word in combining:
                cases = self.product(cases, combining[word]())
        if "const" in words or "enum" in words:
            # The rest was gone through all the same: a reference that leads back to itself cannot be judged by anybody.
            listed = tuple([words["const"]] if "const" in words else words["enum"])
            return [Case({}, listed, case.evaluated) for case in cases[:1]] if listed else []
        for word, close in (
            ("unevaluatedProperties", self._close_keys),
            ("unevaluatedItems", self._close_items),
        ):
            if word in words:
                closed = [(case, close(case)) for case in cases]
                cases = [case for one, other in closed for case in self.product([one], [other])]
        return cases

    def _simple(self) -> Case:
        makers: dict[str, Callable[[], Record]] = {
            "number": self.numbers,
            "string": self.strings,
            "array": self.arrays,
            "object": self.objects,
        }
        kinds = self.types()
        records: dict[str, Record] = {}
        for kind in TYPES:
            whole_only = kind == "number" and "number" not in kinds and "integer" in kinds
            if kind not in kinds and not whole_only:
                continue
            record = makers[kind]() if kind in makers else UNLIMITED[kind]
            if whole_only:
                assert isinstance(record, Numbers)
                record = replace(record, integer=True)
            if not record.is_empty():
                records[kind] = record
        return Case(records, None, self.evaluated())

    def _any_of(self) -> list[Case]:
        entries = self.keywords["anyOf"]
        if not self.whole._tracked or self._are_disjoint(entries):
            return [case for entry in entries for case in self.of(entry)]
        # What was looked at depends on all alternatives that hold, not on one of them.
        cases: list[Case] = []
        indexes = range(len(entries))
        for count in range(1, len(entries) + 1):
            for held in combinations(indexes, count):
                cases += self.product(*(self._tried(entries[index], index in held) for index in indexes))
        return cases

    def _tried(self, entry: Any, holds: bool) -> list[Case]:
        return self.of(entry) if holds else [case.unseen() for case in self.of(entry, False)]

    def _one_of(self) -> list[Case]:
        entries = self.keywords["oneOf"]
        if self._are_disjoint(entries):
            return [case for entry in entries for case in self.of(entry)]
        cases: list[Case] = []
        for index in range(len(entries)):
            others = (self._tried(entry, at == index) for at, entry in enumerate(entries))
            cases += self.product(*others)
        return cases

    def _are_disjoint(self, entries: Sequence[Any]) -> bool:
        demands = [self.demand(entry) for entry in entries]
        return all(self.whole.is_void(both(one, other)) for one, other in combinations(demands, 2))

    def _if(self) -> list[Case]:
        words = self.keywords
        if "then" not in words and "else" not in words and not self.whole._tracked:
            return [Case()]
        then = self.product(self.of(words["if"]), self.of(words.get("then", True)))
        otherwise = [case.unseen() for case in self.of(words["if"], False)]
        return then + self.product(otherwise, self.of(words.get("else", True)))

    def _dependent_required(self) -> list[Case]:
        factors = []
        for name, needed in self.keywords["dependentRequired"].items():
            held = only("object", Objects(required=(name, *needed)))
            factors.append([_without(name), *held])
        return self.product(*factors)

    def _dependent_schemas(self) -> list[Case]:
        factors = []
        for name, entry in self.keywords["dependentSchemas"].items():
            held = only("object", Objects(required=(name,)))
            factors.append([_without(name), *self.product(held, self.of(entry))])
        return self.product(*factors)

    def _close_keys(self, case: Case) -> Case:
        evaluated = case.evaluated
        if evaluated.all_keys:
            return Case()
        rest = self.demand(self.keywords["unevaluatedProperties"])
        part = Fields(
            dict.fromkeys(sorted(evaluated.names), ANYTHING),
            dict.fromkeys(sorted(evaluated.patterns), ANYTHING),
            rest,
        )
        return replace(except_for("object", Objects((part,))), evaluated=Evaluated(all_keys=True))

    def _close_items(self, case: Case) -> Case:
        evaluated = case.evaluated
        if evaluated.all_items:
            return Case()
        rest = self.demand(self.keywords["unevaluatedItems"])
        record: Record = Arrays((ANYTHING,) * evaluated.items, rest)
        if evaluated.some_items and rest != ANYTHING:
            record = Unsayable("unevaluatedItems", "which items 'contains' looked at is not known beforehand")
        return replace(except_for("array", record), evaluated=Evaluated(all_items=True))


class _Negative(_Reading):
    """The cases in which a value does not conform: some keyword is broken."""

    def cases(self) -> list[Case]:
        words = self.keywords
        combining: dict[str, Callable[[], list[Case]]] = {
            "type": self._other_type,
            "enum": lambda: self._other_value(words["enum"]),
            "const": lambda: self._other_value([words["const"]]),
            "$ref": lambda: self.target("$ref", False),
            "$dynamicRef": lambda: self.target("$dynamicRef", False),
            "allOf": lambda: [case for entry in words["allOf"] for case in self.of(entry, False)],
            "anyOf": lambda: self.product(*(self.of(entry, False) for entry in words["anyOf"])),
            "oneOf": self._none_or_several,
            "not": lambda: self.of(words["not"]),
            "if": self._broken_branch,
            "dependentRequired": self._broken_dependency,
            "dependentSchemas": lambda: [
                case
                for name, entry in words["dependentSchemas"].items()
                for case in self.product(only("object", Objects(required=(name,))), self.of(entry, False))
            ],
            "unevaluatedProperties": lambda: self._unsayable("object", "unevaluatedProperties"),
            "unevaluatedItems": lambda: self._unsayable("array", "unevaluatedItems"),
        }
        cases: list[Case] = []
        for word in words:
            if word in combining:
                cases += combining[word]()
            elif word in _NUMBERS:
                cases += self._broken_number(word)
            elif word in _STRINGS:
                cases += self._broken_string(word)
            elif word in _ARRAYS:
                cases += self._broken_array(word)
            elif word in _OBJECTS:
                cases += self._broken_object(word)
        return [case.unseen() for case in cases]

    def _unsayable(self, kind: str, keyword: str) -> list[Case]:
        return only(kind, Unsayable(keyword, "that it does not hold cannot be said to an engine"))

    def _other_type(self) -> list[Case]:
        kinds = self.types()
        records = {kind: record for kind, record in UNLIMITED.items() if kind not in kinds}
        if "integer" in kinds and "number" not in kinds:
            records["number"] = Numbers(fractional=True)
        return [Case(records)] if records else []

    def _other_value(self, listed: Sequence[Any]) -> list[Case]:
        """Everything but some values; numbers are split at each of them."""
        records = dict(UNLIMITED)
        plain = [value for value in listed if value is None or isinstance(value, bool)]
        for kind in ("null", "boolean"):
            record = records[kind]
            assert isinstance(record, Plain)
            left = frozenset(value for value in record.values if not any(value is one for one in plain))
            records[kind] = Plain(left)
        words = frozenset(value for value in listed if isinstance(value, str))
        records["string"] = Strings(without=words)
        for kind, python in (("array", list), ("object", dict)):
            if any(isinstance(value, python) for value in listed):
                records[kind] = Unsayable("not", f"{kind}s but one cannot be asked for")
        numbers = sorted(
            {
                exact_number(value)
                for value in listed
                if isinstance(value, (int, float)) and not isinstance(value, bool)
            }
        )
        bounds = [None, *((number, True) for number in numbers), None]
        del records["number"]
        others = Case({kind: record for kind, record in records.items() if not record.is_empty()})
        gaps = [Numbers(low=low, high=high) for low, high in pairwise(bounds)]
        return [
            *([others] if others.records else []),
            *(case for gap in gaps for case in only("number", gap)),
        ]

    def _none_or_several(self) -> list[Case]:
        entries = self.keywords["oneOf"]
        cases = self.product(*(self.of(entry, False) for entry in entries))
        for one, other in combinations(entries, 2):
            cases += self.whole.of(both(self.demand(one), self.demand(other)))
        return cases

    def _broken_branch(self) -> list[Case]:
        words = self.keywords
        cases: list[Case] = []
        for word, sign in (("then", True), ("else", False)):
            if word in words:
                cases += self.product(self.of(words["if"], sign), self.of(words[word], False))
        return cases

    def _broken_dependency(self) -> list[Case]:
        cases: list[Case] = []
        for name, needed in self.keywords["dependentRequired"].items():
            held = only("object", Objects(required=(name,)))
            for missing in needed:
                cases += self.product(held, only("object", Objects((_absent(missing),))))
        return cases

    def _broken_number(self, word: str) -> list[Case]:
        value = self.keywords[word]
        if isinstance(value, bool):
            return []
        if word == "multipleOf":
            return self._unsayable("number", word)
        bound = (exact_number(value), not word.startswith("exclusive"))
        beyond = Numbers(high=bound) if word in ("minimum", "exclusiveMinimum") else Numbers(low=bound)
        return only("number", beyond)

    def _broken_string(self, word: str) -> list[Case]:
        value = self.keywords[word]
        if word == "minLength":
            return only("string", Strings(high=int(value) - 1)) if value >= 1 else []
        return (
            only("string", Strings(low=int(value) + 1))
            if word == "maxLength"
            else self._unsayable("string", word)
        )

    def _broken_array(self, word: str) -> list[Case]:
        words, value = self.keywords, self.keywords[word]
        if word == "minItems":
            return only("array", Arrays(high=int(value) - 1)) if value >= 1 else []
        if word == "maxItems":
            return only("array", Arrays(low=int(value) + 1))
        if word == "prefixItems":
            return [
                case
                for index, entry in enumerate(value)
                for case in only(
                    "array", Arrays((ANYTHING,) * index + (self.demand(entry, False),), low=index + 1)
                )
            ]
        if word == "items":
            broken = self.demand(value, False)
            if broken == NOTHING:
                return []
            first = len(words.get("prefixItems", ()))
            return (
                only("array", Arrays(low=first + 1)) if broken == ANYTHING else self._unsayable("array", word)
            )
        if word == "contains":
            least, most = int(words.get("minContains", 1)), words.get("maxContains")
            if least == 0 and most is None:
                return []
            none = Arrays(rest=self.demand(value, False))
            return only("array", none) if (least, most) == (1, None) else self._unsayable("array", word)
        return self._unsayable("array", word) if value else []

    def _broken_object(self, word: str) -> list[Case]:
        value = self.keywords[word]
        if word == "properties":
            return [
                case
                for name, entry in value.items()
                for case in only(
                    "object", Objects((Fields({name: self.demand(entry, False)}),), required=(name,))
                )
                if self.demand(entry, False) != NOTHING
            ]
        if word == "required":
            return [
                case for name in dict.fromkeys(value) for case in only("object", Objects((_absent(name),)))
            ]
        if word == "minProperties":
            return only("object", Objects(high=int(value) - 1)) if value >= 1 else []
        if word == "maxProperties":
            return only("object", Objects(low=int(value) + 1))
        parts = value.values() if word == "patternProperties" else [value]
        if all(self.demand(part, False) == NOTHING for part in parts):
            return []
        return self._unsayable("object", word)


@lru_cache(maxsize=1)
def _format_checker() -> Any:
    """Formats as they are enforced: a listed value has to have the format that stands beside it."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name, pattern in FORMATS.items():
        checker.checks(name)(partial(_has_format, re.compile(pattern), LONGEST.get(name)))
    return checker


def _has_format(pattern: re.Pattern[str], longest: int | None, value: object) -> bool:
    if not isinstance(value, str):
        return True
    return pattern.fullmatch(value) is not None and (longest is None or len(value) <= longest)


def _absent(name: str) -> Fields:
    return Fields({name: NOTHING})


def _without(name: str) -> Case:
    """Whatever is no object with that key."""
    return except_for("object", Objects((_absent(name),)))


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Values without repetition; ``1`` and ``true`` differ."""
    return list({repr(value): value for value in values}.values())


def matches_key(pattern: str, name: str) -> bool:
    """Whether a key is one that ``patternProperties`` means."""
    with _in_time():
        return user_pattern(pattern).search(name)


@contextmanager
def _in_time() -> Iterator[None]:
    """Refuse a schema of which a pattern would be matched for ever."""
    try:
        yield
    except (OutOfTimeError, OutOfMemoryError) as error:
        raise _refused("pattern", str(error)) from error


def _refused(keyword: str, reason: str) -> ConstraintUnavailableError:
    return ConstraintUnavailableError(f"'{keyword}' of the schema cannot be enforced: {reason}")
