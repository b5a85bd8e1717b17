"""Targets: systems of the user's own that answer in a model's place, and what a row must know of them.

A target is named by what it is: ``FILE.py:FUNCTION``, an address, or a command. It becomes a model entry of the
provider ``target`` like any other; its identity, a hash of the files it is made of, stands in the entry, so that run
ids, the response cache, manifests and studies all change with it.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pcsuite._util.files import sha256_file, unreadable_text
from pcsuite._util.folder_template import Template, results_inside
from pcsuite._util.hashing import digest, sha256_hex
from pcsuite.config.definitions import ModelSpec
from pcsuite.errors import ConfigError

PROVIDER = "target"
TARGET_WORDS: Mapping[str, str] = {
    "worker": "worker",
    "concurrency": "concurrency",
    "target_timeout": "timeout_s",
    "target_version": "version",
    "target_files": "files",
    "target_shell": "shell",
    "deterministic": "deterministic",
    "in_folder": "in_folder",
    "target_headers": "headers",
    "target_body": "body",
    "target_answer": "answer",
    "target_read": "read",
}
"""Keys of a target's entry by what the command line and Python call them."""
IN_MEMORY = "memory:"
"""What the name of a function begins with that a Python program gave, and no file has."""
TargetKind = Literal["function", "command", "http", "memory"]
FOLDER_KEY, IDENTITY_KEY = "target_folder", "identity"
"""Keys of a target's entry that are found when it is read: where its files are looked for, and what they hash to."""
TEMPLATE_KEY, LEFT_OUT_KEY = "in_folder", "leave_out"
"""Keys of a target's entry that name the folder of which each call gets a copy, and what of it no copy has."""
_FUNCTION = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_NAMED = re.compile(r"(?P<name>[A-Za-z][\w-]*)=(?P<spec>.+)", re.DOTALL)
_SLUG_LENGTH = 40


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What a target is, read from how it is named.

    >>> TargetSpec.read("app.py:answer").kind, TargetSpec.read("python agent.py --fast").words
    ('function', ('python', 'agent.py', '--fast'))
    """

    kind: TargetKind
    text: str
    file: str = ""
    """Of a function: its file."""
    function: str = ""
    """Its name there; ``app.answer`` is a method of ``app``."""
    words: tuple[str, ...] = ()
    """Of a command: its words, as a shell would part them."""

    @classmethod
    def read(cls, text: str) -> TargetSpec:
        """What a word names; raises ``ConfigError`` where it names nothing."""
        text = text.strip()
        if not text:
            raise ConfigError("the target is empty", hint="FILE.py:FUNCTION, http://…, or a command")
        if text.startswith(("http://", "https://")):
            if not urlsplit(text).hostname:
                raise ConfigError(f"target '{text}': the address has no host")
            return cls("http", text)
        if text.startswith(IN_MEMORY):
            return cls("memory", text, function=text.removeprefix(IN_MEMORY))
        found = _FUNCTION.fullmatch(text)
        if found and (not re.search(r"\s", found["file"]) or Path(found["file"]).is_file()):
            return cls("function", text, found["file"], found["name"])
        if text.endswith(".py") and not re.search(r"\s", text) and "/" not in text:
            raise ConfigError(
                f"target '{text}': say which function of the file answers, or that it is a command",
                hint=f"{text}:answer, or 'python {text}'",
            )
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise ConfigError(f"target '{text}': the command cannot be read: {error}") from None
        if not words:
            raise ConfigError(f"target '{text}': the command is empty")
        return cls("command", text, words=words)

    @property
    def slug(self) -> str:
        """What it is called where nobody gave it a name: letters, digits and hyphens.

        >>> TargetSpec.read("python agents/my_agent.py").slug, TargetSpec.read("http://127.0.0.1:8000/chat").slug
        ('my_agent', '127-0-0-1-8000-chat')
        """
        if self.kind == "http":
            parts = urlsplit(self.text)
            name = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
        elif self.kind == "command":
            scripts = [word for word in self.words[1:] if Path(word).suffix and not word.startswith("-")]
            name = Path((scripts or self.words)[0]).stem
        else:
            name = f"{Path(self.file).stem}-{self.function}" if self.file else self.function
        slug = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-")[:_SLUG_LENGTH].strip("-")
        return slug or "target"

    def named_files(self, folder: Path) -> list[Path]:
        """Files that it names and that are there, from a folder: a function's file, the words of a command."""
        words = (self.file,) if self.kind == "function" else self.words
        return [path for word in words if len(word) < 4096 and (path := folder / word).is_file()]


