"""Prompts in YAML and JSON: chats, promptfoo configurations, exports of LangChain, LangSmith and Langfuse.

A document is read as a tree whose nodes know where they stand, so that a text can be replaced, or a message taken out,
and every other byte stays: comments, order, indentation, the style of each text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pcsuite.errors import PromptError, did_you_mean
from pcsuite.prompts.sources import Kept, PromptSource, PromptText
from pcsuite.prompts.trees import Node, document_tree, last_end, line_end, node_at
from pcsuite.prompts.variables import Braces
from pcsuite.prompts.verbatim import ROLES


class _Message(NamedTuple):
    """A text of a document that is sent, and the entry of a list that it stands for."""

    node: Node
    role: str = ""
    block: str = ""
    entry: tuple[Node, int] | None = None


class _Prompt(NamedTuple):
    messages: tuple[_Message, ...]
    braces: Braces = ""


@dataclass(frozen=True)
class DocumentSource(PromptSource):
    """A prompt in a YAML or JSON document."""

    name: str = ""
    """Which of the document's prompts, where it has several."""
    _prompt: _Prompt = field(default=_Prompt(()), compare=False)

    @classmethod
    def read(cls, original: str, suffix: str, name: str = "") -> DocumentSource:
        """The prompt of that name in a document; raises ``PromptError`` where there is none, or more than one."""
        root = document_tree(original, suffix)
        node = root if not name else node_at(root, name)
        return cls(original, suffix, name, _prompt_at(node, named=bool(name)))

    @cached_property
    def _texts(self) -> tuple[PromptText, ...]:
        texts = []
        for message in self._prompt.messages:
            node, below = message.node, message.node.style in ("|", ">")
            texts.append(
                PromptText(node.value, message.role, node.line + below, message.block, inline=not below)
            )
        return tuple(texts)

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The messages of the chat, or the text."""
        return self._texts

    @property
    def braces(self) -> Braces:
        """What the document says of its braces, such as ``template_format: f-string``."""
        return self._prompt.braces

    def _written(self, kept: Kept) -> str:
        expected = self.remaining(kept)
        for quoted in (False, True):
            text = self._edited(kept, quoted=quoted)
            try:
                again = DocumentSource.read(text, self.suffix, self.name)
            except PromptError:
                continue
            if again.remaining({n: [(0, len(t.text))] for n, t in enumerate(again.texts)}) == expected:
                return text
        raise PromptError("the document cannot be written with a part of its text left out")

    def _edited(self, kept: Kept, *, quoted: bool) -> str:
        edits: list[tuple[int, int, str]] = []
        gone: dict[int, tuple[Node, list[int]]] = {}
        for number, message in enumerate(self._prompt.messages):
            text = "".join(message.node.value[a:b] for a, b in kept.get(number, ()))
            if text == message.node.value:
                continue
            if not text and message.entry is not None:
                entries, index = message.entry
                gone.setdefault(entries.start, (entries, []))[1].append(index)
            else:
                written = _scalar(self.original, message.node, text, self.suffix, quoted=quoted)
                edits.append((message.node.start, message.node.end, written))
        for entries, indices in gone.values():
            edits += [(*span, "") for span in _entry_spans(self.original, entries, indices)]
        result = self.original
        for start, end, words in sorted(edits, reverse=True):
            result = result[:start] + words + result[end:]
        return result


def referred_file(source: PromptSource) -> Path | None:
    """The file that a promptfoo entry such as ``file://prompt.md`` names; ``None`` for a prompt that is text itself."""
    if len(source.texts) != 1 or not source.texts[0].text.startswith("file://"):
        return None
    return Path(source.texts[0].text.removeprefix("file://").strip())


# What is a prompt in a document.

_NO_CHAT = "a chat prompt is a list of messages, each with 'role' and 'content'"
_LANGCHAIN_ROLES = {
    "system": "system", "human": "user", "user": "user", "ai": "assistant", "assistant": "assistant",
    "developer": "developer", "tool": "tool",
}  # fmt: skip
_PROMPT_KEYS = ("prompt", "template", "system_prompt", "instructions", "system", "content", "text")
_LISTED = 6


