"""Files of tools: the description of each tool and of each of its parameters is a block; names and types stay.

Read are the forms of OpenAI (chat completions, responses, the older ``functions``), of Anthropic, of Gemini
(``functionDeclarations``), of Bedrock (``toolSpec``), of Cohere and of MCP's ``tools/list``. A description that is left
out goes with its key: in every one of these forms the key may be missing, while an empty text is still
something that a model sees, and that a service may refuse.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pcsuite.config.yaml_source import load_yaml
from pcsuite.errors import ConfigError, PromptError
from pcsuite.prompts.pieces import Piece
from pcsuite.prompts.sources import Kept, PromptSource, PromptText
from pcsuite.prompts.trees import Node, document_tree, line_end, node_at

DESCRIPTION = "description"
"""The key whose words can go, and the kind of block that it is."""
STRUCTURE = "structure"
"""The kind of what stands between descriptions and stays."""
_DECLARED = ("functionDeclarations", "function_declarations")
"""Keys below which an entry of Gemini's list has its tools."""
_HOLDERS = ("tools", "result", "toolConfig", "tool_config", "functions", *_DECLARED)
"""Keys below which a document has its tools."""
_WRAPPED = ("function", "toolSpec", "tool_spec")
"""Keys of an entry below which the tool itself stands."""
_PARAMETERS = "parameter_definitions"
_OUTPUTS = ("outputSchema", "response", "responseJsonSchema", "response_json_schema")
_SCHEMAS = (
    "parameters", "parametersJsonSchema", "parameters_json_schema", "input_schema", "inputSchema", _PARAMETERS,
    *_OUTPUTS,
)  # fmt: skip
_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", _PARAMETERS)
_LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER_SCHEMAS = (
    "items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_PROMPT_KEYS = frozenset(
    {
        "messages",
        "contents",
        "systemInstruction",
        "system_instruction",
        "prompts",
        "prompt",
        "template",
        "instructions",
        "system",
        "system_prompt",
        "input",
        "role",
        "raw",
    }
)
"""Keys of a request or a configuration that holds a prompt beside its tools: the prompt is what is meant."""
_WORDS = re.compile(r'(.*?"description"[ \t\r\n]*:[ \t\r\n]*)("(?:[^"\\]|\\.)*")(.*)\Z', re.S)


class _Description(NamedTuple):
    """A description and where it stands: which entry of which map."""

    name: str
    """The tool, then the parameter with those that it is inside of."""
    parent: Node
    entry: int

    @property
    def line(self) -> int:
        return self.parent.children[self.entry][1].line

    def cut(self, original: str, *, in_json: bool) -> tuple[int, int, str]:
        """From where to where it goes from a document, with its key and its comma, and what stands there then."""
        parent, key = self.parent, self.parent.keys[self.entry]
        nodes = [node for _, node in parent.children]
        node = nodes[self.entry]
        if node.start < key:
            raise PromptError(
                f"line {parent.line}: the description is an alias of another one", hint="write it out"
            )
        if not in_json and not parent.flow:
            if len(nodes) == 1:  # what is left must be a map still
                return key, key + len(original[key : node.end].rstrip()), "{}"
            begins = max(original.rfind("\n", 0, key), original.rfind("\r", 0, key)) + 1
            if not original[begins:key].strip():
                return begins, line_end(original, node.end), ""
        if self.entry + 1 < len(nodes):
            return key, parent.keys[self.entry + 1], ""
        # The last of several: the comma before it goes too.
        return (original.rfind(",", 0, key) if self.entry else key), node.end, ""


