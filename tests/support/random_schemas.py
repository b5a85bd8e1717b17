"""Random JSON schemas, instances for them, and three opinions on each: our grammar, raw llguidance and jsonschema.

What an instance is worth is jsonschema's to say. A text that a grammar lets through and whose value does not conform
is a failure of that grammar; a conforming value of which no spelling is let through is a narrowing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import islice, permutations
from random import Random
from typing import Any

import llguidance
import llguidance.numpy
import numpy as np
from jsonschema import Draft202012Validator, FormatChecker

from pcsuite._util.json_schema import exact_class, map_schema, with_patterns
from pcsuite._util.patterns import read_pattern
from pcsuite.engines.adapters.base import LLGUIDANCE_JSON_LAYOUT, Constraint
from pcsuite.engines.grammar import llguidance_grammar
from pcsuite.errors import ConstraintUnavailableError

BYTES = llguidance.LLTokenizer("byte")
NAMES = ["a", "b", "ab", "c", "x-1", 'q"t', "l\nb", "é", ""]
PATTERNS = ["^a", "b$", "^[a-c]{1,3}$", "^x-", "^.{2}$", "^(?:ab|c)+$"]
KEY_PATTERNS = ["^x-", "^a", "^c$", "[0-9]", "^[a-b]+$"]
FORMATS = ["date", "ipv4", "uuid"]
SCALARS: list[Any] = [None, True, False, 0, 1, -1, 2, 5, 10, 1.5, -0.5, 1.0, "", "a", "b", "ab", "abc", "x-1", "zz",
                      "2021-02-29", "2020-02-29", "1.2.3.4", 'q"t', "l\nb"]  # fmt: skip
_CHECKER = FormatChecker(formats=["date", "ipv4", "uuid"])


def random_schema(rng: Random, depth: int = 3) -> Any:
    """A schema with up to ``depth`` levels below it; references lead to two definitions at its top."""
    schema = _schema(rng, depth)
    if not isinstance(schema, dict):
        return schema
    if '"$ref"' in json.dumps(schema):
        schema["$defs"] = {name: map_schema(_schema(rng, 1), _without_reference) for name in ("one", "two")}
    return schema


def _without_reference(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """A definition that leads nowhere but, from its properties and items, to the top."""
    inside = where.count("/properties/") + where.count("/items")
    if "$ref" in schema and not inside:
        del schema["$ref"]
    elif "$ref" in schema:
        schema["$ref"] = "#"
    return schema


def _schema(rng: Random, depth: int) -> Any:
    if rng.random() < 0.06:
        return rng.choice([True, True, False])
    schema: dict[str, Any] = {}
    if rng.random() < 0.75:
        kinds = ["object", "object", "array", "string", "integer", "number", "boolean", "null"]
        schema["type"] = rng.choice(kinds) if rng.random() < 0.8 else rng.sample(sorted(set(kinds)), 2)
    kinds = schema.get("type", ["object", "array", "string", "number"])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        {"object": _object, "array": _array, "string": _string, "integer": _number, "number": _number}.get(
            kind, lambda *_: None
        )(rng, depth, schema)
    if depth and rng.random() < 0.35:
        _combine(rng, depth, schema)
    if rng.random() < 0.08:
        schema["enum"] = [*rng.sample(SCALARS, 3), {"a": 1}, [1, "a"]]
    elif rng.random() < 0.05:
        schema["const"] = rng.choice(SCALARS)
    parts = list(schema.items())
    rng.shuffle(parts)
    return dict(parts)


def _child(rng: Random, depth: int) -> Any:
    return {"$ref": "#"} if rng.random() < 0.04 else _schema(rng, depth)


def _object(rng: Random, depth: int, schema: dict[str, Any]) -> None:
    if depth and rng.random() < 0.8:
        names = rng.sample(NAMES, rng.randint(1, 3))
        schema["properties"] = {name: _child(rng, depth - 1) for name in names}
    if rng.random() < 0.5:
        schema["required"] = rng.sample(NAMES, rng.randint(1, 2))
    if rng.random() < 0.5:
        schema["additionalProperties"] = rng.choice([False, False, True, _schema(rng, 0)])
    if rng.random() < 0.2:
        patterns = rng.sample(KEY_PATTERNS, rng.randint(1, 2))
        schema["patternProperties"] = {pattern: _schema(rng, 0) for pattern in patterns}
    if rng.random() < 0.12:
        schema["minProperties"] = rng.randint(0, 3)
    if rng.random() < 0.12:
        schema["maxProperties"] = rng.randint(0, 3)
    if rng.random() < 0.08:
        schema["propertyNames"] = rng.choice(
            [{"maxLength": 2}, {"pattern": "^[a-c]"}, {"enum": ["a", "c"]}, True]
        )
    if rng.random() < 0.08:
        schema["dependentRequired"] = {rng.choice(NAMES): [rng.choice(NAMES)]}
    if depth and rng.random() < 0.06:
        schema["dependentSchemas"] = {rng.choice(NAMES): _schema(rng, depth - 1)}
    if rng.random() < 0.12:
        schema["unevaluatedProperties"] = rng.choice([False, False, _schema(rng, 0)])


def _array(rng: Random, depth: int, schema: dict[str, Any]) -> None:
    if depth and rng.random() < 0.7:
        schema["items"] = _child(rng, depth - 1)
    if depth and rng.random() < 0.35:
        schema["prefixItems"] = [_schema(rng, depth - 1) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        schema["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.4:
        schema["maxItems"] = rng.randint(0, 4)
    if rng.random() < 0.08:
        schema["uniqueItems"] = rng.random() < 0.5
    if rng.random() < 0.12:
        schema["contains"] = _schema(rng, 0)
        if rng.random() < 0.3:
            schema["minContains"] = rng.randint(0, 2)
    if rng.random() < 0.1:
        schema["unevaluatedItems"] = False


def _string(rng: Random, depth: int, schema: dict[str, Any]) -> None:
    if rng.random() < 0.3:
        schema["maxLength"] = rng.randint(0, 4)
    if rng.random() < 0.3:
        schema["minLength"] = rng.randint(0, 2)
    if rng.random() < 0.3:
        schema["pattern"] = rng.choice(PATTERNS)
    if rng.random() < 0.07:
        schema["format"] = rng.choice(FORMATS)


def _number(rng: Random, depth: int, schema: dict[str, Any]) -> None:
    for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if rng.random() < 0.25:
            schema[word] = rng.choice([-1, 0, 1, 2, 5, 9, 0.5, 1.25, -2.5])
    if rng.random() < 0.12:
        schema["multipleOf"] = rng.choice([1, 2, 3, 0.5, 0.1, 0.25])


def _combine(rng: Random, depth: int, schema: dict[str, Any]) -> None:
    for _ in range(rng.choice([1, 1, 2])):
        word = rng.choice(["allOf", "allOf", "anyOf", "anyOf", "oneOf", "not", "if", "$ref", "$ref"])
        if word == "$ref":
            schema["$ref"] = rng.choice(["#/$defs/one", "#/$defs/two"])
        elif word == "not":
            schema["not"] = _schema(rng, min(depth - 1, 1))
        elif word == "if":
            for part in ("if", "then", "else"):
                if part == "if" or rng.random() < 0.8:
                    schema[part] = _schema(rng, min(depth - 1, 1))
        else:
            schema[word] = [_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]


def random_values(schema: Any, rng: Random, count: int) -> list[Any]:
    """Values that look as if they were meant for the schema, and what mutations make of them."""
    values = [value_for(schema, schema, rng) for _ in range(count)]
    return values + [mutated(value, rng) for value in values]


def value_for(schema: Any, root: Any, rng: Random, depth: int = 4) -> Any:
    """A value that follows the keywords of one type, without much care: every so often it conforms."""
    if not isinstance(schema, dict) or depth == 0:
        return rng.choice(SCALARS)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    chosen = dict(schema)
    for word in ("allOf", "anyOf", "oneOf"):
        for entry in (
            schema.get(word, ())
            if word == "allOf"
            else rng.sample(schema.get(word, []), min(1, len(schema.get(word, []))))
        ):
            if isinstance(entry, dict):
                chosen = _joined(chosen, entry)
    if "$ref" in schema:
        target = root if schema["$ref"] == "#" else root.get("$defs", {}).get(schema["$ref"][8:])
        if isinstance(target, dict):
            chosen = _joined(chosen, target)
    branch = rng.choice([["if", "then"], ["else"]])
    for word in branch:
        if isinstance(schema.get(word), dict):
            chosen = _joined(chosen, schema[word])
    kinds = chosen.get("type", ["object", "array", "string", "number"])
    kind = kinds if isinstance(kinds, str) else rng.choice(kinds)
    if kind == "object":
        names = [
            *chosen.get("required", ()),
            *(name for name in chosen.get("properties", {}) if rng.random() < 0.6),
        ]
        names += [name for name in ["zz", "x-2", "c", "a1"] if rng.random() < 0.15]
        order = {name: index for index, name in enumerate(chosen.get("properties", {}))}
        names.sort(key=lambda name: order.get(name, 99))
        inside = chosen.get("properties", {})
        return {
            name: value_for(inside.get(name, chosen.get("additionalProperties")), root, rng, depth - 1)
            for name in names
        }
    if kind == "array":
        first = chosen.get("prefixItems", [])
        length = rng.randint(
            chosen.get("minItems", 0),
            min(chosen.get("maxItems", 3), 4)
            if chosen.get("maxItems", 3) >= chosen.get("minItems", 0)
            else chosen.get("minItems", 0),
        )
        entries = [*first, *([chosen.get("items")] * 4)][:length]
        return [value_for(entry, root, rng, depth - 1) for entry in entries]
    if kind == "string":
        return rng.choice([value for value in SCALARS if isinstance(value, str)])
    if kind in ("integer", "number"):
        bounds = [
            chosen[word]
            for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
            if word in chosen
        ]
        return rng.choice(
            [*(bound + step for bound in bounds for step in (-1, 0, 1, 0.5)), 0, 1, 2, 3, -3, 0.5, 7.25]
        )
    return rng.choice([True, False]) if kind == "boolean" else None


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    joined = {**first, **second}
    joined["properties"] = {**first.get("properties", {}), **second.get("properties", {})}
    joined["required"] = [*dict.fromkeys([*first.get("required", ()), *second.get("required", ())])]
    return joined


def mutated(value: Any, rng: Random) -> Any:
    """A value with one thing changed somewhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        choice = rng.random()
        if choice < 0.3:
            return {key: entry for key, entry in value.items() if key != name}
        if choice < 0.6:
            return {**value, rng.choice([*NAMES, "zz", "x-9"]): rng.choice(SCALARS)}
        return {key: mutated(entry, rng) if key == name else entry for key, entry in value.items()}
    if isinstance(value, list) and rng.random() < 0.8:
        if value and rng.random() < 0.5:
            at = rng.randrange(len(value))
            return [mutated(entry, rng) if index == at else entry for index, entry in enumerate(value)]
        return [*value, rng.choice(SCALARS)] if rng.random() < 0.6 else value[:-1]
    return rng.choice([*SCALARS, [], {}, {"a": 1}, [1]])