def _prompt_at(node: Node, *, named: bool) -> _Prompt:
    """The prompt that a node is, or that it holds as its only one."""
    if node.kind == "text":
        if node.value.lstrip().startswith("[{") and '"role"' in node.value:
            raise PromptError(
                "the prompt is a chat written as one text", hint="put its messages into a file of their own"
            )
        if not node.value.strip():
            raise PromptError("the prompt is empty")
        return _Prompt((_Message(node),))
    if node.kind == "list" and node.children:
        first = node.children[0][1]
        if (
            first.kind == "map"
            and first.get("role") is None
            and (first.get("prompt") or first.get("raw") or first.get("messages"))
        ):
            return _only(node)
        return _Prompt(tuple(_messages(node)))
    if node.kind != "map":
        raise PromptError(_NO_CHAT)
    if (kwargs := node.get("kwargs")) is not None and node.get("lc") is not None:
        return _langchain(kwargs)
    if node.text("_type").startswith("few_shot"):
        raise PromptError(
            "a few-shot template builds its text from a list", hint="write the examples out as messages"
        )
    braces: Braces = "format" if node.text("template_format") == "f-string" else ""
    braces = "mustache" if node.text("template_format") == "mustache" else braces
    if node.text("_type") == "prompt" and not braces:
        braces = "format"
    for key in ("messages", "raw"):
        if (inner := node.get(key)) is not None and inner.kind in ("list", "text"):
            return _prompt_at(inner, named=named)._replace(braces=braces)
    if (prompts := node.get("prompts")) is not None and prompts.kind == "list" and prompts.children:
        return _only(prompts)
    if node.get("system") is not None and node.text("user"):
        roles = [(name, child) for name, child in node.children if name in ROLES and child.value.strip()]
        return _Prompt(tuple(_Message(child, name) for name, child in roles), braces)
    if node.get("id") is not None and node.text("id").startswith("file://"):
        return _Prompt((_Message(node.get("id") or node),))
    for key in _PROMPT_KEYS:
        if (inner := node.get(key)) is not None and inner.kind in ("list", "text", "map"):
            prompt = _prompt_at(inner, named=named)
            return prompt if prompt.braces else prompt._replace(braces=braces)
    texts = _long_texts(node)
    hint = None
    if texts and not named:
        hint = f"or name a text of it after a colon: {', '.join(texts[:_LISTED])}"
    raise PromptError(_NO_CHAT, hint=hint)


def _only(prompts: Node) -> _Prompt:
    """The prompt of a list that has one."""
    if len(prompts.children) == 1:
        return _prompt_at(prompts.children[0][1], named=True)
    names = [child.text("label") or child.text("name") or number for number, child in prompts.children]
    raise PromptError(
        f"it has {len(names)} prompts", hint=f"name one after a colon: {', '.join(names[:_LISTED])}"
    )


def _messages(entries: Node) -> Iterator[_Message]:
    for index, (number, entry) in enumerate(entries.children):
        if entry.kind == "list" and len(entry.children) == 2 and entry.children[0][1].kind == "text":
            (_, role), (_, content) = entry.children  # as LangChain writes them
            roles = _LANGCHAIN_ROLES
            yield _message(
                f"line {entry.line}: ", number, roles.get(role.value, role.value), content, (entries, index)
            )
            continue
        if entry.kind == "map" and entry.text("type") == "placeholder":
            raise PromptError(
                f"line {entry.line}: message {number} is a placeholder for further messages ('{entry.text('name')}')",
                hint="take it out: an ablation asks one call an item",
            )
        if entry.kind != "map" or entry.get("role") is None or entry.get("content") is None:
            raise PromptError(
                f"line {entry.line}: message {number} needs 'role' and 'content'"
                if entry.kind == "map"
                else _NO_CHAT
            )
        content = entry.get("content") or entry
        if content.kind == "list" and len(content.children) == 1 and content.children[0][1].get("text"):
            content = content.children[0][1].get("text") or content
        where = f"line {entry.line}: "
        yield _message(where, number, entry.text("role"), content, (entries, index), entry.text("block"))


def _message(
    where: str, number: str, role: str, content: Node, entry: tuple[Node, int], block: str = ""
) -> _Message:
    if role not in ROLES:
        raise PromptError(
            f"{where}message {number} has the unknown role '{role}'", hint=did_you_mean(role, ROLES)
        )
    if content.kind != "text":
        raise PromptError(
            f"{where}the content of message {number} is no text", hint="images are not supported"
        )
    if not content.value.strip():
        raise PromptError(f"{where}message {number} ({role}) is empty", hint="give it words or remove it")
    return _Message(content, role, block, entry)


