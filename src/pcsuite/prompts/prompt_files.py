"""Several files as one prompt, or files at their places in a folder: blocks across files, and files that are blocks.

The files of an agent are no templates: whatever is in them is meant to the letter, and the item is the user's message.
Where they have places in a folder (:mod:`pcsuite.engines.targets.workspaces`), the prompt carries each with its path,
and whoever asks a system that works there puts it there; else a model gets them one after the other as messages of the
system.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pcsuite._util.files import unreadable_text
from pcsuite.errors import PromptError
from pcsuite.prompts import blocks
from pcsuite.prompts.blocks import HOLDS_INPUT, INPUT_BLOCK, NOT_SENT, PromptBlock, SplitPrompt
from pcsuite.prompts.filler import sham_text
from pcsuite.prompts.reading import read_source
from pcsuite.prompts.rules import RulesSource, is_rules_file
from pcsuite.prompts.servers import ServersSource
from pcsuite.prompts.sources import Kept, PromptFile, PromptSource, PromptText, TextSource
from pcsuite.prompts.splitting import SplitMethod
from pcsuite.prompts.tools import ToolsSource
from pcsuite.prompts.verbatim import FILE, chat_piece, file_head

PLACE, WHOLE_FILE, SKILL = "place", "file", "skill"
"""Kinds of block: where a file stands, which nobody reads; all of a file; all of a folder of them."""
_SKILL_FILE = "SKILL.md"
_FOR_SOME_FILES = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:(?!---).*\n)*?(?:(?:globs|paths|applyTo):[ \t]*\S|alwaysApply:[ \t]*false)"
)
"""Front matter by which a rule holds for some files alone, or where it is asked for."""
_PROSE = frozenset({".md", ".mdc", ".txt", ".rst", ".markdown", ""})
_PROMPT_NAMES = frozenset({"mcp.json", ".mcp.json"})
_HIDDEN = frozenset({".claude", ".codex", ".cursor", ".gemini", ".github", ".vscode", ".windsurf"})
"""Hidden folders in which agents and editors look for rules."""
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv"})
_MOST_BYTES = 4 << 20
"""Of all files together: a prompt stands in every arm, and each arm in the log."""
_FRONT_NAME = re.compile(r"(?m)^(name|allowed-tools|license)\s*:.*$")


class _Member(NamedTuple):
    """A file of the prompt."""

    path: str
    """From the folder in which it has its place, or from where the prompt's files lie."""
    source: PromptSource
    group: str = ""
    """Folder of the skill that it belongs to, which is one block."""
    whole: bool = False
    """Whether all of it is one block."""
    binary: bool = False
    file: Path = Path()
    """The file itself, behind all links."""


@dataclass(frozen=True)
class WholeFile(PromptSource):
    """A file that is there as it is, or not at all."""

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """All of it."""
        return (PromptText(self.original),)

    def _written(self, kept: Kept) -> str:
        (text,) = self.remaining(kept)
        return text


