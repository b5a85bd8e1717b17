"""Reading YAML with positions, so that an error can name the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pcsuite.errors import ConfigError, did_you_mean

ModelT = TypeVar("ModelT", bound=BaseModel)
_BaseLoader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_PROBLEMS = 10


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


@dataclass(frozen=True, slots=True)
class YamlSource:
    """A parsed YAML file that still knows where its keys stood."""

    path: Path
    text: str
    data: Any

    @classmethod
    def read(cls, path: Path) -> YamlSource:
        """Parse a file; anything unreadable is one clear line."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise ConfigError(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as UTF-8 text ({error})") from error
        try:
            data = yaml.load(text, Loader=_StrictLoader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{path}:{mark.line + 1}" if mark else str(path)
            problem = getattr(error, "problem", None) or "cannot be parsed"
            raise ConfigError(f"{where}: not valid YAML: {problem}") from error
        return cls(path, text, data)

    def line_of(self, keys: Sequence[str | int]) -> int | None:
        """Line of the deepest part of ``keys`` that exists, counted from 1."""
        node = yaml.compose(self.text, Loader=_StrictLoader)
        line: int | None = None
        for key in keys:
            step = _child(node, key)
            if step is None:
                break
            line, node = step
        return line

    def parse(self, model: type[ModelT]) -> ModelT:
        """Validate the file against a configuration model; every problem is a line of the error."""
        if not isinstance(self.data, dict):
            raise ConfigError(f"{self.path}: expected a mapping with keys such as {_some_keys(model)}")
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            raise ConfigError("\n".join(self._problems(error, model))) from error

    def problem(self, keys: Sequence[str | int], message: str) -> str:
        """One error line for a place in this file."""
        line = self.line_of(keys)
        where = f"{self.path}:{line}" if line else str(self.path)
        return f"{where}: {_dotted(keys)}: {message}"

    def _problems(self, error: ValidationError, model: type[BaseModel]) -> list[str]:
        lines: list[str] = []
        for entry in error.errors(include_url=False):
            keys = _real_keys(entry["loc"], self.data)
            message = _message(entry, keys, model)
            line = self.problem(keys, message)
            if line not in lines:
                lines.append(line)
        if len(lines) > _MAX_PROBLEMS:
            lines = [*lines[:_MAX_PROBLEMS], f"{self.path}: … and {len(lines) - _MAX_PROBLEMS} more problems"]
        return lines


def _child(node: Any, key: str | int) -> tuple[int, Any] | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == str(key):
                return key_node.start_mark.line + 1, value_node
    elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key].start_mark.line + 1, node.value[key]
    return None


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


def _some_keys(model: type[BaseModel]) -> str:
    return ", ".join(list(model.model_fields)[:4])


def _dotted(keys: Sequence[str | int]) -> str:
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else (f".{key}" if text else key)
    return text or "(top level)"
