"""A mapping compiled to the shape of the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pcsuite.errors import ConfigError
from pcsuite.verifier.amounts import CENTS
from pcsuite.verifier.value_reader import ValueReader
from pcsuite.verifier.values import LIST_TYPES, FieldType

if TYPE_CHECKING:  # a mapping is checked by compiling it
    from pcsuite.verifier.mapping import FieldMapping, Pairing


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field: a scalar, or a list of texts or numbers (``type`` is one of ``LIST_TYPES``)."""

    pattern: str
    section: str
    type: FieldType
    relative: float
    absolute: float
    modulo: float | None
    weight: float
    reader: ValueReader | None = None
    """What reads and judges its values, ``None`` for the plain types."""

    @property
    def is_list(self) -> bool:
        """Whether its values are lists."""
        return self.type in LIST_TYPES

    @property
    def is_number(self) -> bool:
        """Whether its values compare as numbers, within a tolerance."""
        return self.type in ("number", "integer") if self.reader is None else self.reader.is_number

    @property
    def is_text(self) -> bool:
        """Whether its values are text of which one can be more alike than another."""
        return self.type in ("text", "fuzzy")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A part of the record that counts nowhere: excluded from the comparison, or metadata."""


@dataclass(slots=True)
class ObjectNode:
    """An object with named parts."""

    children: dict[str, Node] = field(default_factory=dict)


@dataclass(slots=True)
class ListNode:
    """A list of objects, paired by name (or key) and content."""

    pattern: str
    item: ObjectNode
    pairing: Pairing
    key: tuple[str, ...] = ()
    """Fields that tell its items apart, the most telling first; none where the mapping names none."""
    key_leaves: list[Leaf] = field(default_factory=list)
    """The fields of ``key``."""
    scalars: list[tuple[tuple[str, ...], Leaf]] = field(default_factory=list)
    """Scalar fields of an item except its name, with the keys that lead to them: what pairs are judged by."""
    lists: list[tuple[str, ...]] = field(default_factory=list)
    """Keys of the lists inside an item."""

    @property
    def is_keyed(self) -> bool:
        """Whether items are paired by key and likeness of text, which a mapping asks for by ``key`` or ``fuzzy``."""
        return bool(self.key) or self.pairing.fuzzy is not None

    @property
    def label_key(self) -> str:
        """The field that a path names an item by."""
        return self.key[0] if self.key else "name"


Node = Leaf | Ignored | ObjectNode | ListNode


_COMPILED: dict[int, tuple[FieldMapping, ObjectNode]] = {}


def compile_mapping(mapping: FieldMapping) -> ObjectNode:
    """The tree of a mapping: the shape of a record, with the rule of comparison at each leaf.

    It is built once per mapping object. Raises ``ConfigError`` where one path makes an object or list of what another
    path makes a value.
    """
    compiled = _COMPILED.get(id(mapping))
    if compiled is not None:
        return compiled[1]
    root = ObjectNode()
    for pattern, rule in mapping.patterns():
        leaf: Node = Ignored()
        if rule.extractable:
            bounds = mapping.tolerances[rule.tolerance]
            section = pattern.split(".")[0].removesuffix("[]")
            tolerance = (bounds.relative, bounds.absolute, rule.modulo)
            try:
                reader = mapping.reader(rule)
            except ConfigError as error:
                raise ConfigError(f"'{pattern}': {error.message}", hint=error.hint) from error
            if rule.type == "money" and rule.tolerance == "default":  # half a percent of an invoice is money
                tolerance = (0.0, CENTS, None)
            leaf = Leaf(pattern, section, rule.type, *tolerance, rule.weight, reader)
        _insert(root, pattern, leaf, mapping)
    for path in mapping.metadata:
        _insert(root, path, Ignored(), mapping)
    _collect(root)
    if len(_COMPILED) >= 16:
        _COMPILED.clear()
    _COMPILED[id(mapping)] = (mapping, root)  # the mapping is held, so that its id stays its own
    return root


def _insert(root: ObjectNode, pattern: str, leaf: Node, mapping: FieldMapping) -> None:
    *holders, last = pattern.split(".")
    node = root
    walked: list[str] = []
    for holder in holders:
        walked.append(holder)
        key = holder.removesuffix("[]")
        child = node.children.get(key)
        if child is None:
            list_pattern = ".".join(walked)
            is_list = list_pattern.endswith("[]")
            child = ObjectNode()
            if is_list:
                rules = mapping.pairing_of(list_pattern)
                child = ListNode(list_pattern, ObjectNode(), rules, rules.key)
            node.children[key] = child
        if isinstance(child, ListNode) == holder.endswith("[]") and isinstance(child, ListNode | ObjectNode):
            node = child.item if isinstance(child, ListNode) else child
        else:
            raise ConfigError(f"'{pattern}' does not fit the other paths at '{'.'.join(walked)}'")
    if last.endswith("[]") or isinstance(node.children.get(last), ListNode | ObjectNode):
        raise ConfigError(f"'{pattern}' does not fit the other paths")
    node.children[last] = leaf


def _collect(node: ObjectNode) -> None:
    """Note in each list which fields of its items pairs are judged by."""
    for child in node.children.values():
        if isinstance(child, ObjectNode):
            _collect(child)
        elif isinstance(child, ListNode):
            _collect(child.item)
            if (
                child.pairing.fuzzy is not None
                and not child.key
                and isinstance(child.item.children.get("name"), Leaf)
            ):
                child.key = ("name",)
            for key in child.key:
                leaf = child.item.children.get(key)
                if not isinstance(leaf, Leaf) or leaf.is_list:
                    raise ConfigError(f"'{child.pattern}' has no compared field '{key}' to be its key")
                child.key_leaves.append(leaf)
            _collect_item(child, child.item, ())


def _collect_item(holder: ListNode, node: ObjectNode, keys: tuple[str, ...]) -> None:
    for key, child in node.children.items():
        steps = (*keys, key)
        if isinstance(child, Leaf) and not child.is_list:
            # A key is part of the content too: of two items without the right one, one may have half of it.
            if steps != ("name",) or holder.is_keyed:
                holder.scalars.append((steps, child))
        elif isinstance(child, ObjectNode):
            _collect_item(holder, child, steps)
        elif isinstance(child, ListNode | Leaf):
            holder.lists.append(steps)


def compared_record(record: Mapping[str, Any], mapping: FieldMapping) -> dict[str, Any]:
    """A copy of the record without what counts nowhere: excluded fields, metadata, nulls and empty parts.

    Two records with equal copies have equal scores.
    """
    return _compared(compile_mapping(mapping), record)


def _compared(node: ObjectNode, value: Mapping[str, Any]) -> dict[str, Any]:
    compared: dict[str, Any] = {}
    for key, child in node.children.items():
        part = value.get(key)
        if isinstance(child, ObjectNode) and isinstance(part, dict):
            part = _compared(child, part)
        elif isinstance(child, ListNode) and isinstance(part, list):
            part = [_compared(child.item, item) for item in part if isinstance(item, dict)]
        elif not isinstance(child, Leaf):
            continue
        if part is not None and part != {} and part != []:
            compared[key] = part
    return compared