@dataclass(frozen=True)
class FilesSource(PromptSource):
    """Files as one prompt; the number of a text is that of its file."""

    members: tuple[_Member, ...] = ()

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The text of each file."""
        return tuple(member.source.texts[0] for member in self.members)

    @property
    def to_the_letter(self) -> bool:
        """Files of an agent are no templates."""
        return True

    def files(self, kept: Kept) -> dict[str, bytes | None]:
        """Every file by path with only what is kept of its text, ``None`` for one of which nothing is left."""
        written: dict[str, bytes | None] = {}
        for number, member in enumerate(self.members):
            text = member.source.written({0: kept.get(number, ())})
            content = b64decode(text) if member.binary else text.encode("utf-8", "surrogatepass")
            written[member.path] = content or None
        return written

    def _written(self, kept: Kept) -> str:
        files = self.files(kept)
        if len(files) == 1:
            return (next(iter(files.values())) or b"").decode("utf-8", "replace")
        return as_one_text(files)


def as_one_text(files: Mapping[str, bytes | None]) -> str:
    """Files one after the other for people to read, each under its path.

    >>> as_one_text({"a.md": b"A.", "b.md": None})
    '==> a.md\\nA.\\n==> b.md (not there)\\n'
    """
    shown = []
    for path, content in files.items():
        text = (content or b"").decode("utf-8", "replace")
        end = "" if not text or text.endswith("\n") else "\n"
        shown.append(f"==> {path}{'' if content else ' (not there)'}\n{text}{end}")
    return "".join(shown)


def read_prompt_files(
    references: Sequence[str | Path], how: SplitMethod = "auto", *, folder: Path | None = None
) -> SplitPrompt:
    """Files as one prompt, split into blocks that are named ``file:block`` where there are several files.

    A reference is a file, a folder with a ``SKILL.md`` (one block, with all that is in it), or a folder of prompts.
    ``folder`` is the one in which they have their places; a file that does not lie in it has the place that its
    reference names. ``how`` may be ``files``: every file is one block. Raises ``PromptError`` of one line for a file
    that cannot be read, or can have no place.
    """
    members = [member for reference in references for member in _members_of(Path(reference), how, folder)]
    if not members:
        raise PromptError(
            f"{', '.join(map(str, references))}: no prompt is in there", hint="rules, .md and .txt files"
        )
    twice = [path for path, count in Counter(member.path for member in members).items() if count > 1]
    if twice:
        raise PromptError(f"two of the files would have the place {twice[0]}", hint="leave one of them out")
    linked = [file for file, count in Counter(member.file for member in members).items() if count > 1]
    if linked:
        names = " and ".join(member.path for member in members if member.file == linked[0])
        raise PromptError(
            f"{names} are one file by a link", hint="name it once: a link in the folder stays one"
        )
    size = sum(len(member.source.original) for member in members)
    if size > _MOST_BYTES:
        raise PromptError(f"the files have {size:,} characters together, more than {_MOST_BYTES:,}")
    source = _as_source(members)
    labels, placed = _labels(members), folder is not None
    heads, all_blocks = [], list[PromptBlock]()
    for number, (member, label) in enumerate(zip(members, labels, strict=True)):
        if placed:
            head = file_head(number, member.path, binary=member.binary)
            heads.append(PromptBlock(f"{label}:place", "", head, PLACE, 1, "its place", ((number, 0, 0),)))
        member_blocks = _member_blocks(member, number, label, how, placed=placed)
        if len(members) > 1 and not member.whole:
            member_blocks = [replace(block, name=f"{label}:{block.name}") for block in member_blocks]
        all_blocks += member_blocks
    all_blocks = blocks.unique([*heads, *_grouped(all_blocks, members)])
    message = chat_piece(len(members), "user", "{{ input }}")
    all_blocks.append(PromptBlock(INPUT_BLOCK, "", message, "appended message", 0, HOLDS_INPUT))
    for block in all_blocks:
        if not block.text.strip() and block.pinned != NOT_SENT:
            raise PromptError(f"block '{block.name}' is empty", hint="give it words or remove it")
    count = len(members)
    where = "at their places in the folder" if folder is not None else "messages of the system"
    method = (
        f"{count} files, {where}" if count > 1 else f"a file, {where.replace('their places', 'its place')}"
    )
    return SplitPrompt(tuple(all_blocks), method, source, is_chat=True)


def _as_source(members: Sequence[_Member]) -> FilesSource:
    """The files as one source: one file is itself, several are shown one after the other."""
    if len(members) == 1:
        return FilesSource(members[0].source.original, members[0].source.suffix, tuple(members))
    contents = {member.path: member.source.original.encode("utf-8", "surrogatepass") for member in members}
    return FilesSource(as_one_text(contents), "", tuple(members))


# Which files there are.


def _members_of(reference: Path, how: SplitMethod, folder: Path | None) -> Iterator[_Member]:
    if not reference.is_dir():
        yield _member(reference, _place_of(reference, folder), how, placed=folder is not None)
        return
    below = list(_files_below(reference))
    listed = {path.resolve() for path, _ in below if not path.is_symlink()}
    for path, skill in below:
        if path.is_symlink():  # it follows the file that it leads to, which is a prompt by itself
            if path.resolve() in listed:
                continue
            listed.add(path.resolve())
        if skill is None:
            yield _member(path, _place_of(path, folder, reference), how, placed=folder is not None)
            continue
        yield _skill_member(path, _place_of(path, folder, reference), _place_of(skill, folder, reference))


def _files_below(folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """The prompts below a folder in order, each with the skill's folder that it belongs to."""
    if _is_skill(folder):
        for path in sorted(folder.rglob("*")):
            # An empty file says nothing, and could not be told from none.
            if (
                path.is_file()
                and path.stat().st_size
                and not _PASSED_OVER & set(path.relative_to(folder).parts)
            ):
                yield path, folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            if path.name not in _PASSED_OVER and (not path.name.startswith(".") or path.name in _HIDDEN):
                yield from _files_below(path)
        elif path.is_file() and (
            path.suffix.lower() in _PROSE - {""} or is_rules_file(path.name) or path.name in _PROMPT_NAMES
        ):
            yield path, None