def spellings(value: Any, most: int = 12) -> list[str]:
    """Texts of one value: its keys in several orders, whole numbers without a fraction."""
    whole = _whole(value)
    texts = [json.dumps(value, ensure_ascii=False)]
    texts += [json.dumps(other, ensure_ascii=False) for other in islice(_orders(whole), most)]
    return list(dict.fromkeys(texts))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(entry) for entry in value]
    return {key: _whole(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _orders(value: Any) -> Any:
    if isinstance(value, dict):
        for names in permutations(value):
            inner = [list(islice(_orders(value[name]), 3)) for name in names]
            for variant in range(max(map(len, inner), default=1)):
                yield {
                    name: forms[min(variant, len(forms) - 1)]
                    for name, forms in zip(names, inner, strict=True)
                }
    elif isinstance(value, list):
        inner = [list(islice(_orders(entry), 6)) for entry in value]
        for variant in range(max(map(len, inner), default=1)):
            yield [forms[min(variant, len(forms) - 1)] for forms in inner]
    else:
        yield value


def tricky_texts(value: Any, rng: Random) -> list[str]:
    """Texts that ought to be judged by what they mean: keys spelt with escapes, keys that come twice."""
    if not isinstance(value, dict) or not value:
        return []
    name = rng.choice(list(value))
    escaped = "".join(f"\\u{ord(character):04x}" for character in name)
    fields = {key: json.dumps(entry, ensure_ascii=False) for key, entry in value.items()}
    keys = {key: json.dumps(key, ensure_ascii=False) for key in value}
    spelt = ", ".join(
        f"{chr(34) + escaped + chr(34) if key == name else keys[key]}: {fields[key]}" for key in value
    )
    twice = ", ".join(f"{keys[key]}: {fields[key]}" for key in value)
    other = json.dumps(rng.choice(SCALARS), ensure_ascii=False)
    return ["{" + spelt + "}", "{" + twice + f", {keys[name]}: {other}" + "}",
            "{" + twice + f', "{escaped}": {other}' + "}"]  # fmt: skip


def raw_grammar(schema: Any) -> str:
    """The schema as llguidance reads it by itself, in our layout."""
    plain = schema if isinstance(schema, dict) else ({} if schema else {"not": {}})
    return "%llguidance {}\nstart: %json " + json.dumps({**plain, "x-guidance": LLGUIDANCE_JSON_LAYOUT})


def our_grammar(schema: Any) -> str | None:
    """The schema as all backends enforce it; ``None`` where it is refused."""
    try:
        return llguidance_grammar(Constraint("json_schema", json.dumps(schema)))
    except ConstraintUnavailableError:
        return None


def takes(grammar: str | None) -> bool:
    """Whether there is a grammar and llguidance compiles it."""
    return grammar is not None and not llguidance.LLMatcher.validate_grammar(grammar, BYTES)


class Matcher:
    """One grammar's opinion on texts."""

    def __init__(self, grammar: str) -> None:
        self._first = llguidance.LLMatcher(BYTES, grammar)

    def accepts(self, text: str) -> bool:
        """Whether the mask lets the whole text through and lets it end there."""
        tokens = BYTES.tokenize_bytes(text.encode())
        matcher = self._first.deep_copy()
        return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())

    def walk(self, rng: Random, most: int = 200) -> str | None:
        """A text that the mask lets through, chosen byte by byte; ``None`` where it does not end in time."""
        matcher = self._first.deep_copy()
        mask = llguidance.numpy.allocate_token_bitmask(1, BYTES.vocab_size)
        text = bytearray()
        for _ in range(most):
            llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
            usual = [byte for byte in allowed if byte < 127]
            if matcher.is_accepting() and (not usual or rng.random() < 0.5):
                return text.decode()
            closing = [byte for byte in usual if byte in b'"}],: ']
            # Letters that names begin with, so that excluded words are nearly written.
            letters = [byte for byte in usual if byte in b"abcx-1u\\0602{"]
            pool = (
                closing
                if closing and rng.random() < 0.5
                else letters
                if letters and rng.random() < 0.8
                else usual
            )
            if not pool:
                return None
            byte = int(rng.choice(pool))
            matcher.consume_token(byte)
            text.append(byte)
        return None


def judge(schema: Any) -> Callable[[Any], bool]:
    """Jsonschema's opinion on values, formats included."""
    if isinstance(schema, bool):
        return lambda _: schema
    readable = with_patterns(schema, lambda pattern: read_pattern(pattern, "ecma").python)
    return exact_class(Draft202012Validator)(readable, format_checker=_CHECKER).is_valid


def compare(schema: Any, rng: Random, count: int = 12) -> tuple[Counter[str], list[str]]:
    """What both grammars make of one schema: counts of opinions, and the texts that are wrong, with who let them through.

    A schema is ``wrong`` for a grammar that lets through a text whose value does not conform, else ``narrower`` where
    no spelling of some conforming value is let through, else ``exact``; or it is ``refused``.
    """
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    values = random_values(schema, rng, count)
    conforms = judge(schema)
    truth = [conforms(value) for value in values]
    for name, grammar in (("ours", our_grammar(schema)), ("llguidance", raw_grammar(schema))):
        if not takes(grammar):
            counts[f"{name} refused"] += 1
            continue
        assert grammar is not None
        matcher = Matcher(grammar)
        texts = [text for value in values for text in [*spellings(value, 4), *tricky_texts(value, rng)]]
        texts += [text for text in (matcher.walk(rng) for _ in range(6)) if text is not None]
        bad = [
            text for text in dict.fromkeys(texts) if matcher.accepts(text) and not conforms(json.loads(text))
        ]
        wrong += [f"{name}: {json.dumps(schema)} lets through {text}" for text in bad]
        valid = [value for value, holds in zip(values, truth, strict=True) if holds]
        missed = [value for value in valid if not any(map(matcher.accepts, spellings(value)))]
        wrong += [f"{name} misses {json.dumps(schema)} {value!r}" for value in missed]
        counts[f"{name} {'wrong' if bad else 'narrower' if missed else 'exact'}"] += 1
        counts[f"{name} texts"] += len(texts)
    return counts, wrong