def target_entry(spec: str, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """The id and the model entry of a target as a user names it, ``SPEC`` or ``NAME=SPEC``.

    Its files are looked for from the working folder. Raises ``ConfigError`` for a word that names nothing.

    >>> target_entry("old=python agent.py", {"worker": True})[0]
    'target/old'
    """
    named = _NAMED.fullmatch(spec.strip())
    read = TargetSpec.read(named["spec"] if named else spec)
    entry = {"provider": PROVIDER, "target": read.text, **dict(options or {})}
    if read.kind in ("function", "command"):
        entry[FOLDER_KEY] = str(Path.cwd())
    return f"{PROVIDER}/{named['name'] if named else read.slug}", entry


def target_entries(
    specs: Sequence[str], options: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Entries of several targets by id; raises ``ConfigError`` where two have one id."""
    entries: dict[str, dict[str, Any]] = {}
    for spec in specs:
        name, entry = target_entry(spec, options)
        if name in entries:
            raise ConfigError(f"--target: two are called '{name}'", hint="give them names: --target old=SPEC")
        entries[name] = entry
    return entries


def target_overrides(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Overrides that add targets to a profile, beside those it has."""
    return {f"targets.{name}": dict(entry) for name, entry in entries.items()}


def profile_targets(targets: Mapping[str, str | Mapping[str, Any]]) -> dict[str, ModelSpec]:
    """The entries of a profile's ``targets`` by id.

    >>> profile_targets({"mine": "python agent.py"})["mine"].provider_options()
    {'target': 'python agent.py'}
    """
    return {
        name: ModelSpec.model_validate(
            {"provider": PROVIDER, **({"target": entry} if isinstance(entry, str) else entry)}
        )
        for name, entry in targets.items()
    }


def with_identity(
    name: str, spec: ModelSpec, folders: Iterable[Path], results: str | Path | None = None
) -> ModelSpec:
    """A target's entry with the folder its files lie in and the hash of what it is made of.

    ``folders`` are looked through in order; an entry that says its own goes before them. ``results`` is where results
    are written: below the folder that calls get copies of it is left out of them. Entries of other providers come back
    as they are. Raises ``ConfigError`` where a file that it names is not there.
    """
    options = spec.provider_options()
    if spec.provider != PROVIDER or not isinstance(options.get("target"), str):
        return spec
    try:
        read = TargetSpec.read(options["target"])
        given = options.get(FOLDER_KEY)
        candidates = [Path(str(given))] if given else [*dict.fromkeys(folders), Path.cwd()]
        folder = next((each for each in candidates if read.named_files(each)), candidates[-1]).resolve()
        changes: dict[str, Any] = {}
        if options.get(TEMPLATE_KEY):
            changes = _template_keys(options, folders, results)
            options |= changes
        changes[IDENTITY_KEY] = _identity(read, folder, options)
    except ConfigError as error:
        raise ConfigError(f"model '{name}': {error.message}", hint=error.hint) from error
    if read.kind in ("function", "command"):
        changes[FOLDER_KEY] = str(folder)
    return ModelSpec.model_validate({**spec.written(), **changes})


def _template_keys(
    options: Mapping[str, Any], folders: Iterable[Path], results: str | Path | None
) -> dict[str, Any]:
    """The keys of a template as they hold from anywhere: its whole path, and what is left out of it."""
    given = Path(str(options[TEMPLATE_KEY]))
    candidates = [Path(str(options[FOLDER_KEY]))] if options.get(FOLDER_KEY) else [*folders, Path.cwd()]
    template = next((path for each in candidates if (path := each / given).is_dir()), given)
    left_out = options.get(LEFT_OUT_KEY) or ()
    names = [left_out] if isinstance(left_out, str) else [str(entry) for entry in left_out]
    inside = results_inside(template, results) if results is not None else None
    if inside is not None and not any(Path(inside).is_relative_to(entry) for entry in names):
        names.append(inside)
    return {TEMPLATE_KEY: str(template.resolve()), LEFT_OUT_KEY: names}


def _identity(spec: TargetSpec, folder: Path, options: Mapping[str, Any]) -> str:
    """Hash of what a target is made of; 16 hexadecimal digits."""
    parts: dict[str, Any] = {"version": str(options.get("version") or "")}
    if spec.kind == "function":
        path = folder / spec.file
        if not path.is_file():
            raise ConfigError(f"target '{spec.text}': no file {path}")
        parts["files"] = _hashes([path, *imported_beside(path)], folder)
    elif spec.kind == "command":
        check_command(spec, folder, shell=bool(options.get("shell")))
        named = spec.named_files(folder)
        beside = [more for path in named if path.suffix == ".py" for more in imported_beside(path)]
        parts["files"] = _hashes([*named, *beside], folder)
    elif spec.kind == "memory":
        parts["source"] = str(options.get("source_hash") or "")
    if options.get(TEMPLATE_KEY):
        template = Template.read(options[TEMPLATE_KEY], leave_out=options.get(LEFT_OUT_KEY) or ())
        parts["template"] = template.digest()
    listed = options.get("files") or ()
    for word in (listed,) if isinstance(listed, str) else listed:
        path = folder / str(word)
        if not path.is_file():
            raise ConfigError(f"files: no file {path}")
        parts.setdefault("named", {})[str(word)] = sha256_file(path)
    return digest(parts)[:16]


def _hashes(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    hashes = {}
    for path in paths:
        place = path.resolve()
        name = place.relative_to(folder).as_posix() if place.is_relative_to(folder) else place.name
        hashes[name] = sha256_file(place)
    return dict(sorted(hashes.items()))


def check_command(spec: TargetSpec, folder: Path, *, shell: bool = False) -> None:
    """Refuse a command that nothing could run (``ConfigError``): its program is not there or no program."""
    if shell:
        return
    program = spec.words[0]
    if "/" in program:
        path = folder / program
        problem = "" if shutil.which(path) else "is no program" if path.exists() else "is not there"
        hint = f"chmod +x {program}, or name what runs it" if path.exists() else f"looked for from {folder}"
    else:
        problem = "" if shutil.which(program) else "is not on the PATH"
        hint = (
            f"./{program} for a file of this folder" if (folder / program).is_file() else "is it installed?"
        )
    if problem:
        raise ConfigError(f"target '{spec.text}': {program} {problem}", hint=hint)


@lru_cache(maxsize=64)
def _imports(text_hash: str, text: str) -> tuple[str, ...]:
    """Names of modules that a text of Python imports anywhere in it, relative ones with their dots."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names[module] = None
            names |= dict.fromkeys(f"{module}.{alias.name}".lstrip(".") for alias in node.names)
    return tuple(name for name in names if name)


def imported_beside(path: Path) -> list[Path]:
    """Python files of the same folder that a file imports, and those that these import, itself left out.

    What is installed elsewhere is not looked at: ``version`` of the entry is for that. Raises ``ConfigError`` for a
    file that is no text.
    """
    root = path.resolve().parent
    found: dict[Path, None] = {}
    waiting = [path.resolve()]
    while waiting:
        current = waiting.pop()
        try:
            text = current.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{current}: {unreadable_text(current, error)}") from error
        for name in _imports(sha256_hex(text), text):
            for base in dict.fromkeys((root, current.parent)):
                parts = name.split(".")
                for depth in range(1, len(parts) + 1):
                    place = base.joinpath(*parts[:depth])
                    for file in (place.with_suffix(".py"), place / "__init__.py"):
                        if file.is_file() and file not in found and file != path.resolve():
                            found[file] = None
                            waiting.append(file)
    return list(found)
