"""Configurations of MCP servers: each server is a block, with its entry or without it; everything else stays.

Read are the maps that clients have under ``mcpServers``, ``servers``, ``context_servers`` and ``mcp`` in JSON, and the
tables ``[mcp_servers.NAME]`` of TOML.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from pcsuite.errors import PromptError
from pcsuite.prompts.pieces import Piece
from pcsuite.prompts.sources import Kept, PromptSource, PromptText
from pcsuite.prompts.trees import Node, document_tree
from pcsuite.prompts.verbatim import without_dangling_commas

SERVER = "server"
"""The kind of block that a server is."""
_STAYS = "structure"
_KEYS = ("mcpServers", "servers", "context_servers", "mcp")
_HOW = ("command", "url", "httpUrl", "serverUrl", "args")
"""Keys of a server's entry, one of which says how it is reached."""
_TABLE = re.compile(
    r"[ \t]*\[+[ \t]*(?:mcp_servers|\"mcp_servers\")[ \t]*\.[ \t]*(\"[^\"\n]+\"|'[^'\n]+'|[\w-]+)"
)
_ANY_TABLE = re.compile(r"[ \t]*\[+[ \t]*[\w\"'-]")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_KEPT_VALUES = ("type", "transport")
"""Keys whose value says of what kind an entry is: without it, it would be none."""


@dataclass(frozen=True)
class ServersSource(PromptSource):
    """A configuration of servers, sent and placed as it is written."""

    _text: PromptText = field(default=PromptText(""), compare=False)

    @classmethod
    def read(cls, original: str, suffix: str) -> ServersSource | None:
        """The servers of a configuration; ``None`` where it has none."""
        parts = _toml_parts(original) if suffix == ".toml" else _json_parts(original)
        count = sum(part.kind == SERVER for part in parts)
        if not count:
            return None
        words = f"at its {count} servers" if count > 1 else "at its one server"
        return cls(original, suffix, PromptText(original, parts=tuple(parts), parted=words))

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The configuration."""
        return (self._text,)

    @property
    def to_the_letter(self) -> bool:
        """A configuration is no template: what looks like a variable is the client's."""
        return True

    def _written(self, kept: Kept) -> str:
        (text,) = self.remaining(kept)
        if self.suffix == ".toml":
            return text
        text = without_dangling_commas(text)
        json.loads(text)
        return text


def _json_parts(original: str) -> list[Piece]:
    servers = _servers_of(document_tree(original, ".json"))
    if servers is None:
        return []
    nodes = [node for _, node in servers.children]
    parts, position = [], 0
    for index, (name, node) in enumerate(servers.children):
        start = servers.keys[index]
        # An entry goes with the comma after it; that before the last is removed where the file is written.
        end = servers.keys[index + 1] if index + 1 < len(nodes) else node.end
        if position < start:
            parts.append(Piece(original[position:start], _STAYS, _STAYS, "what is around the servers stays"))
        parts.append(Piece(original[start:end], name, SERVER, line=node.line))
        position = end
    return [*parts, Piece(original[position:], _STAYS, _STAYS, "what is around the servers stays")]


def _servers_of(root: Node) -> Node | None:
    if root.kind != "map":
        return None
    for key in _KEYS:
        entry = root.get(key)
        inner = entry.get("servers") if entry is not None and entry.kind == "map" else None
        for node in (entry, inner):
            if node is not None and node.kind == "map" and node.children:
                entries = [child for _, child in node.children]
                if all(one.kind == "map" and any(one.get(how) for how in _HOW) for one in entries):
                    return node
    return None


def _toml_parts(original: str) -> list[Piece]:
    parts: list[Piece] = []
    current, name, line, tables = "", "", 1, set[str]()
    for number, text in enumerate(re.findall(r"[^\n]*\n|[^\n]+\Z", original), start=1):
        table = _TABLE.match(text)
        opened = table.group(1).strip("\"'") if table else "" if _ANY_TABLE.match(text) else name
        if opened != name:
            parts += _toml_part(current, name, line)
            if opened and opened in tables:
                raise PromptError(f"line {number}: the tables of server '{opened}' do not stand together")
            tables.add(opened)
            current, name, line = "", opened, number
        current += text
    parts += _toml_part(current, name, line)
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            known = tomllib.loads(original).get("mcp_servers", {})
        except tomllib.TOMLDecodeError as error:
            raise PromptError(f"not valid TOML: {error}") from error
        if set(known) != {part.title for part in parts if part.kind == SERVER}:
            raise PromptError(
                "the servers of the file cannot be told apart", hint="write [mcp_servers.NAME] for each"
            )
    return parts


def _toml_part(text: str, name: str, line: int) -> Iterator[Piece]:
    if text:
        yield (
            Piece(text, name, SERVER, line=line)
            if name
            else Piece(text, _STAYS, _STAYS, "what is around the servers stays")
        )


def with_other_words(text: str, change: dict[str, str]) -> str:
    """A server's entry whose texts are replaced by ``change``, keys and what kind of entry it is kept."""
    return _STRING.sub(lambda match: change.get(match.group(), match.group()), text)


def texts_of_entry(text: str) -> list[str]:
    """The quoted texts of a server's entry that a sham replaces: its name and its values, no keys.

    >>> texts_of_entry('"git": {"type": "stdio", "command": "uvx", "args": ["x"]}, ')
    ['"git"', '"uvx"', '"x"']
    """
    texts: list[str] = []
    key = ""
    for match in _STRING.finditer(text):
        is_key = text[match.end() :].lstrip()[:1] == ":"
        if (is_key and not texts and not key) or (not is_key and key not in _KEPT_VALUES):
            texts.append(match.group())
        key = match.group()[1:-1] if is_key else key
    return texts
