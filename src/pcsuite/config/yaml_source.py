"""Reading YAML with positions, so that an error can name the line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pcsuite._util.files import unreadable_text
from pcsuite._util.text import shorten
from pcsuite.errors import ConfigError, did_you_mean

ModelT = TypeVar("ModelT", bound=BaseModel)
_BaseLoader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_PROBLEMS = 10
_LARGEST = 16 << 20
_DEEPEST = 100
_KEPT = 200_000
"""Characters up to which a parsed text is kept for the next time it is read."""
_MOST_VALUES = 1_000_000


def bundled_configs() -> Path:
    """Folder of the definition files that come with the suite.

    Inside the package where it is installed, at the root of the repository in a checkout.
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parents[1] / "configs"


class _StrictLoader(_BaseLoader):  # type: ignore[misc]  # the C loader is untyped
    """A safe loader that refuses a key given twice."""


def _mapping_once(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if key_node.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key '{key_node.value}' is given twice", key_node.start_mark
            )
        seen.add(key_node.value)
    return dict(loader.construct_pairs(node, deep=True))


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping_once)


def load_yaml(text: str, label: str) -> Any:
    """The value of a YAML text; what is no YAML, or grows out of bounds, is a ``ConfigError`` of one line.

    ``label`` names the text in it. Aliases may repeat a value, but not so often that it becomes a million values; and
    nothing may be nested deeper than 100 levels or contain itself.
    """
    try:
        return pickle.loads(_parsed(text)) if len(text) <= _KEPT else _parse(text)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError, KeyError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{label}:{mark.line + 1}" if mark else label
        problem = getattr(error, "problem", None) or shorten(str(error)) or "cannot be parsed"
        raise ConfigError(f"{where}: not valid YAML: {problem}") from error


@lru_cache(maxsize=64)
def _parsed(text: str) -> bytes:
    """A text's value, kept: the definition files are read again with every profile, and parsing is most of that.

    Kept as bytes, so that every caller gets a value of its own to change.
    """
    return pickle.dumps(_parse(text))


