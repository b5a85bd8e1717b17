"""Variables of a prompt as people write them, and which of them a table fills.

Read are ``{{ name }}``, ``{name}``, ``${name}``, ``$name``, ``<<name>>``, ``%(name)s``, ``%s`` and Jinja. What
is called as a column becomes ``{{ name }}``, which :func:`pcsuite.prompts.verbatim.fill_placeholders` fills; what is
left over and looks like a variable is an error: a model would be sent it to the letter. JSON, prices, formulas and code
are no variables.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from pcsuite.errors import PromptError, did_you_mean
from pcsuite.prompts.pieces import code_spans
from pcsuite.prompts.verbatim import INPUT_NAMES, jinja_names, placeholders

Style = Literal["double", "single", "dollar", "dollar braces", "angle", "percent", "positional", "statement"]
Braces = Literal["", "format", "mustache"]
"""What a file says of its braces: a template of ``str.format`` or of Mustache, or nothing."""
_NAME = r"[A-Za-z_][\w.\-]*"
_VARIABLE = re.compile(
    r"(?P<statement>\{%.*?%\}|\{\#.*?\#\})"
    r"|\{\{[-~]?[ \t]*(?P<double>[^{}\r\n]+?)[ \t]*[-~]?\}\}"
    r"|\$\{[ \t]*(?P<dollar_braces>[^{}\r\n]+?)[ \t]*\}"
    rf"|<<[ \t]*(?P<angle>{_NAME})[ \t]*>>"
    r"|%\((?P<percent>[^()\r\n]+)\)[-#0 +]*\d*(?:\.\d+)?[sdifgrax]"
    r"|(?<![\w%.])(?P<positional>%[sd])(?![\w%])"
    r"|(?<![\w$\\])\$(?P<dollar>[A-Za-z_]\w*)(?![\w$])"
    r"|(?<!\$)\{(?P<single>[^{}\r\n\"',;]+?)\}",
    re.S,
)
_PLAIN_NAME = re.compile(rf"{_NAME}\Z")
_EXPRESSION = re.compile(rf"({_NAME})[ \t]*(?:\||\(|\[).*\Z", re.S)
"""A variable with a filter, a call or an index: what Jinja computes."""
_SECTION = re.compile(r"[#/^>!&].*\Z|else\Z", re.S)
"""Control of Mustache and Handlebars, inside its braces."""
_SPEC = re.compile(
    rf"({_NAME})(?:![rsa])?(?::(?! )[^\w\s]?[<>=^]?[-+ ]?#?0?\d*[,_]?(?:\.\d+)?[bcdeEfFgGnosxX%]?)?\Z"
)
"""A field of ``str.format`` with a conversion or a format."""
_FORMULA = re.compile(r"(?:\\[A-Za-z]+|[\^_}])\Z")
"""What stands before a brace of LaTeX."""
_STYLES: Mapping[str, Style] = {
    "statement": "statement",
    "double": "double",
    "dollar_braces": "dollar braces",
    "angle": "angle",
    "percent": "percent",
    "positional": "positional",
    "dollar": "dollar",
    "single": "single",
}


class Variable(NamedTuple):
    """Something in a text that has the form of a variable."""

    name: str
    """What stands between its signs: ``ticket`` of ``{ticket}``."""
    written: str
    """As the text has it."""
    start: int
    style: Style
    in_code: bool
    """Whether it stands in code, fenced or in backticks."""

    @property
    def end(self) -> int:
        """Where the text goes on."""
        return self.start + len(self.written)

    def likely(self, text: str) -> bool:
        """Whether a reader would take it for a variable, if no column is called so."""
        if self.style == "statement":
            return True
        if self.style == "double":
            return bool(
                _PLAIN_NAME.match(self.name) or _EXPRESSION.match(self.name) or _SECTION.match(self.name)
            )
        line = text[text.rfind("\n", 0, self.start) + 1 :].split("\n", 1)[0].strip()
        if self.in_code and line != self.written:
            return False
        if self.style == "single":
            if _FORMULA.search(text[max(0, self.start - 24) : self.start]):
                return False
            around = text[self.start - 1 : self.start] + text[self.end : self.end + 1]
            return bool(_SPEC.match(self.name) or _EXPRESSION.match(self.name)) and around != "{}"
        if self.style == "angle":
            return f"<</{self.name}>>" not in text and " " not in self.written
        if self.style == "dollar braces":
            return bool(_PLAIN_NAME.match(self.name) or _EXPRESSION.match(self.name))
        return True


class VariableError(PromptError):
    """A variable that cannot be filled, with the number of lines before it."""

    def __init__(self, lines_before: int, problem: str, hint: str | None = None) -> None:
        super().__init__(problem, hint=hint)
        self.lines_before, self.problem, self.remedy = lines_before, problem, hint


def variables(text: str) -> list[Variable]:
    """Everything in a text that has the form of a variable, in order, whether or not it is one.

    >>> [(one.name, one.style) for one in variables("{{ a }} {b} ${c} $d <<e>> %(f)s costs $5")]
    [('a', 'double'), ('b', 'single'), ('c', 'dollar braces'), ('d', 'dollar'), ('e', 'angle'), ('f', 'percent')]
    """
    spans = code_spans(text)
    listed = []
    for match in _VARIABLE.finditer(text):
        group = match.lastgroup or ""
        in_code = any(start <= match.start() < end for start, end in spans)
        listed.append(Variable(match.group(group), match.group(), match.start(), _STYLES[group], in_code))
    return listed


def has_variables(text: str) -> bool:
    """Whether anything in a text looks like a variable."""
    return any(one.likely(text) for one in variables(text))


@dataclass(frozen=True, slots=True)
class FilledText:
    """A text whose variables are ready to be filled."""

    text: str
    """With ``{{ column }}`` where a column goes, else as it is sent."""
    names: frozenset[str]
    """The columns (or names of the input) that it shows."""
    jinja: bool = False
    """Whether it is a template of Jinja, rendered for each item."""


@dataclass(frozen=True, slots=True)
class Filling:
    """How the variables of one prompt are filled: by which names, and which words are meant to the letter."""

    known: frozenset[str]
    literal: frozenset[str]
    braces: Braces = ""
    """``format`` where the prompt is a template of ``str.format``: doubled braces are sent as single ones."""
    dollars: bool = False
    """Whether it is one of ``string.Template``: ``$$`` is sent as ``$``."""
    percents: bool = False
    """Whether it is filled by ``%``: ``%%`` is sent as ``%``."""
    declared: bool = False
    """Whether the file itself says what its braces are; else they are concluded, and what is doubtful is refused."""

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        columns: Iterable[str],
        literal: Iterable[str] = (),
        braces: Braces = "",
        also: Iterable[str] = (),
    ) -> Filling:
        """What the texts of a prompt, all of them, say about how they are filled.

        ``also`` are further words that can be meant to the letter: what a program's text has between its braces.
        Raises ``PromptError`` for a literal word that none of them has, and for several ``%s``.
        """
        words = frozenset(literal)
        known = frozenset({*columns, *INPUT_NAMES})
        listed = [one for text in texts for one in variables(text)]
        for word in words:
            if word not in also and not any(word in (one.name, one.written) for one in listed):
                spelled = sorted({one.name for one in listed})
                raise PromptError(
                    f"--literal {word}: the prompt has no such variable",
                    hint=did_you_mean(word, spelled) if spelled else None,
                )
        filled = {one.style for one in listed if one.name in known - words}
        positional = [one for one in listed if one.style == "positional" and one.written not in words]
        positional = [one for one in positional if not one.in_code]
        if len(positional) > 1:
            raise PromptError(
                f"{len(positional)} times {positional[0].written}: which column goes where?",
                hint="name them, such as %(column)s, or keep them with --literal %s",
            )
        single = "single" in filled and "double" not in filled
        declared = bool(braces)
        if not braces and single and all(_is_format(text, known | words) for text in texts):
            braces = "format"
        return cls(
            known,
            words,
            braces,
            dollars=bool({"dollar", "dollar braces"} & filled) and all(map(_is_dollar_template, texts)),
            percents=bool(positional or "percent" in filled) and all(map(_is_percent_template, texts)),
            declared=declared,
        )

    def fill(self, text: str) -> FilledText:
        """The text with its variables ready; raises :class:`VariableError` for what cannot be filled."""
        if self.braces == "format":
            return self._fill_format(text)
        if is_jinja(text) and self.braces != "mustache":
            return self._fill_jinja(text)
        parts, names, position = [], set(), 0
        for one in variables(text):
            column = self._column(one)
            if column is None:
                self._refuse_leftover(one, text)
                continue
            shown = one.written if one.style == "double" else f"{{{{ {column} }}}}"
            parts += [self._unescaped(text[position : one.start]), shown]
            names.add(column)
            position = one.end
        parts.append(self._unescaped(text[position:]))
        filled = "".join(parts)
        self._refuse_filled(filled, names)
        return FilledText(filled, frozenset(names))

    def unfilled(self, text: str) -> FilledText:
        """A text that is no template, as it is; raises ``PromptError`` where a column would be put into it."""
        self._refuse_filled(text, set())
        return FilledText(text, frozenset())

    def _refuse_filled(self, text: str, names: set[str]) -> None:
        """Raise where a text that is sent has the place of a column beyond those that are meant."""
        for one in placeholders(text):
            if one.name in self.known - names:
                raise PromptError(
                    f"{{{{ {one.name} }}}} is meant to the letter, and a column is called so",
                    hint="give the column another name",
                )

    def _column(self, one: Variable) -> str | None:
        """The column that a variable shows; ``None`` for one that no column is for."""
        if self._is_literal(one) or one.style == "statement":
            return None
        if one.style == "positional":
            return INPUT_NAMES[0] if not one.in_code else None
        if one.name in self.known:
            return one.name
        return None

    def _is_literal(self, one: Variable) -> bool:
        return one.name in self.literal or one.written in self.literal

    def _refuse_leftover(self, one: Variable, text: str) -> None:
        if self._is_literal(one) or not one.likely(text):
            return
        line = text.count("\n", 0, one.start)
        shown = " ".join(one.written.split())
        if one.style == "double" and _SECTION.match(one.name):
            raise VariableError(
                line,
                f"{shown} is a control of Mustache or Handlebars, which is not read",
                hint="write it as Jinja, {% if column %} … {% endif %}, or with plain {{ column }}s",
            )
        if one.style == "single" and (spec := _SPEC.match(one.name)) and spec.group(1) in self.known:
            raise VariableError(
                line,
                f"{shown} formats a value, and columns are put in as they are",
                hint=f"write {{{spec.group(1)}}}",
            )
        name = one.name.split("|")[0].split("(")[0].split("[")[0].split(":")[0].split("!")[0].strip()
        raise VariableError(
            line,
            f"no column for the variable {shown}",
            hint=f"{did_you_mean(name, sorted(self.known))}; or --literal {name} if it is meant so",
        )

    def _unescaped(self, text: str) -> str:
        text = text.replace("$$", "$") if self.dollars else text
        return text.replace("%%", "%") if self.percents else text

    def _fill_format(self, text: str) -> FilledText:
        """A template of ``str.format``: its fields, and doubled braces as single ones."""
        for one in () if self.declared else variables(text):
            if one.style == "double" and _PLAIN_NAME.match(one.name):
                self._refuse_leftover(one, text)
        parts: list[str] = []
        names: set[str] = set()
        plain = Filling(self.known, self.literal, "mustache", self.dollars, self.percents)
        try:
            fields = list(string.Formatter().parse(text))
        except ValueError as error:
            raise PromptError(
                f"it is a template of str.format and cannot be read: {error}",
                hint="double the braces that are meant so: {{ and }}",
            ) from None
        before = ""
        for words, name, spec, conversion in fields:
            before += words
            outside = plain.fill(_hidden(words))
            parts.append(_shown(outside.text))
            names |= outside.names
            if name is None:
                continue
            written = (
                "{" + name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}"
            )
            if name in self.literal or written in self.literal:
                parts.append(written)
            elif name not in self.known or spec or conversion:
                one = Variable(written[1:-1], written, len(before), "single", in_code=False)
                self._refuse_leftover(one, before + written)
                raise VariableError(
                    before.count("\n"),
                    f"no column for the variable {written}",
                    hint=f"double its braces if they are meant so: {{{written}}}",
                )
            else:
                parts.append(f"{{{{ {name} }}}}")
                names.add(name)
            before += written
        return FilledText("".join(parts), frozenset(names))

    def _fill_jinja(self, text: str) -> FilledText:
        """A template of Jinja, with variables of other styles and literal words written as Jinja has them."""
        parts, position = [], 0
        for one in variables(text):
            if one.style == "statement" or (one.style == "double" and not self._is_literal(one)):
                continue
            column = self._column(one)
            if column is None and not self._is_literal(one):
                self._refuse_leftover(one, text)
            if column is None and one.style != "double":
                continue
            raw = f"{{% raw %}}{one.written}{{% endraw %}}"
            parts += [text[position : one.start], raw if column is None else f"{{{{ {column} }}}}"]
            position = one.end
        template = "".join([*parts, text[position:]])
        names = jinja_names(template)
        for name in sorted(names - self.known):
            start = re.search(rf"\b{re.escape(name)}\b", text)
            raise VariableError(
                text.count("\n", 0, start.start() if start else 0),
                f"no column for the variable {name} of the template",
                hint=did_you_mean(name, sorted(self.known)),
            )
        return FilledText(template, frozenset(names), jinja=True)


_BRACES = str.maketrans({"{": "\ue000", "}": "\ue001"})


def _hidden(text: str) -> str:
    """A literal part of a format template, its braces out of sight: they are no variables."""
    return text.translate(_BRACES)


def _shown(text: str) -> str:
    return text.replace("\ue000", "{").replace("\ue001", "}")


def is_jinja(text: str) -> bool:
    """Whether a text has what only Jinja understands: a statement, a comment, or a variable with a filter or a call."""
    return any(
        one.style == "statement" or (one.style == "double" and bool(_EXPRESSION.match(one.name)))
        for one in variables(text)
    )


def _is_format(text: str, names: frozenset[str]) -> bool:
    """Whether ``str.format`` takes a text: braces are doubled, or hold one of the names.

    Without a doubled brace there is nothing to tell, and a plain search for the names does the same.
    """
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        return False
    return all(name is None or name in names for _, name, _, _ in fields)


@lru_cache(maxsize=256)
def _is_dollar_template(text: str) -> bool:
    return all(match.group("invalid") is None for match in string.Template.pattern.finditer(text))


def _is_percent_template(text: str) -> bool:
    """Whether every ``%`` of a text is one that ``%`` fills, or doubled."""
    rest = re.sub(r"%%|%\([^()\r\n]+\)[-#0 +]*\d*(?:\.\d+)?[sdifgrax]|%[sd](?!\w)", "", text)
    return "%" not in rest
