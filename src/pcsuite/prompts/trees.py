"""YAML and JSON as a tree whose nodes know where they stand, so that a part can go and every other byte stays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

import yaml

from pcsuite.errors import PromptError, did_you_mean


@dataclass(frozen=True)
class Node:
    """A value of a document and its place."""

    kind: Literal["map", "list", "text", "other"]
    start: int
    end: int
    line: int
    value: str = ""
    """Of a text: what it says."""
    style: str = ""
    """Of a text in YAML: ``|``, ``>``, ``"``, ``'`` or nothing."""
    flow: bool = True
    """Of a list: whether it stands in brackets."""
    children: tuple[tuple[str, Node], ...] = ()
    """Of a map: its values by their keys; of a list: its entries by their numbers from 1."""

    keys: tuple[int, ...] = ()
    """Of a map: where each key begins."""

    def get(self, key: str) -> Node | None:
        """The value of a key."""
        return next((node for name, node in self.children if name == key), None)

    def text(self, key: str) -> str:
        """The value of a key that is a text; empty for any other."""
        node = self.get(key)
        return node.value if node is not None and node.kind == "text" else ""


def document_tree(original: str, suffix: str) -> Node:
    """The tree of a document, JSON where its file ends so, else YAML; a ``PromptError`` where it is neither."""
    return _json_tree(original) if suffix == ".json" else _yaml_tree(original)


def node_at(root: Node, name: str) -> Node:
    """The node that a dotted name leads to; entries of a list by their number from 1, or by their label or name.

    Raises ``PromptError`` where there is none.
    """
    node, rest = root, name
    if (
        root.kind == "map"
        and (prompts := root.get("prompts")) is not None
        and root.get(name.split(".")[0]) is None
    ):
        node = prompts  # of promptfoo
    while rest:
        steps = dict(node.children)
        if node.kind == "list":
            steps |= {
                label: child
                for _, child in node.children
                if (label := child.text("label") or child.text("name"))
            }
        key = max((key for key in steps if rest == key or rest.startswith(f"{key}.")), key=len, default=None)
        if key is None:
            hint = did_you_mean(rest, list(steps)) if steps else None
            raise PromptError(f"there is no '{name}' in it", hint=hint)
        node, rest = steps[key], rest[len(key) + 1 :]
    return node


def last_end(node: Node) -> int:
    """Where the words of a node end: a map of YAML ends only where the next thing begins."""
    return last_end(node.children[-1][1]) if node.children and not node.flow else node.end


def line_end(original: str, position: int) -> int:
    """Where the line ends that goes on at a place, its line end included; a place below a line end is one."""
    if position and original[position - 1] in "\r\n":
        return position
    match = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)").match(original, position)
    return match.end() if match else position


def _yaml_tree(text: str) -> Node:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise PromptError(f"{where}not valid YAML: {problem}") from error
    except RecursionError:
        raise PromptError("not valid YAML: it is nested too deeply") from None
    if root is None:
        raise PromptError("the prompt is empty")
    return _yaml_node(root, text, ())


def _yaml_node(node: yaml.Node, text: str, above: tuple[int, ...]) -> Node:
    place = (node.start_mark.index, node.end_mark.index, node.start_mark.line + 1)
    if id(node) in above:
        raise PromptError(f"line {place[2]}: the document contains itself")
    below = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        pairs = tuple((str(key.value), _yaml_node(value, text, below)) for key, value in node.value)
        keys = tuple(key.start_mark.index for key, _ in node.value)
        return Node("map", *place, children=pairs, keys=keys, flow=bool(node.flow_style))
    if isinstance(node, yaml.SequenceNode):
        entries = tuple(
            (str(n), _yaml_node(value, text, below)) for n, value in enumerate(node.value, start=1)
        )
        return Node("list", *place, children=entries, flow=bool(node.flow_style))
    assert isinstance(node, yaml.ScalarNode), "a node is a map, a list or a scalar"
    is_text = node.tag == "tag:yaml.org,2002:str"
    # An anchor or a tag stands before the text and stays.
    properties = _PROPERTIES.match(text, node.start_mark.index)
    place = (properties.end() if properties else place[0], *place[1:])
    return Node("text" if is_text else "other", *place, value=str(node.value), style=node.style or "")


_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+")


def _json_tree(text: str) -> Node:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise PromptError(f"line {error.lineno}: not valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise PromptError(f"not valid JSON: {str(error).splitlines()[0]}") from error
    return _json_node(text, 0)[0]


_SPACE = re.compile(r"[ \t\r\n]*")
_OTHER = re.compile(r"[^,\]\}\s]+")


def _json_node(text: str, start: int) -> tuple[Node, int]:
    """The value that begins at or after a place of a text that is known to be JSON, and where it ends."""

    def skip(index: int) -> int:
        match = _SPACE.match(text, index)
        return match.end() if match else index

    start = skip(start)
    line = text.count("\n", 0, start) + 1
    if text[start] == '"':
        value, end = json.decoder.scanstring(text, start + 1)  # type: ignore[attr-defined]
        return Node("text", start, end, line, value=value, style='"'), end
    if text[start] not in "[{":
        match = _OTHER.match(text, start)
        end = match.end() if match else start + 1
        return Node("other", start, end, line), end
    closing = {"[": "]", "{": "}"}[text[start]]
    children: list[tuple[str, Node]] = []
    keys: list[int] = []
    index = skip(start + 1)
    while text[index] != closing:
        key = str(len(children) + 1)
        if closing == "}":
            keys.append(index)
            key, index = json.decoder.scanstring(text, index + 1)  # type: ignore[attr-defined]
            index = skip(index) + 1
        child, index = _json_node(text, index)
        children.append((key, child))
        index = skip(index)
        index = skip(index + 1) if text[index] == "," else index
    kind: Literal["map", "list"] = "map" if closing == "}" else "list"
    return Node(kind, start, index + 1, line, children=tuple(children), keys=tuple(keys)), index + 1
