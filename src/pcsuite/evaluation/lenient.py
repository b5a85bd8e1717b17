"""Reading what a careful person would still understand: broken JSON, labels in sentences, letters with text.

Lenient readings make ``lenient_score`` and nothing else: an answer that only they understand is right in substance and
wrong in form. Each says which rule it took, and the row notes it. What was cut off is never read.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pcsuite._util.text import storable
from pcsuite.evaluation.base import fold
from pcsuite.evaluation.json_spans import object_spans
from pcsuite.evaluation.parsing import MAX_DEPTH, is_schema_echo
from pcsuite.evaluation.thoughts import clean_text, without_reasoning_tags

_LONGEST = 20_000
_CURLY_QUOTES = str.maketrans("“”„‘’", '"""\'\'')
_STRINGS_AND = r'"(?:[^"\\\n]|\\.)*"'
_TRAILING_COMMA = re.compile(_STRINGS_AND + r"|,(?=\s*[}\]])")
_COMMENT = re.compile(_STRINGS_AND + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_BARE_KEY = re.compile(_STRINGS_AND + r"|(?<=[{,])(\s*)([A-Za-z_]\w*)(?=\s*:)")


def lenient_text(text: str) -> str:
    """The text a lenient reader sees: that of a strict one, or all of it where nothing but reasoning was written."""
    cleaned = clean_text(text)
    if not cleaned.strip():
        cleaned = storable(without_reasoning_tags(text))
    return cleaned[-_LONGEST:]


def loose_values(text: str) -> Iterator[tuple[Any, str]]:
    """Values of the text that are JSON but for common slips, last first, each with the rule that was needed.

    The slips: raw line breaks in strings, trailing commas, comments, keys without quotes, curly quotes, Python
    literals, a list or a text where an object belongs. An object that was cut off is none.

    >>> next(loose_values("{'label': 'World', 'sure': True,}"))
    ({'label': 'World', 'sure': True}, 'Python literal')
    """
    stripped = text.strip()
    single = _loose_load(stripped, brackets='[{"')
    if single is not None:
        value, rule = single
        if isinstance(value, str):
            yield from loose_values(value) if value != text else ()
        else:
            yield value, rule
        return
    spans = object_spans(stripped)
    for start, end in reversed(spans):
        loaded = _loose_load(stripped[start:end])
        if loaded is not None:
            yield loaded
    opening, closing = stripped.find("["), stripped.rfind("]")
    if 0 <= opening < closing and not any(start < opening < end for start, end in spans):
        loaded = _loose_load(stripped[opening : closing + 1], brackets="[")
        if loaded is not None:
            yield loaded


def loose_object(
    text: str, names: Collection[str], *, scalar: bool = False
) -> tuple[dict[str, Any], str] | None:
    """The last object that has one of the answer's fields, by whatever name in ``names``, and the rule that found it.

    ``text`` is what :func:`lenient_text` gives. Looks inside a list of one and inside one enclosing object:
    ``{"answer": {…}}``, or a schema whose properties were filled in, but takes no description for an answer.
    Keys come back as written; :func:`loose_field` looks them up. ``scalar`` says that the field is no object itself.
    """
    if "{" not in text:
        return None
    values = list(loose_values(text))
    for value, rule in values:
        for candidate, way in unwrapped(value, rule):
            echo = is_schema_echo(candidate, names)
            if not echo and loose_field(candidate, names, scalar=scalar) is not None:
                return candidate, way
    if values or text.count("{") != 1 or not re.search(r"\}\W*$", text):
        return None
    # Quotes within quotes break every reader; in a flat object that was closed the field itself can still be seen.
    alternatives = "|".join(map(re.escape, names))
    broken = re.search(rf'"({alternatives})"\s*:\s*("[^"\n]*"|[\w.+-]+)\s*[,}}]', text)
    return None if broken is None else ({broken[1]: broken[2].strip('"')}, "broken quotes")


def loose_answer(
    text: str, fields: Mapping[str, Any], names: Collection[str]
) -> tuple[Any, str | None] | None:
    """What a lenient reader takes for the one value of an answer, and by which rule; ``None`` where it finds nothing.

    The value under one of ``names`` in the ``fields`` that were read, else in broken JSON, else the text outside JSON,
    which has no rule: its task says what counts there.

    >>> loose_answer('{"Label": "World",}', {}, ["label"]), loose_answer("I say World.", {}, ["label"])
    (('World', 'trailing comma'), ('I say World.', None))
    """
    value = loose_field(fields, names, scalar=True)
    if value is not None:
        return value, "another spelling"
    visible = lenient_text(text)
    loose = loose_object(visible, names, scalar=True)
    if loose is not None:
        return loose_field(loose[0], names, scalar=True), loose[1]
    prose = prose_of(visible).strip()
    return (prose, None) if prose else None


def prose_of(text: str) -> str:
    """The text behind the last brace, or all of a text without one: words beside an object are not read in it.

    >>> prose_of('{"label": "Wor')
    ''
    """
    if "{" not in text:
        return text
    return text.rpartition("}")[2] if text.rfind("}") > text.rfind("{") else ""


def loose_field(fields: Mapping[str, Any], names: Collection[str], *, scalar: bool = False) -> Any:
    """The value of the first of ``names`` that is a key, whatever the case, blanks and underscores of the key.

    Nulls are passed over, and objects too where a ``scalar`` is wanted.

    >>> loose_field({"Final Answer": 42}, ["answer", "final_answer"])
    42
    """
    usable = {
        key: value
        for key, value in fields.items()
        if value is not None and not (scalar and isinstance(value, dict))
    }
    for name in names:
        if name in usable:
            return usable[name]
    folded = {_key(key): value for key, value in usable.items() if isinstance(key, str)}
    return next((folded[_key(name)] for name in names if _key(name) in folded), None)


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def unwrapped(value: Any, rule: str) -> Iterator[tuple[dict[str, Any], str]]:
    """An object and those directly inside it, each with the rule that found it; a list of one is what it holds."""
    if isinstance(value, list) and len(value) == 1:
        value, rule = value[0], "list of one"
    if isinstance(value, dict):
        yield value, rule
        for key, inner in value.items():
            if isinstance(inner, list) and len(inner) == 1:
                inner = inner[0]
            if isinstance(inner, dict):
                yield inner, f"inside '{str(key)[:20]}'"


def loose_lists(
    text: str, names: tuple[str, ...], entry_names: Collection[str]
) -> Iterator[tuple[Any, dict[str, Any], str]]:
    """What broken JSON may list, last first: the value, the object it was found in, and the rule.

    ``names`` are the keys it may have, the field's own first; a list without an object counts where one of its entries
    has a key of ``entry_names``. A schema that is echoed is passed over.

    >>> next(loose_lists('[{"name": "Rex"},]', ("entities",), ("name",)))
    ([{'name': 'Rex'}], {}, 'a bare list')
    """
    for value, rule in loose_values(lenient_text(text)):
        if isinstance(value, list):
            if any(isinstance(entry, dict) and loose_field(entry, entry_names) for entry in value):
                yield value, {}, "a bare list"
            continue
        for record, way in unwrapped(value, rule):
            if not is_schema_echo(record, names[:1]):
                yield loose_field(record, names), record, way


def _loose_load(text: str, brackets: str = "{") -> tuple[Any, str] | None:
    """A value and the first rule under which the text is one."""
    if not text or text[0] not in brackets or text.count("{") + text.count("[") > 50 * MAX_DEPTH:
        return None
    if _too_deep(text):
        return None
    for rule, repaired in _repairs(text):
        try:
            value = (
                ast.literal_eval(repaired) if rule == "Python literal" else json.loads(repaired, strict=False)
            )
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        try:
            # Whatever came out must be fit for a log: NaN, sets, tuples as keys and the like are not.
            return json.loads(json.dumps(value, allow_nan=False)), rule
        except (ValueError, TypeError, RecursionError):
            continue
    return None


def _too_deep(text: str) -> bool:
    depth = 0
    for match in re.finditer(r"[{}()\[\]]", text):
        depth += 1 if match[0] in "{[(" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _repairs(text: str) -> Iterator[tuple[str, str]]:
    yield "line break in a text", text
    straight = text.translate(_CURLY_QUOTES) if not text.isascii() else text
    if straight is not text:
        yield "curly quotes", straight
    uncommented = _COMMENT.sub(_keep_strings, straight) if "/" in straight else straight
    if uncommented != straight:
        yield "comment", uncommented
    closed = _TRAILING_COMMA.sub(_keep_strings, uncommented)
    if closed != uncommented:
        yield "trailing comma", closed
    quoted = _BARE_KEY.sub(lambda match: match[0] if match[2] is None else f'{match[1]}"{match[2]}"', closed)
    if quoted != closed:
        yield "key without quotes", quoted
    if "'" in straight or "True" in straight or "False" in straight or "None" in straight:
        yield "Python literal", straight


def _keep_strings(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else ""


_NEGATION = r"(?:not|\w+n['’]t|cannot|never|nor|neither|nothing|hardly|without|rather than|instead of|no)\b"
_NEGATED = re.compile(
    rf"\b{_NEGATION}(?: (?:a|an|the|any|really|very|so|about|to|be|seem|sound|look|in|option|choice)\b)*"
    r"[ \"'*(]*$",
    re.IGNORECASE,
)
_LONGEST_MENTION = 400


def one_mention(text: str, spellings: Mapping[str, str], *, any_case: bool) -> str | None:
    """The one label a short text names, as whole words and not denied; ``None`` for none or for several.

    ``spellings`` map what a label may be called to the label; ``any_case`` compares without case. Otherwise capitals
    of a spelling must be capitals in the text, and others may be: "world" does not name World, "Positive" names
    positive.

    >>> one_mention("The desk is Sports, I think.", {"Sports": "Sports", "World": "World"}, any_case=False)
    'Sports'
    """
    if not spellings or len(text) > _LONGEST_MENTION:
        return None
    named: set[str] = set()
    longest_first = sorted(spellings, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    lookup = {fold(name): (name, label) for name, label in spellings.items()}
    for mention in re.finditer(rf"(?<![\w/-])(?:{pattern})(?![\w/-])", text, re.IGNORECASE):
        # The dotless i of Turkish matches an i without folding to one.
        spelling, label = lookup.get(fold(mention[0]), (None, ""))
        if spelling is None or not (any_case or _keeps_capitals(mention[0], spelling)):
            continue
        if not _NEGATED.search(text[max(0, mention.start() - 24) : mention.start()]):
            named.add(label)
    return named.pop() if len(named) == 1 else None


def _keeps_capitals(mention: str, spelling: str) -> bool:
    if len(mention) != len(spelling):
        return mention == spelling
    return all(
        written.isupper() for written, expected in zip(mention, spelling, strict=True) if expected.isupper()
    )


_YES_NO_HEAD = re.compile(
    r"(?:^|[.!?;:\n])[\s*_\"'>(-]*(?:so|thus|therefore)?,?\s*\b(yes|no|true|false)\b(?!\s*(?:/|or\b|and\b))"
    r"(?=\W*$|\s*[,.!;:*)\"'\n—–]|\s*-(?!\w)|\s+(?:it|they|he|she|the|this|that|there|these|those|because|since|as|you|we|i"
    r"|not|a|an|in|by|if|according|based)\b)",
    re.IGNORECASE,
)
# Anywhere in a text: "yes" always names the answer, "no", "true" and "false" at the end of a clause or of a pair;
# "no limit" and "a true story" do not.
_YES_NO_WORD = re.compile(
    r"(?<![\w-])(?:(yes)(?![\w-])|(no|true|false)(?=\s*(?:$|[,.!?;:/|*)\"'”’\n—–]|-\s|(?:or|and|but)\b)))",
    re.IGNORECASE,
)
_YES_NO_QUESTION = re.compile(r"\b(?:yes or no|yes/no|true or false|true/false) ?\?", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,.!?;:\n]")
_DENIAL = re.compile(rf"\b{_NEGATION}", re.IGNORECASE)


def yes_or_no(text: str) -> str | None:
    """``"yes"`` or ``"no"`` where a sentence of the text opens with one of them and the text never names the other.

    True and false name them too. What is denied in its own clause ("that is not true") names nothing.

    >>> yes_or_no("Yes, birds have wings."), yes_or_no("No one knows."), yes_or_no("Yes, but also no.")
    ('yes', None, None)
    """
    statement = _YES_NO_QUESTION.sub("?", text[:2000])
    heads = {_as_yes_no(head) for head in _YES_NO_HEAD.findall(statement)}
    if len(heads) != 1:
        return None
    for mention in _YES_NO_WORD.finditer(statement):
        clause = _CLAUSE_END.split(statement[max(0, mention.start() - 80) : mention.start()])[-1]
        if not _DENIAL.search(clause):
            heads.add(_as_yes_no(mention[0]))
    return heads.pop() if len(heads) == 1 else None


def _as_yes_no(word: str) -> str:
    return "yes" if word.casefold() in ("yes", "true") else "no"


_LETTER_ALONE = re.compile(r"(?<![\w'’])([A-Z])(?![\w'’])")
_ANOTHER_LETTER = re.compile(r"\s*(?:or|and|,|/)\s*[A-Z]\b")
_LETTER_CUE = re.compile(
    r"(?:\b(?:option|choice|answer|letter|likely|probably|choose|pick|select|is|would be|be)|[:(])[ :*\"'(]{0,4}$",
    re.IGNORECASE,
)


def loose_choice(text: str, choices: Mapping[str, str]) -> str | None:
    """The option meant by a letter with text beside it, or by an option's text in a sentence.

    A letter counts with its own option's text ("D, beach"), after words that point at it ("most likely D"), or as the
    only one in a short text; "A" as an article does not. Two letters, or a letter with another option's text, are none.

    >>> options = {"A": "river bank", "D": "beach"}
    >>> loose_choice("D, beach", options), loose_choice("most likely D", options), loose_choice("A or D", options)
    ('D', 'D', None)
    """
    stripped = text.strip()
    if len(stripped) > _LONGEST_MENTION:
        return None
    letters = {letter.upper(): letter for letter in choices}
    named = one_mention(
        stripped, {option: letter for letter, option in choices.items() if option.strip()}, any_case=True
    )
    mentioned = []
    for match in _LETTER_ALONE.finditer(stripped):
        if match[1] not in letters or _NEGATED.search(stripped[max(0, match.start() - 24) : match.start()]):
            continue
        alone = match[1] not in "AI" or _LETTER_CUE.search(
            stripped[max(0, match.start() - 24) : match.start()]
        )
        alone = alone or _ANOTHER_LETTER.match(stripped, match.end())
        ends = not stripped[match.end() :].strip(" .,;:!)*\"'")
        opens = match.start() <= 3 and stripped[match.end() : match.end() + 2].strip(" ")[:1] in tuple(
            ".,;:)-–—*/"
        )
        if alone or ends or opens:
            mentioned.append(letters[match[1]])
    distinct = set(mentioned)
    if len(distinct) > 1:
        return None
    if distinct:
        letter = distinct.pop()
        return letter if named in (None, letter) else None
    return named


def field_line(text: str, names: Collection[str]) -> str | None:
    """What a line ``name: value`` gives for one of the answer's fields, without quotes and commas; the last counts.

    >>> field_line("Label: Sports\\nConfidence: 0.9", ["label"])
    'Sports'
    """
    alternatives = "|".join(re.escape(name).replace("_", "[ _]") for name in names)
    head = rf"^[ \t*_>-]{{0,8}}(?:final |predicted )?(?:{alternatives})[*_ ]{{0,4}}[:=][ \t*_\"']{{0,4}}"
    values = re.findall(rf"(?im){head}([^\n]{{1,300}})", text)
    return values[-1].strip(" \t*_\"',.}") or None if values else None
