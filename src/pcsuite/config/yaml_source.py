"""Reading YAML with positions, so that an error can name the line."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pcsuite._util.files import unreadable_text
from pcsuite._util.secrets import redact
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
    keys: set[str] = set()
    for key_node, _ in node.value:
        if key_node.value in keys:
            raise yaml.constructor.ConstructorError(
                None, None, f"key '{key_node.value}' is given twice", key_node.start_mark
            )
        keys.add(key_node.value)
    return dict(loader.construct_pairs(node, deep=True))


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping_once)


def as_yaml(value: Any, width: int = 80) -> str:
    """A value as YAML that people can read and that comes back as it was; keys stay in their order.

    YAML takes three characters of Unicode (U+0085, U+2028, U+2029) for ends of lines and folds them: a text that has
    one is written in escapes.

    >>> load_yaml(as_yaml({"note": "one\x85 two"}), "here")["note"] == "one\x85 two"
    True
    """
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=width)
    folded = any(mark in text for mark in "\x85\u2028\u2029")
    return yaml.safe_dump(value, sort_keys=False, width=width) if folded else text


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
            entries = at.value if isinstance(at, yaml.SequenceNode) else chain.from_iterable(at.value)
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
    overridden: Mapping[str, str] = field(default_factory=dict)
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
            text = as_yaml(plain)
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
            pairs: list[Any] = []
            if isinstance(node, yaml.MappingNode):
                pairs = [pair for pair in node.value if pair[0].value == str(key)]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
                pairs = [(entry, entry) for entry in node.value[key : key + 1]]
            if not pairs:
                break
            start, node = pairs[0]
            line = start.start_mark.line + 1
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
            # What may be of several kinds is wrong in the eyes of each: one line for all of them.
            by_place: dict[tuple[str | int, ...], list[Any]] = {}
            for entry in error.errors(include_url=False):
                by_place.setdefault(tuple(_real_keys(entry, self.data)), []).append(entry)
            lines = [
                self.problem(keys, plain_problem(entries, _fields_at(model, keys[:-1])))
                for keys, entries in by_place.items()
            ]
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
        for key, flag in self.overridden.items():
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


_BRANCHES = ("int", "float", "str", "bool", "none", "constrained-int", "constrained-float", "constrained-str")
"""How a location names the plain kinds of value that were tried."""


def _real_keys(entry: Any, data: Any) -> list[str | int]:
    """Drop the parts of a pydantic location that name union branches rather than keys."""
    keys: list[str | int] = []
    node, location = data, entry["loc"]
    for index, part in enumerate(location):
        in_mapping = isinstance(node, dict) and part in node
        in_list = isinstance(node, (list, tuple)) and isinstance(part, int) and part < len(node)
        if in_mapping or in_list:
            keys.append(part)
            node = node[part]
        elif index == len(location) - 1 and isinstance(node, dict) and part not in _BRANCHES:
            # One that is missing, or is spelled otherwise in the file.
            keys += [part] if isinstance(part, str) and "[" not in part else []
    return keys


_DATE = "a date such as 2026-11-16"
_NUMBER, _WHOLE, _LIST, _KEYS = (
    "a number",
    "a whole number",
    "a list such as [A, B]",
    "a mapping of keys to values",
)
EXPECTED: Mapping[str, str] = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": "a smaller whole number",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "string_unicode": "a text in UTF-8",
    "string_sub_type": "a text",
    "string_too_short": "a text of {min_length} or more characters",
    "string_too_long": "a text of {max_length} or fewer characters",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "too_short": "a list of {min_length} or more entries",
    "too_long": "a list of {max_length} or fewer entries",
    "dict_type": _KEYS,
    "mapping_type": _KEYS,
    "model_type": _KEYS,
    "model_attributes_type": _KEYS,
    "path_type": "a path",
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "is_instance_of": "a value of the kind {class}",
    "none_required": "null",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of {ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of {le} or less",
}
"""What is wanted instead, by the kind of mistake as pydantic names it; its parts are those of the mistake."""


def plain_problem(entries: Sequence[Any], known: Iterable[str] = ()) -> str:
    """What is wrong with one value, in words of our own: what is wanted, and what was given.

    ``entries`` are what pydantic found at one place (several where a value may be of several kinds); ``known`` are the
    keys that could stand there, for one that is none.

    >>> plain_problem([{"type": "int_parsing", "loc": ("n",), "msg": "", "input": "many"}])
    "a whole number is wanted (got 'many')"
    >>> plain_problem([{"type": "extra_forbidden", "loc": ("limit",), "msg": "", "input": 1}], ["limits"])
    "unknown key (did you mean 'limits'?)"
    """
    first = entries[0]
    # Before it is cut: half a key is known by nobody as one, and these words reach more than the command line.
    shown = redact(repr(first.get("input")))
    got = f"(got {shown if len(shown) <= 60 else shown[:57] + '…'})"
    expected: list[str] = []
    for entry in entries:
        kind, parts = entry["type"], entry.get("ctx") or {}
        if kind == "extra_forbidden":
            return f"unknown key ({did_you_mean(str(entry['loc'][-1]), known)})"
        if kind == "missing":
            return "required, but not given"
        if kind in ("value_error", "assertion_error"):  # a rule of our own has words of its own
            return f"{entry['msg'].removeprefix('Value error, ').removeprefix('Assertion failed, ')} {got}"
        if kind in ("literal_error", "enum"):
            expected.append(str(parts.get("expected", "")))
            near = did_you_mean(str(entry.get("input")), re.findall(r"'([^']*)'", expected[-1]))
            got = f"{got[:-1]}; {near})" if near.startswith("did") and near not in got else got
        elif kind in EXPECTED:
            plain = {key: f"{part:g}" if isinstance(part, float) else part for key, part in parts.items()}
            expected.append(EXPECTED[kind].format(**plain))
        else:
            expected.append(f"something else: {entry['msg']}")
    return f"{' or '.join(dict.fromkeys(expected))} is wanted {got}"


def keyed_problems(error: ValidationError, known: Iterable[str] = ()) -> str:
    """What is wrong with values that did not come from a file: ``key: what is wrong`` of each, joined.

    ``known`` are the keys that there are, for one that is none.
    """
    known = list(known)
    by_key: dict[str, list[Any]] = {}
    for entry in error.errors(include_url=False):
        by_key.setdefault(".".join(map(str, entry["loc"])), []).append(entry)
    problems = {key: plain_problem(entries, known) for key, entries in by_key.items()}
    return "; ".join(f"{key}: {problem}" if key else problem for key, problem in problems.items())


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
    inner = map(_inner_model, getattr(annotation, "__args__", ()))
    return next((model for model in inner if model is not None), None)