def _langchain(kwargs: Node) -> _Prompt:
    """A prompt as LangChain serialises it: a template, or the messages of a chat, each with a template of its own."""
    formats: set[str] = set()

    def template(node: Node) -> Node:
        inner = node
        while inner.get("kwargs") is not None:
            inner = inner.get("kwargs") or inner
        formats.add(inner.text("template_format") or "f-string")
        if (nested := inner.get("prompt")) is not None:
            return template(nested.children[0][1] if nested.kind == "list" and nested.children else nested)
        content = inner.get("template") or inner.get("content")
        if content is None or content.kind != "text":
            raise PromptError("a message of the LangChain prompt has no template that is a text")
        return content

    entries = kwargs.get("messages")
    if entries is None:
        messages = [_Message(template(kwargs))]
    else:
        messages = []
        for index, (number, entry) in enumerate(entries.children):
            identity = entry.get("id")
            kind = identity.children[-1][1].value if identity is not None and identity.children else ""
            role = next(
                (role for word, role in _LANGCHAIN_ROLES.items() if kind.casefold().startswith(word)), ""
            )
            if not role:
                raise PromptError(f"message {number} is a {kind or 'part'} of LangChain, which is not read")
            messages.append(_message(f"line {entry.line}: ", number, role, template(entry), (entries, index)))
    braces: Braces = "format" if "f-string" in formats else "mustache" if "mustache" in formats else ""
    return _Prompt(tuple(messages), braces)


def _long_texts(node: Node, path: str = "") -> list[str]:
    texts = []
    for name, child in node.children:
        where = f"{path}.{name}" if path else name
        if child.kind == "text" and ("\n" in child.value.strip() or len(child.value) > 60):
            texts.append(where)
        texts += _long_texts(child, where)
    return texts


# Writing.

_HEADER = re.compile(r"[|>]([1-9]?)[+-]?([1-9]?)([^\r\n]*)(\r\n|\n|\r|\Z)")


def _scalar(original: str, node: Node, text: str, suffix: str, *, quoted: bool) -> str:
    """A text as the document writes it: in the style of the node that it replaces, where that can say it."""
    if suffix == ".json":
        ascii_only = original.isascii()
        return json.dumps(text, ensure_ascii=ascii_only)
    if node.style in ("|", ">") and not quoted:
        return _block_scalar(original[node.start : node.end], text)
    if node.style == "'" and not quoted and "\n" not in text:
        return "'" + text.replace("'", "''") + "'"
    if not node.style and not quoted and re.fullmatch(r"[A-Za-z][\w .,;()/+-]*[\w.)]", text):
        return text
    escaped = json.dumps(text, ensure_ascii=False)
    for mark in "\x85\u2028\u2029\ufeff":
        escaped = escaped.replace(mark, f"\\u{ord(mark):04x}")
    written = escaped.replace("\x7f", "\\x7f")
    after = original[node.start : node.end]
    return written + (after[len(after.rstrip()) :] if node.style in ("|", ">") else "")


def _block_scalar(scalar: str, text: str) -> str:
    """A literal block (``|``) with another text: indentation, line ends and what follows it stay."""
    header = _HEADER.match(scalar)
    assert header is not None, "a block scalar begins with its header"
    end = header.group(4) or "\n"
    body = scalar[header.end() :]
    indent = next((re.match(r" *", line).group() for line in body.splitlines() if line.strip()), "  ")  # type: ignore[union-attr]
    digit = header.group(1) or header.group(2)
    if digit:
        indent = indent[: max(1, len(indent))]
    stripped = text.rstrip("\n")
    newlines = len(text) - len(stripped)
    chomp = "-" if newlines == 0 else "" if newlines == 1 else "+"
    lines = [indent + line if line else "" for line in stripped.split("\n")] + [""] * max(0, newlines - 1)
    tail = ""
    if chomp != "+":  # blank lines below belong to the file, not to the text
        tail = body[len(body.rstrip()) :]
        tail = tail[len(end) :] if tail.startswith(end) else tail
    return f"|{digit}{chomp}{header.group(3)}{end}" + end.join(lines) + end + tail


def _entry_spans(original: str, entries: Node, indices: Sequence[int]) -> list[tuple[int, int]]:
    """Where the entries of a list stand that are taken out, each with the comma or the dash that belongs to it."""
    nodes = [node for _, node in entries.children]
    spans: list[tuple[int, int]] = []
    for index in indices:
        node = nodes[index]
        if not entries.flow:
            dash = len(original[: node.start].rstrip()) - 1
            start = max(original.rfind("\n", 0, dash), original.rfind("\r", 0, dash)) + 1
            spans.append((start, line_end(original, last_end(node))))
        elif any(later not in indices for later in range(index + 1, len(nodes))):
            spans.append((node.start, nodes[index + 1].start))
        else:  # nothing that stays follows: the comma before goes too
            spans.append((nodes[index - 1].end if index else node.start, node.end))
    return spans