def _is_skill(folder: Path) -> bool:
    return any(path.name.lower() == _SKILL_FILE.lower() for path in folder.iterdir())


def _place_of(path: Path, folder: Path | None, reference: Path | None = None) -> str:
    """A file's path from the folder where it lies in that, else as the reference names it."""
    if folder is not None and path.resolve().parent.is_relative_to(folder.resolve()):
        return (path.resolve().parent.relative_to(folder.resolve()) / path.name).as_posix()
    if not path.is_absolute() and ".." not in path.parts:
        return path.as_posix()
    # From elsewhere: as it lies in the folder that was named, a file alone at the top.
    return path.name if reference is None else path.relative_to(reference.parent).as_posix()


def _member(path: Path, place: str, how: SplitMethod, *, placed: bool) -> _Member:
    _, name = PromptFile.of(path)
    source = read_source(path)
    if name or source.is_chat or not isinstance(source, (TextSource, ServersSource, ToolsSource)):
        where = "in a folder" if placed else "beside other files"
        raise PromptError(
            f"{path}: a prompt inside of a file cannot stand {where}", hint="put it into a file of its own"
        )
    if isinstance(source, ToolsSource) and source.suffix != ".json":
        raise PromptError(f"{path}: tools at a place in a folder must be JSON", hint="write them as JSON")
    if isinstance(source, ServersSource) and not placed:
        raise PromptError(
            f"{path}: servers act where a system starts them, not as words", hint="--in FOLDER with --target"
        )
    if how == "files":
        return _Member(place, WholeFile(source.original, source.suffix), whole=True, file=path.resolve())
    if isinstance(source, TextSource):
        source = RulesSource(source.original, source.suffix)
    return _Member(place, source, file=path.resolve())


def _skill_member(path: Path, place: str, skill: str) -> _Member:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PromptError(f"{path}: {unreadable_text(path, error)}") from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        encoded = WholeFile(b64encode(content).decode(), path.suffix)
        return _Member(place, encoded, skill, whole=True, binary=True, file=path.resolve())
    return _Member(place, WholeFile(text, path.suffix), skill, whole=True, file=path.resolve())


# Their blocks.


def _labels(members: Sequence[_Member]) -> list[str]:
    """What each file is called in the names of its blocks: its name, its path where another is called so too."""
    names = Counter(Path(member.path).name for member in members)
    return [
        member.path if names[Path(member.path).name] > 1 else Path(member.path).name for member in members
    ]


