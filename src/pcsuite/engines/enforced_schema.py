"""A schema as llguidance is given it: plain types and alternatives, nothing that has to be combined.

llguidance intersects schemas itself, but not always soundly (patterns beside closed objects, keys spelt with escapes),
and refuses much that can be said otherwise. So everything that combines is worked out before
(:mod:`pcsuite.engines.schema_cases`), and what is written here uses only what the differential test
(``benchmarks/constraint_differential.py``) shows to be kept: one type at a time, ``anyOf``, and ``$ref`` without
siblings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

from pcsuite._util.patterns import PatternError, quote_pattern
from pcsuite.engines.schema_cases import Cases, matches_key
from pcsuite.engines.schema_shapes import (
    ANYTHING,
    NOTHING,
    UNLIMITED,
    Arrays,
    Case,
    Demand,
    Numbers,
    Objects,
    Plain,
    Strings,
    Unsayable,
    both,
    exact_number,
    least,
)
from pcsuite.engines.word_patterns import FORMATS, LONGEST, all_words_but, literal_beginning
from pcsuite.errors import ConstraintUnavailableError

MOST_DEFINITIONS = 2000
MOST_COUNTED = 7
"""Optional properties of an object whose number is limited: each subset becomes an alternative."""
MOST_CONTAINS = 64
_EXACT_INTEGERS = 2**53
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def enforceable_schema(schema: Any) -> dict[str, Any]:
    """A schema that means the same and that llguidance keeps: what is enforced in place of ``schema``.

    Raises :class:`~pcsuite.errors.ConstraintUnavailableError`, which names the keyword, for what cannot be written so.

    >>> enforceable_schema({"type": "string", "pattern": r"^\\d$"})
    {'type': 'string', 'pattern': '^[0-9]$'}
    >>> enforceable_schema({"allOf": [{"minimum": 1}, {"type": "integer", "exclusiveMaximum": 5}]})
    {'type': 'integer', 'minimum': 1, 'maximum': 4}
    """
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    try:
        return _Writer(Cases(schema)).document()
    except PatternError as error:
        raise ConstraintUnavailableError(f"a pattern of the schema cannot be enforced: {error}") from error
    except RecursionError as error:
        raise ConstraintUnavailableError("the schema cannot be enforced: it is nested too deeply") from error


@dataclass(frozen=True, slots=True)
class _Part:
    """The place of a demand in a schema that is being written."""

    demand: Demand


@dataclass(slots=True)
class _Alternative:
    """One plain schema; ``needs`` are demands without which nothing conforms to it."""

    schema: dict[str, Any]
    needs: list[Demand] = field(default_factory=list)


class _Writer:
    def __init__(self, cases: Cases) -> None:
        self._cases = cases
        self._written: dict[Demand, list[_Alternative]] = {}
        self._names: dict[Demand, str] = {}
        self._uses: Counter[Demand] = Counter()
        self._possible: set[Demand] = set()

    def document(self) -> dict[str, Any]:
        """The whole schema, with definitions for what occurs more than once or within itself."""
        root = self._cases.root
        self._uses[root] += 1
        waiting = [root]
        while waiting:
            demand = waiting.pop()
            if demand in self._written or demand in (ANYTHING, NOTHING):
                continue
            if len(self._written) >= MOST_DEFINITIONS:
                raise _refused("$ref", f"it comes to more than {MOST_DEFINITIONS} different parts")
            self._written[demand] = self._alternatives(demand)
            for part in _parts(self._written[demand]):
                self._uses[part] += 1
                waiting.append(part)
        self._find_possible()
        if root not in self._possible and root != ANYTHING:
            raise ConstraintUnavailableError(
                "no finite answer conforms to the schema: it is unsatisfiable, or a '$ref' in it has to be followed"
                " without end"
            )
        schema = self._placed(root)
        definitions: dict[str, Any] = {}
        while len(definitions) < len(self._names):
            for demand, name in [*self._names.items()]:
                if name not in definitions:
                    definitions[name] = self._schema(demand)
        return {**schema, "$defs": definitions} if definitions else schema

    def _find_possible(self) -> None:
        """Which demands something finite conforms to: the least fixed point over their alternatives."""
        self._possible = {ANYTHING}
        changed = True
        while changed:
            changed = False
            for demand, alternatives in self._written.items():
                if demand not in self._possible and any(
                    all(need in self._possible for need in one.needs) for one in alternatives
                ):
                    self._possible.add(demand)
                    changed = True

    def _placed(self, demand: Demand) -> Any:
        if demand == ANYTHING:
            return {}
        if demand not in self._possible:
            return False
        plain = not any(True for _ in _parts(self._written[demand]))
        if self._uses[demand] == 1 or (plain and len(self._written[demand]) == 1):
            return self._schema(demand)
        name = self._names.setdefault(demand, f"part{len(self._names)}")
        return {"$ref": f"#/$defs/{name}"}

    def _schema(self, demand: Demand) -> dict[str, Any]:
        alternatives = [
            self._filled(one.schema)
            for one in self._written[demand]
            if all(need in self._possible for need in one.needs)
        ]
        return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}

    def _filled(self, part: Any) -> Any:
        if isinstance(part, _Part):
            return self._placed(part.demand)
        if isinstance(part, dict):
            return {key: self._filled(value) for key, value in part.items()}
        return [self._filled(value) for value in part] if isinstance(part, list) else part

    def _alternatives(self, demand: Demand) -> list[_Alternative]:
        alternatives: list[_Alternative] = []
        for case in self._cases.of(demand):
            alternatives += self._of_case(case)
        return alternatives

    def _of_case(self, case: Case) -> Iterator[_Alternative]:
        if case.values is not None:
            yield _Alternative({"enum": [_writable(value) for value in case.values]})
            return
        if dict(case.records) == UNLIMITED:
            yield _Alternative({})
            return
        free = [kind for kind, record in case.records.items() if record == UNLIMITED[kind]]
        if len(free) > 1:
            yield _Alternative({"type": free})
        for kind, record in case.records.items():
            if kind in free and len(free) > 1:
                continue
            if isinstance(record, Unsayable):
                raise _refused(record.keyword, record.reason)
            if isinstance(record, Plain):
                whole = record == UNLIMITED[kind]
                yield _Alternative({"type": kind} if whole else {"enum": sorted(record.values, key=bool)})
            elif isinstance(record, Numbers):
                yield _Alternative(_number_schema(record))
            elif isinstance(record, Strings):
                yield _Alternative(self._string_schema(record))
            elif isinstance(record, Arrays):
                yield from self._array_schemas(record)
            else:
                yield from self._object_schemas(record)

    def _string_schema(self, record: Strings) -> dict[str, Any]:
        patterns = [self._engine_pattern(pattern) for pattern in record.patterns]
        high = record.high
        for name in record.formats:
            if name not in FORMATS:
                raise _refused("format", f"no engine knows the format '{name}'")
            patterns.append(FORMATS[name])
            high = least(high, LONGEST.get(name))
        if record.without:
            patterns.append(all_words_but(record.without))
        schema: dict[str, Any] = {"type": "string"}
        if record.low:
            schema["minLength"] = record.low
        if high is not None:
            schema["maxLength"] = high
        if len(patterns) == 1:
            schema["pattern"] = patterns[0]
        elif patterns:
            schema["allOf"] = [{"type": "string", "pattern": pattern} for pattern in patterns]
        return schema

    def _engine_pattern(self, pattern: str) -> str:
        written = self._cases.patterns[pattern]
        if written.unenforceable:
            raise PatternError(
                f"no engine follows {written.unenforceable} of the pattern {quote_pattern(written.text)} while decoding"
            )
        return written.engine

    def _array_schemas(self, record: Arrays) -> Iterator[_Alternative]:
        if record.unique and (record.high is None or record.high > 1):
            raise _refused("uniqueItems", "no grammar remembers which items were written")
        if not record.contains:
            yield _array_schema(record)
            return
        if len(record.contains) > 1:
            raise _refused("contains", "two of them hold at once")
        contained = record.contains[0]
        plain = Arrays(record.prefix, record.rest, record.low, record.high)
        closed = len(record.prefix) if record.rest == NOTHING else None
        longest = least(record.high, closed)
        if contained.high is not None or contained.low > 1 or longest is None or longest > MOST_CONTAINS:
            raise _refused(
                "contains", "where the item stands is not bounded; give maxItems, and no minContains"
            )
        for index in range(longest):
            prefix = [plain.at(at) for at in range(max(len(plain.prefix), index + 1))]
            prefix[index] = both(prefix[index], contained.demand)
            yield _array_schema(Arrays(tuple(prefix), plain.rest, max(plain.low, index + 1), plain.high))

    def _object_schemas(self, record: Objects) -> Iterator[_Alternative]:
        names = dict.fromkeys(name for part in record.parts for name in part.names)
        names.update(dict.fromkeys(record.required))
        names.update(dict.fromkeys(self._listed_keys(record)))
        fields = {name: self._cases.field(record, name) for name in names}
        keys = self._free_keys(record, fields)
        optional = [
            name
            for name, demand in fields.items()
            if name not in record.required and not self._cases.is_void(demand)
        ]
        most = len(record.required) + len(optional) if not keys else None
        roomy = record.high is None or (most is not None and most <= record.high)
        if record.low <= len(record.required) and roomy:
            yield _object_schema(fields, record.required, keys)
            return
        if len(optional) > MOST_COUNTED:
            reason = f"it counts more than {MOST_COUNTED} optional properties"
            raise _refused("maxProperties" if record.high is not None else "minProperties", reason)
        for count in range(len(optional) + 1):
            for chosen in combinations(optional, count):
                yield from self._counted(record, fields, {*record.required, *chosen}, keys)

    def _counted(
        self, record: Objects, fields: Mapping[str, Demand], present: set[str], keys: Mapping[str, Demand]
    ) -> Iterator[_Alternative]:
        """The object with just these named properties, and as many others as its limits leave."""
        more = record.low - len(present)
        room = None if record.high is None else record.high - len(present)
        if room is not None and room < 0:
            return
        here = {name: demand if name in present else NOTHING for name, demand in fields.items()}
        order = tuple(name for name in fields if name in present)
        open_keys = {pattern: demand for pattern, demand in keys.items() if not self._cases.is_void(demand)}
        if not open_keys or room == 0:
            if more <= 0:
                yield _object_schema(here, order, {})
            return
        if more > 1:
            raise _refused(
                "minProperties",
                f"{record.low} could be met by repeating a key; name the keys and require them",
            )
        schema = _object_schema(here, order, keys)
        if more == 1:
            # One key that is none of the named ones cannot be a repetition.
            schema.schema["minProperties"] = len(present) + 1
            if len(open_keys) == 1:
                schema.needs.append(next(iter(open_keys.values())))
        if room is not None:
            schema.schema["maxProperties"] = len(present) + room
        yield schema

    def _free_keys(self, record: Objects, fields: Mapping[str, Demand]) -> dict[str, Demand]:
        """What keys that have no name may be, by patterns (for engines), each with what is asked of its value."""
        patterns = dict.fromkeys(pattern for part in record.parts for pattern in part.patterns)
        rest = both(*(part.rest for part in record.parts)) if record.parts else ANYTHING
        keys: dict[str, Demand] = {}
        for pattern in patterns:
            if any(_CONTROL.search(name) and matches_key(pattern, name) for name in fields):
                raise _refused(
                    "patternProperties", "a named key that it matches can be spelt in several ways"
                )
            # Patterns must not overlap (the engine refuses that), so others' patterns say nothing of these keys.
            demands = [part.patterns.get(pattern, part.rest) for part in record.parts]
            keys[self._engine_pattern(pattern)] = both(*demands)
        if record.keys:
            return self._limited_keys(record, keys, rest, fields)
        if self._cases.is_void(rest):
            return keys
        if not keys and not fields:
            return {"": rest}
        words, beginnings = set(fields), set[str]()
        for pattern in patterns:
            literal = literal_beginning(self._cases.patterns[pattern].text)
            if literal is None or literal == ("", False):
                raise _refused(
                    "patternProperties",
                    "beside it, keys of other names are allowed, which no pattern says: additionalProperties: false",
                )
            (words if literal[1] else beginnings).add(literal[0])
        keys[all_words_but(words, beginnings)] = rest
        return keys

    def _listed_keys(self, record: Objects) -> list[str]:
        """The keys that ``propertyNames`` lists, where it lists any."""
        cases = self._cases.of(record.keys) if record.keys else []
        return [value for case in cases for value in case.values or () if isinstance(value, str)]

    def _limited_keys(
        self, record: Objects, keys: dict[str, Demand], rest: Demand, fields: Mapping[str, Demand]
    ) -> dict[str, Demand]:
        """The same where ``propertyNames`` is asked of every key: one pattern or length, or listed words."""
        if keys:
            raise _refused("propertyNames", "it stands beside patternProperties")
        cases = self._cases.of(record.keys)
        if self._cases.is_void(rest) or not cases:
            return {}
        if len(cases) > 1:
            raise _refused("propertyNames", "it has alternatives")
        if cases[0].values is not None:
            return {}  # they are among the named ones
        names = cases[0].records.get("string")
        if names is None:
            return {}
        if names == UNLIMITED["string"]:
            return {all_words_but(fields): rest} if fields else {"": rest}
        if isinstance(names, Unsayable):
            raise _refused(names.keyword, names.reason)
        assert isinstance(names, Strings)
        schema = self._string_schema(names)
        if any(_CONTROL.search(name) for name in fields):
            raise _refused("propertyNames", "a named key can be spelt in several ways")
        bounded = "minLength" in schema or "maxLength" in schema
        if "allOf" in schema or ("pattern" in schema and bounded):
            raise _refused("propertyNames", "it has more than one pattern or length")
        limits = f"{names.low},{'' if names.high is None else names.high}"
        return {schema.get("pattern", f"^(?s:.){{{limits}}}$"): rest}


def _parts(alternatives: list[_Alternative]) -> Iterator[Demand]:
    """The demands in what is being written, each as often as it occurs."""
    waiting: list[Any] = [one.schema for one in reversed(alternatives)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Part):
            yield part.demand
        elif isinstance(part, dict):
            waiting += reversed(part.values())
        elif isinstance(part, list):
            waiting += reversed(part)


def _array_schema(record: Arrays) -> _Alternative:
    schema: dict[str, Any] = {"type": "array"}
    if record.prefix:
        schema["prefixItems"] = [_Part(demand) for demand in record.prefix]
    if record.rest != ANYTHING:
        schema["items"] = False if record.rest == NOTHING else _Part(record.rest)
    if record.low:
        schema["minItems"] = record.low
    if record.high is not None:
        schema["maxItems"] = record.high
    needed = range(min(record.low, len(record.prefix) + 1))
    return _Alternative(schema, [record.at(index) for index in needed])


def _object_schema(
    fields: Mapping[str, Demand], required: tuple[str, ...], keys: Mapping[str, Demand]
) -> _Alternative:
    schema: dict[str, Any] = {"type": "object"}
    if fields:
        schema["properties"] = {
            name: False if demand == NOTHING else _Part(demand) for name, demand in fields.items()
        }
    if required:
        schema["required"] = list(required)
    if "" in keys:
        if keys[""] != ANYTHING:
            schema["additionalProperties"] = _Part(keys[""])
    else:
        if keys:
            schema["patternProperties"] = {
                pattern: False if demand == NOTHING else _Part(demand) for pattern, demand in keys.items()
            }
        schema["additionalProperties"] = False
    return _Alternative(schema, [fields[name] for name in required])


def _number_schema(record: Numbers) -> dict[str, Any]:
    if record.fractional and not replace(record, integer=True, fractional=False).is_empty():
        raise _refused(
            "type", "a number that is no integer cannot be asked for, as 'not', 'if' or 'oneOf' does"
        )
    schema: dict[str, Any] = {"type": "integer" if record.integer else "number"}
    if record.integer:
        low, high = record.whole_bounds()
        bounds = {"minimum": low, "maximum": high}
        schema |= {
            word: _number(Fraction(bound), word) for word, bound in bounds.items() if bound is not None
        }
    else:
        _refuse_narrow(record)
        for word, bound in (("minimum", record.low), ("maximum", record.high)):
            if bound is not None:
                name = f"exclusive{word.capitalize()}" if bound[1] else word
                schema[name] = _number(bound[0], word)
    if record.step is not None:
        schema["multipleOf"] = _number(record.step, "multipleOf")
    return schema


def _refuse_narrow(record: Numbers) -> None:
    """Refuse a range that lies within one unit of an excluded whole bound: llguidance 1.5 lets that bound through.

    ``0 < x <= 0.5`` is such a range: it admits ``0``.
    """
    if record.low is None or record.high is None:
        return
    for (bound, excluded), other in ((record.low, record.high[0]), (record.high, record.low[0])):
        if excluded and bound.denominator == 1 and abs(other - bound) < 1:
            raise _refused(
                "exclusiveMinimum", "a range of less than one beside a whole number that it excludes"
            )


def _number(value: Fraction, keyword: str) -> int | float:
    """A number as an engine reads it; beyond 2^53, or between two floating-point numbers, it would read another."""
    if abs(value) <= _EXACT_INTEGERS:
        if value.denominator == 1:
            return int(value)
        if exact_number(float(value)) == value:
            return float(value)
    raise _refused(keyword, "engines read such a number as another one: keep within ±2^53 and 15 digits")


def _writable(value: Any) -> Any:
    """A listed value, once it is sure that an engine reads its numbers as they are."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _number(exact_number(value), "enum")
    elif isinstance(value, dict):
        for part in value.values():
            _writable(part)
    elif isinstance(value, list):
        for part in value:
            _writable(part)
    return value


def _refused(keyword: str, reason: str) -> ConstraintUnavailableError:
    return ConstraintUnavailableError(f"'{keyword}' of the schema cannot be enforced: {reason}")