@dataclass(frozen=True)
class ToolsSource(PromptSource):
    """The tools of a file. A model gets them as JSON: a JSON file as it is written, a YAML file as what it says."""

    name: str = ""
    """Where in the file they are, if not at its top."""
    _text: PromptText = field(default=PromptText(""), compare=False)
    _cuts: tuple[tuple[int, int, str], ...] = field(default=(), compare=False)
    """By description, in order: what goes from the file when it is left out."""

    @classmethod
    def read(cls, original: str, suffix: str, name: str = "") -> ToolsSource | None:
        """The tools of a document or of a place in it; ``None`` where it has none, or a prompt beside them.

        Raises ``PromptError`` where no description can be left out.
        """
        root = document_tree(original, suffix)
        node = node_at(root, name) if name else root
        tools = _tools_of(node)
        if tools is None:
            return None
        found = _descriptions(tools)
        if not found:
            raise PromptError("none of the tools has a description", hint="there is nothing to leave out")
        in_json = suffix == ".json"
        cuts = tuple(one.cut(original, in_json=in_json) for one in found)
        if len({start for start, _, _ in cuts}) < len(cuts):
            raise PromptError("a description belongs to two tools by an alias", hint="write it out")
        if in_json:
            start, end = (node.start, node.end) if name else (0, len(original))
            text, shown = original[start:end], found
            spans = [(first - start, last - start) for first, last, _ in cuts]
        else:
            text = _as_json(original, node)
            shown = _descriptions(_tools_of(document_tree(text, ".json")) or ())
            spans = [one.cut(text, in_json=True)[:2] for one in shown]
        if [one.name for one in shown] != [one.name for one in found]:
            raise PromptError("merged maps (<<) hide where a description stands", hint="write them out")
        parts = tuple(_parts(text, found, spans))
        words = f"at the {len(found)} descriptions of its {len(tools)} tools"
        return cls(original, suffix, name, PromptText(text, line=node.line, parts=parts, parted=words), cuts)

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The tools as JSON."""
        return (self._text,)

    @property
    def to_the_letter(self) -> bool:
        """Tools are no template: braces and dollar signs of a schema are its own."""
        return True

    def _written(self, kept: Kept) -> str:
        spans, position, edits = kept.get(0, ()), 0, []
        cuts = iter(self._cuts)
        for part in self._text.parts:
            end = position + len(part.text)
            if part.kind == DESCRIPTION:
                cut = next(cuts)
                if not any(first <= position and end <= last for first, last in spans):
                    edits.append(cut)
            position = end
        result = self.original
        for start, end, words in sorted(edits, reverse=True):
            result = result[:start] + words + result[end:]
        if _value(result, self.suffix, self.name) != json.loads(self.remaining(kept)[0]):
            raise PromptError(
                "the file cannot be written without one of its descriptions", hint="write it as JSON"
            )
        return result


def with_words(text: str, change: Callable[[str], str]) -> str:
    """A description's block with other words: its key, its comma and the quotes stay.

    >>> with_words('"description": "Say\\\\nhi.", ', str.upper)
    '"description": "SAY\\\\nHI.", '
    """
    match = _WORDS.match(text)
    assert match is not None, "a description's block has its key and its text"
    before, words, after = match.groups()
    return before + json.dumps(change(json.loads(words, strict=False)), ensure_ascii=words.isascii()) + after


# Where tools and their descriptions are.


def _tools_of(node: Node) -> tuple[Node, ...] | None:
    """The tools that a node holds: a list of them, one of them, or a map (an answer of MCP) with ``tools``.

    An entry of a list may itself hold several, as Gemini's do.
    """
    if node.kind == "map":
        if _has_prompt(node):
            return None
        if _is_function(node):
            return (node,)
        return next((tools for key in _HOLDERS if (tools := _tools_below(node, key)) is not None), None)
    entries: list[Node] = []
    for _, child in node.children:
        entries += next((held for key in _DECLARED if (held := _tools_below(child, key))), (child,))
    # Tools that a service brings itself, such as a web search, stand among them without words.
    if not any(_is_function(entry) for entry in entries):
        return None
    return None if any(entry.kind != "map" or _has_prompt(entry) for entry in entries) else tuple(entries)


def _tools_below(node: Node, key: str) -> tuple[Node, ...] | None:
    inner = node.get(key) if node.kind == "map" else None
    return None if inner is None else _tools_of(inner)


def _function_of(node: Node) -> Node:
    """The tool itself: the entry, or what it wraps."""
    wrapped = (node.get(key) for key in _WRAPPED)
    return next((inner for inner in wrapped if inner is not None and inner.kind == "map"), node)


def _has_prompt(node: Node) -> bool:
    return not _PROMPT_KEYS.isdisjoint(key for key, _ in node.children)


def _is_function(node: Node) -> bool:
    inner = _function_of(node)
    if inner is not node:
        return bool(inner.text("name"))
    schemas = (node.get(key) for key in _SCHEMAS)
    described = node.text("type") == "function" or any(
        one is not None and one.kind == "map" for one in schemas
    )
    return bool(node.text("name")) and described


def _descriptions(tools: Sequence[Node]) -> list[_Description]:
    """Every description that has words, in the order in which they stand."""
    found: list[_Description] = []
    for tool in tools:
        function = _function_of(tool)
        name = function.text("name") or function.text("type")
        found += _own(function, name)
        found += _of_named([(key, value) for key, value in function.children if key == _PARAMETERS], name)
        for key in _SCHEMAS:
            if key != _PARAMETERS and (schema := function.get(key)) is not None:
                # Bedrock's stand one level deeper, below the language that they are in.
                inner = schema.get("json") if schema.kind == "map" and len(schema.children) == 1 else None
                whose = f"{name} output" if key in _OUTPUTS else name
                found += _of_schema(inner or schema, whose, top=True)
    return sorted(found, key=lambda one: one.parent.keys[one.entry])


def _own(node: Node, name: str) -> Iterator[_Description]:
    count = Counter(key for key, _ in node.children)[DESCRIPTION]
    if count > 1:
        raise PromptError(f"line {node.line}: '{name}' has {count} descriptions", hint="keep one of them")
    if node.text(DESCRIPTION).strip():
        yield _Description(name, node, [key for key, _ in node.children].index(DESCRIPTION))


def _of_schema(schema: Node, name: str, *, top: bool = False) -> Iterator[_Description]:
    """Descriptions of a schema and of those inside of it; a parameter may itself be called ``description``."""
    if schema.kind != "map":
        return
    yield from _own(schema, f"{name} parameters" if top else name)
    yield from _of_named(schema.children, name)
    for key, value in schema.children:
        if key in _LISTED_SCHEMAS or (key == "items" and value.kind == "list"):
            for number, node in value.children:
                yield from _of_schema(node, f"{name} {number}")
        elif key in _INNER_SCHEMAS:
            yield from _of_schema(value, f"{name} {key}")


def _of_named(children: Sequence[tuple[str, Node]], name: str) -> Iterator[_Description]:
    """Descriptions of the schemas that have names, such as parameters."""
    for key, value in children:
        if key in _NAMED_SCHEMAS and value.kind == "map":
            for inner, node in value.children:
                yield from _of_schema(node, f"{name} {inner}")


def _parts(text: str, found: Sequence[_Description], spans: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    position = 0
    for one, (start, end) in zip(found, spans, strict=True):
        yield Piece(text[position:start], STRUCTURE, STRUCTURE, "names and types stay")
        yield Piece(text[start:end], one.name, DESCRIPTION, line=one.line)
        position = end
    yield Piece(text[position:], STRUCTURE, STRUCTURE, "names and types stay")


def _as_json(original: str, node: Node) -> str:
    """What a node of YAML says, as JSON: comments, anchors and styles are the file's, not the tools'."""
    begins = max(original.rfind("\n", 0, node.start), original.rfind("\r", 0, node.start)) + 1
    try:
        value = load_yaml(" " * (node.start - begins) + original[node.start : node.end], "tools")
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (ConfigError, TypeError, ValueError) as error:
        problem = str(error).splitlines()[0]
        raise PromptError(f"line {node.line}: the tools cannot be said in JSON: {problem}") from error


def _value(original: str, suffix: str, name: str) -> object:
    """The tools of a file as a value; ``None`` where they can no longer be read."""
    try:
        root = document_tree(original, suffix)
        node = node_at(root, name) if name else root
        text = original[node.start : node.end] if suffix == ".json" else _as_json(original, node)
        return json.loads(text)
    except PromptError:
        return None