def _member_blocks(
    member: _Member, number: int, label: str, how: SplitMethod, *, placed: bool
) -> list[PromptBlock]:
    (text,) = member.source.texts
    wrap = partial(chat_piece, number, FILE if placed else "system")
    if member.whole:
        spans = ((number, 0, len(text.text)),)
        kind = SKILL if member.group else WHOLE_FILE
        neutral = text.text if member.binary else sham_file(text.text, member.source.suffix)
        return [PromptBlock(label, text.text, wrap(text.text), kind, 1, spans=spans, neutral=wrap(neutral))]
    pieces, _ = blocks.pieces_of(text, "auto" if how == "files" else how)
    parts = blocks.named(pieces, text.line, wrap, at=((number, 0, 0),))
    front = member.source.front
    if front and placed:
        parts.insert(
            0,
            PromptBlock(
                "front_matter", front, wrap(front), "front matter", 1, "front matter stays", ((number, 0, 0),)
            ),
        )
    elif front:
        parts.insert(
            0, PromptBlock("front_matter", front, "", "front matter", 1, NOT_SENT, ((number, 0, 0),))
        )
    return parts


def _grouped(found: Iterable[PromptBlock], members: Sequence[_Member]) -> list[PromptBlock]:
    """Blocks of which those of a skill's files are one, named after its folder."""
    grouped: list[PromptBlock] = []
    where: dict[str, int] = {}
    for block in found:
        member = members[block.spans[0][0]]
        source = f"==> {member.path}\n{block.source}" if member.group else block.source
        if not member.group:
            grouped.append(block)
        elif member.group not in where:
            where[member.group] = len(grouped)
            grouped.append(replace(block, name=Path(member.group).name, source=source))
        else:
            one = grouped[where[member.group]]
            grouped[where[member.group]] = replace(
                one,
                source=f"{one.source.rstrip()}\n\n{source}",
                text=one.text + block.text,
                spans=(*one.spans, *block.spans),
                neutral=one.neutral + block.neutral,
            )
    return grouped


def sham_file(text: str, suffix: str) -> str:
    """A file of the same length and layout that says nothing; one that is no prose stays as it is.

    Of front matter keys, and the name by which a skill is found, stay.

    >>> sham_file("---\\nname: pdf\\n---\\nRead it.\\n", ".md")
    '---\\nname: pdf\\n---\\nAmet in.\\n'
    """
    if suffix.lower() not in _PROSE:
        return text
    front = TextSource(text, suffix).front
    lines = []
    for line in front.splitlines(keepends=True):
        key, colon, words = line.partition(":")
        lines.append(line if not colon or _FRONT_NAME.match(line) else key + colon + sham_text(words))
    return "".join(lines) + sham_text(text[len(front) :])


def markable_files(prompt: SplitPrompt) -> dict[str, int]:
    """Files of a prompt to which a line of words can be added, each with its number: rules, and a skill's own file."""
    if not isinstance(prompt.source, FilesSource):
        return {}
    return {
        member.path: number
        for number, member in enumerate(prompt.source.members)
        if Path(member.path).suffix.lower() in _PROSE
        and not member.binary
        and (not member.group or Path(member.path).name.lower() == _SKILL_FILE.lower())
    }


def files_read_when_needed(prompt: SplitPrompt) -> dict[str, str]:
    """Files of a prompt that a system reads only where a task calls for them, each with what they are.

    A skill and what lies beside it, a rule for some files alone, and a file of rules in a folder below another of its
    name: whoever asks about marks has no task that needs them.
    """
    if not isinstance(prompt.source, FilesSource):
        return {}
    places = {PurePosixPath(member.path) for member in prompt.source.members}
    found = {}
    for path, content in prompt.files().items():
        place = PurePosixPath(path)
        above = {folder / place.name for folder in place.parents if folder != place.parent}
        if any(member.path == path and member.group for member in prompt.source.members):
            found[path] = "part of a skill"
        elif content is not None and _FOR_SOME_FILES.match(content):
            found[path] = "a rule for some files"
        elif above & places:
            found[path] = "rules of a folder below others"
    return found