def _parse(text: str) -> Any:
    _check_depth(text)
    loader = _StrictLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Look at the depth of a text that could be deep: the composer, which is C, has no bound of its own."""
    opening = sum(text.count(sign) for sign in ("[", "{", "- -", "? "))
    if (
        opening <= _DEEPEST and len(text) < _DEEPEST * _DEEPEST // 2
    ):  # else each level is indented by one more
        return
    depth = 0
    for event in yaml.parse(text, Loader=_StrictLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} levels deep")


def _check_size(node: Any) -> None:
    """Count values as if every alias were written out."""
    sizes: dict[int, int] = {}

    def size(at: Any) -> int:
        if not isinstance(at, yaml.CollectionNode):
            return 1
        if id(at) not in sizes:
            sizes[id(at)] = _MOST_VALUES  # a value that contains itself has no end
            entries = (
                at.value if isinstance(at, yaml.SequenceNode) else [n for pair in at.value for n in pair]
            )
            sizes[id(at)] = 1 + sum(map(size, entries))
        return sizes[id(at)]

    if size(node) > _MOST_VALUES:
        raise ValueError(f"its aliases make more than {_MOST_VALUES:,} values of it")


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A parsed YAML file that still knows where its keys stood."""

    path: Path
    text: str
    data: Any
    given: Mapping[str, str] = field(default_factory=dict)
    """Values that are not the file's own, by dotted key, and how the user gave them: ``{"run.name": "--name"}``."""

    @classmethod
    def read(cls, path: Path) -> YamlSource:
        """Parse a file; what is missing, no UTF-8 or no YAML is a ``ConfigError`` of one line.

        A key that is given twice in a mapping is refused as well.
        """
        try:
            if path.is_dir():
                raise ConfigError(f"{path} is a folder", hint="name a file in it, such as profile.yaml")
            if path.is_file() and path.stat().st_size > _LARGEST:
                raise ConfigError(f"{path}: has more than {_LARGEST >> 20} MiB, which no configuration needs")
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {unreadable_text(path, error)}") from error
        return cls(path, text, load_yaml(text, str(path)))

    @classmethod
    def of_profile(cls, content: Mapping[str, Any]) -> YamlSource:
        """A profile's content as a caller has it, in place of a file; messages name its lines as YAML would have them.

        The version may be left out. Raises ``ConfigError`` where the content is not of what YAML has.
        """
        try:
            plain = json.loads(json.dumps({"version": "1.0", **content}, default=_path_text))
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        except (TypeError, ValueError, yaml.YAMLError) as error:
            raise ConfigError(
                f"the profile holds what YAML has no word for: {shorten(str(error))}"
            ) from error
        return cls(Path("profile"), text, load_yaml(text, "profile"))

    def line_of(self, keys: Sequence[str | int]) -> int | None:
        """Line of the deepest part of ``keys`` that exists, counted from 1; ``None`` where none does.

        ``keys`` goes from the top level down: names of mappings, indices of lists.
        """
        node: Any = yaml.compose(self.text, Loader=_StrictLoader)
        line: int | None = None
        for key in keys:
            if isinstance(node, yaml.MappingNode):
                found = next((pair for pair in node.value if pair[0].value == str(key)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                found = node.value[key], node.value[key]
            else:
                found = None
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line

    def parse(self, model: type[ModelT]) -> ModelT:
        """Validate the file against a configuration model.

        Every problem (ten at most) is a line of the ``ConfigError``: file, line, key, and what is wrong with it.
        """
        if not isinstance(self.data, dict):
            some = ", ".join(list(model.model_fields)[:4])
            raise ConfigError(f"{self.path}: expected a mapping with keys such as {some}")
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            found = [
                self.problem(keys, _message(entry, keys, model))
                for entry in error.errors(include_url=False)
                for keys in (_real_keys(entry["loc"], self.data),)
            ]
            lines = list(dict.fromkeys(found))
            if len(lines) > _MAX_PROBLEMS:
                more = f"{self.path}: … and {len(lines) - _MAX_PROBLEMS} more problems"
                lines = [*lines[:_MAX_PROBLEMS], more]
            raise ConfigError("\n".join(lines)) from error

    def problem(self, keys: Sequence[str | int], message: str) -> str:
        """One error line for a key of this file: ``FILE:LINE: dotted.key[0]: message``.

        For a value that did not come from the file the line names what it came from: ``--tasks: message``.
        """
        dotted = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
        names = ".".join(str(key) for key in keys)
        for key, flag in self.given.items():
            if f"{names}.".startswith(f"{key}."):
                rest = dotted[len(key) :].lstrip(".")
                # A list of names that was typed needs no index: the message has the name.
                return (
                    f"{flag}: {message}" if not rest or rest.startswith("[") else f"{flag}: {rest}: {message}"
                )
            if names and f"{key}.".startswith(f"{names}."):
                return f"{flag}: {message}" if names == key else f"{flag}: {dotted}: {message}"
        line = self.line_of(keys)
        return f"{self.path}{f':{line}' if line else ''}: {dotted or '(top level)'}: {message}"


def _path_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} {value!r}")


def _real_keys(location: Sequence[str | int], data: Any) -> list[str | int]:
    """Drop the parts of a pydantic location that name union branches rather than keys."""
    keys: list[str | int] = []
    node = data
    for index, part in enumerate(location):
        in_mapping = isinstance(node, dict) and part in node
        in_list = isinstance(node, (list, tuple)) and isinstance(part, int) and part < len(node)
        if in_mapping or in_list:
            keys.append(part)
            node = node[part]
        elif index == len(location) - 1 and isinstance(part, str) and "[" not in part:
            keys.append(part)
    return keys


def _message(entry: Any, keys: Sequence[str | int], model: type[BaseModel]) -> str:
    kind = entry["type"]
    if kind == "extra_forbidden":
        known = _fields_at(model, keys[:-1])
        return f"unknown key ({did_you_mean(str(keys[-1]), known)})"
    if kind == "missing":
        return "required, but not given"
    shown = repr(entry.get("input"))
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    return f"{str(entry['msg']).removeprefix('Value error, ')} (got {shown})"


def _fields_at(model: type[BaseModel], keys: Sequence[str | int]) -> list[str]:
    """Field names of the model found by walking ``keys``; used for "did you mean"."""
    current: Any = model
    for key in keys:
        fields = getattr(current, "model_fields", None)
        if fields is not None and key in fields:
            current = _inner_model(fields[key].annotation)
        # a key of a mapping (a task id, say) or a list index: the value's model stays current
    return list(getattr(current, "model_fields", {}))


def _inner_model(annotation: Any) -> Any:
    """The configuration model inside an annotation such as ``dict[str, TaskSpec]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None
