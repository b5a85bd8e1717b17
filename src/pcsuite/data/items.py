"""Items: what is put to a model and the truth it is scored against; reading, loading and choosing them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pcsuite._util.text import read_json, shorten
from pcsuite.config.definitions import TaskSpec
from pcsuite.config.spellings import file_stems
from pcsuite.data.clusters import clustered, input_cluster, joined_labels, text_key
from pcsuite.data.truths import normalise_truth
from pcsuite.errors import DataError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Item:
    """One line of an items file (``{"item_id", "input_text", "truth"}``)."""

    item_id: str
    input_text: str
    truth: dict[str, Any]
    folder: Path | None = field(default=None, compare=False)
    """Where relative file names in ``truth`` start; no part of the item's content, so moving it changes nothing."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further texts of the item by name, for prompts that put them in different places."""
    cluster: str = field(default="", compare=False)
    """Items of one cluster are related and are no independent evidence: a customer, a document, one text asked twice.

    Where none is given it is that of the whole input (:func:`~pcsuite.data.clusters.input_cluster`). No part of the
    item's content: rows keep their ids when items are clustered otherwise.
    """
    attributes: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Further columns of the item's row, which no prompt shows: items can be clustered by them. Not its content."""
    unanswerable: bool = field(init=False, compare=False, repr=False)
    """Whether the truth says that abstaining is the right answer."""

    def __post_init__(self) -> None:
        abstain = isinstance(self.truth, dict) and self.truth.get("unanswerable", False)
        object.__setattr__(self, "unanswerable", bool(abstain))
        if not self.cluster:
            object.__setattr__(self, "cluster", input_cluster(self.input_text, self.columns))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as what it is made of: half the time that the fields of a frozen class take by their names."""
        return Item, (
            self.item_id, self.input_text, self.truth, self.folder, self.columns, self.cluster, self.attributes
        )  # fmt: skip

    def file(self, name: str) -> Path:
        """A file the truth names: relative names start from :attr:`folder`, else from the working directory.

        Raises nothing: whether the file is there is the reader's affair.
        """
        return Path(name) if self.folder is None else self.folder / name

    def line(self) -> dict[str, Any]:
        """The item as a line of an items file holds it."""
        line = {"item_id": self.item_id, "input_text": self.input_text, "truth": self.truth}
        if self.columns:
            line["columns"] = dict(self.columns)
        if self.cluster != input_cluster(self.input_text, self.columns):
            line["cluster"] = self.cluster
        if self.attributes:
            line["attributes"] = dict(self.attributes)
        return line

    def given(self) -> dict[str, Any]:
        """The item as a system that is evaluated gets it: its input, its columns and its id; nothing of the truth.

        >>> Item("7", "Late again", {"label": "angry"}, columns={"sender": "Ann"}).given()
        {'input': 'Late again', 'sender': 'Ann', 'id': '7'}
        """
        return {"input": self.input_text, **self.columns, "id": self.item_id}

    def identity(self) -> dict[str, Any]:
        """What of :meth:`line` names the item and what is asked of it, by which a file of items is named.

        How items are related, and columns that nothing asked depends on, are left out.
        """
        return {key: value for key, value in self.line().items() if key not in ("cluster", "attributes")}

    def content(self) -> list[Any]:
        """All that a prompt or a score can depend on, for hashing.

        The id and the folder are left out: the same item under another id has the same content.
        """
        return [self.input_text, self.truth, *([dict(self.columns)] if self.columns else [])]


class Row(NamedTuple):
    """A mapping and where it stands (file and line); its getters check presence and type.

    Every getter raises :class:`DataError`, which names the place, where the key is missing or of another type.
    """

    where: str
    values: dict[str, Any]
    number: int = 0
    """Its place among the rows of a table, from 1, where not all of them were kept; else 0."""

    @classmethod
    def parse(cls, text: str, where: str) -> Row:
        """The row of one JSON object, or a :class:`DataError` that names the place."""
        try:
            value = read_json(text)
        except ValueError as error:
            reason = shorten(str(error))
            if isinstance(error, json.JSONDecodeError):
                reason = f"{error.msg} at column {error.colno}"
            raise DataError(f"{where}: not valid JSON ({reason})", hint="is the file cut short?") from error
        if not isinstance(value, dict):
            raise DataError(f"{where}: expected a JSON object, found {type(value).__name__}")
        return cls(where, value)

    def error(self, message: str, hint: str | None = None) -> DataError:
        return DataError(f"{self.where}: {message}", hint=hint)

    def get(self, key: str) -> Any:
        """The value under ``key``, which must be there.

        Raises :class:`DataError` that lists the keys there are.
        """
        if key not in self.values:
            have = ", ".join(sorted(self.values)) or "nothing"
            raise self.error(f"key '{key}' is missing", hint=f"the row has {have}")
        return self.values[key]

    def text(self, key: str) -> str:
        return self._typed(key, str, "a string")

    def boolean(self, key: str) -> bool:
        value = self.get(key)
        if not isinstance(value, bool):
            raise self.error(f"'{key}' should be true or false, found {value!r}")
        return value

    def items(self, key: str) -> list[Any]:
        return self._typed(key, list, "a list")

    def texts(self, key: str) -> list[str]:
        values = self.items(key)
        if not all(isinstance(value, str) for value in values):
            raise self.error(f"'{key}' should be a list of strings")
        return values

    def row(self, key: str) -> Row:
        return Row(self.where, self._typed(key, dict, "an object"))

    def _typed(self, key: str, kind: type[T], words: str) -> T:
        value = self.get(key)
        if not isinstance(value, kind):
            raise self.error(f"'{key}' should be {words}, found {type(value).__name__}")
        return value


def decoded_lines(path: Path, label: str, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers (from 1): no line end, no byte-order mark.

    ``label`` names the file in errors. Lines end at ``\\n`` or ``\\r\\n`` only: the further separators that
    ``str.splitlines`` knows occur inside published texts.
    """
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                yield number, decode_line(raw, f"{label} line {number}", number, encoding)
    except OSError as error:
        raise DataError(f"{label} cannot be read: {error.strerror}") from error


def decode_line(raw: bytes, where: str, number: int, encoding: str) -> str:
    """One line of bytes as text, without its end and, on the first line, without a byte-order mark.

    ``number`` is the line's, from 1. Raises :class:`DataError` where the bytes are not of the encoding.
    """
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        problem = f"{where}: byte {error.start + 1} is not {encoding}"
        raise DataError(problem, hint="the file is damaged or re-encoded") from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.rstrip("\n").removesuffix("\r")


def read_jsonl(path: Path, label: str | None = None) -> Iterator[Row]:
    """Objects of a JSON-lines file, one at a time; blank lines are passed over.

    Raises :class:`DataError` with file (``label``, or its path) and line on anything else.
    """
    name = label if label is not None else str(path)
    for number, line in decoded_lines(path, name):
        if line.strip():
            yield Row.parse(line, f"{name} line {number}")


def dump_line(value: dict[str, Any]) -> str:
    """One JSON line as the suite writes it: UTF-8 text, keys in the given order, a newline at the end.

    A lone surrogate cannot be UTF-8, so a line that has one is written with escapes.
    """
    line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value)
    return line + "\n"


SAMPLES = Path(str(files("pcsuite.data"))) / "samples"
"""Folder of the bundled mini sets."""


class ItemSource(NamedTuple):
    """Which file items were read from."""

    kind: Literal["cache", "sample"]
    path: Path

    def describe(self) -> str:
        """How runs and reports name the source."""
        return "exported dataset" if self.kind == "cache" else "bundled sample"

    @property
    def root(self) -> Path:
        """Folder that file names inside items start from: the cache folder, or that of the samples.

        So a database named in a truth is found wherever the cache lies.
        """
        return self.path.parent.parent if self.kind == "cache" else self.path.parent


class LoadedItems(NamedTuple):
    """Items of one split, and where they came from."""

    items: list[Item]
    source: ItemSource


def datasets_dir(cache_dir: Path) -> Path:
    return cache_dir / "datasets"


def find_items(dataset: str, split: str, cache_dir: Path, samples: Path = SAMPLES) -> ItemSource | None:
    """The items file of a split: exported to the cache under any of its names, else bundled, else ``None``.

    ``cache_dir`` is the profile's ``run.cache_dir``; exported files lie in its folder ``datasets``.
    """
    return find_file([f"{stem}.jsonl" for stem in file_stems(dataset, split)], cache_dir, samples)


def find_file(names: Sequence[str], cache_dir: Path, samples: Path) -> ItemSource | None:
    """The first file of one of these names (with their ending): exported to the cache, else bundled, else ``None``.

    What was exported goes before the bundled sample: whoever exported a dataset means it.
    """
    exported = (ItemSource("cache", datasets_dir(cache_dir) / name) for name in names)
    bundled = (ItemSource("sample", samples / name) for name in names)
    return next((source for source in (*exported, *bundled) if source.path.is_file()), None)


class ItemFields(NamedTuple):
    """Keys of a line that stand for ``input_text`` and ``truth`` where it has neither: a task's own records."""

    inputs: tuple[str, ...] = ()
    truths: tuple[str, ...] = ()


ITEM_LINES = ItemFields()
"""Of files whose every line has ``input_text`` and ``truth``."""


def task_items(
    task: TaskSpec, split: str, cache_dir: Path, *, cluster: Sequence[str] | None = None
) -> LoadedItems:
    """The items of a task's split, lines of its own fields included; as :func:`load_items` otherwise.

    A task may name the keys of its records (``input_fields``, ``truth_fields``) and the columns that items are
    clustered by (``cluster``, or those given here). Raises :class:`DataError` where there is no file, a line is no
    item, or the items do not have the column.
    """
    fields = ItemFields(task.input_fields, task.truth_fields)
    loaded = load_items(task.dataset, split, cache_dir, fields=fields)
    columns = task.cluster if cluster is None else cluster
    if columns:
        return loaded._replace(items=clustered(loaded.items, columns, str(loaded.source.path)))
    return loaded


def load_items(
    dataset: str, split: str, cache_dir: Path, *, samples: Path = SAMPLES, fields: ItemFields = ITEM_LINES
) -> LoadedItems:
    """Read the items of a split, and say where they came from: the cache if exported, else the bundled sample.

    load_items("gsm8k", "test", Path(".cache")).items[0].input_text

    Raises :class:`DataError`, with the nearest name, where neither is there.
    """
    name = f"{dataset}_{split}.jsonl"
    source = find_items(dataset, split, cache_dir, samples)
    if source is None:
        cached = datasets_dir(cache_dir)
        known = {path.stem for folder in (cached, samples) for path in folder.glob("*.jsonl")}
        raise DataError(
            f"no items for dataset '{dataset}', split '{split}': neither {cached / name} nor a bundled sample exists",
            hint=f"{did_you_mean(f'{dataset}_{split}', known)} or run: pcsuite export-datasets",
        )
    return LoadedItems(read_items(source.path, source.root, fields), source)


def read_items(path: Path, root: Path | None = None, fields: ItemFields = ITEM_LINES) -> list[Item]:
    """Read an items file; bad JSON, missing keys and repeated ids are errors with file and line.

    ``root`` is the folder that file names inside the items start from. Lines without ``input_text`` or ``truth`` are
    read by their ``fields``; other forms of truth than the suite's own by :func:`~pcsuite.data.truths.normalise_truth`.
    """
    items: list[Item] = []
    first_use: dict[str, str] = {}
    for number, line in enumerate(read_jsonl(path), start=1):
        row = _by_fields(line, fields, number)
        item_id = row.text("item_id")
        if not item_id:
            raise row.error("'item_id' is empty")
        if item_id in first_use:
            raise row.error(f"item_id '{item_id}' was already used ({first_use[item_id]})")
        first_use[item_id] = row.where.removeprefix(f"{path} ")
        columns = row.row("columns").values if "columns" in row.values else {}
        text, truth = normalise_truth(row.text("input_text"), row.row("truth").values, row.where)
        cluster = row.values.get("cluster", "")
        if not isinstance(cluster, (str, int, float)):
            raise row.error(f"'cluster' should be a string or a number, found {type(cluster).__name__}")
        attributes = {
            str(name): str(value)
            for name, value in {**row.values, **_attributes(row)}.items()
            if name not in _LINE_KEYS and isinstance(value, (str, int, float))
        }
        items.append(Item(item_id, text, truth, root, columns, str(cluster), attributes))
    if not items:
        raise DataError(f"{path} has no items", hint="export the dataset again: pcsuite export-datasets")
    return items


_LINE_KEYS = frozenset({"item_id", "input_text", "truth", "columns", "cluster", "attributes"})


def _attributes(row: Row) -> dict[str, Any]:
    return row.row("attributes").values if "attributes" in row.values else {}


def _by_fields(row: Row, fields: ItemFields, number: int) -> Row:
    """A line of records as a line of an items file, where the task says which of its keys are what."""
    values = dict(row.values)
    if "input_text" not in values and fields.inputs:
        cells = [row.get(name) for name in fields.inputs]
        shown = [
            " ".join(map(str, value))
            if isinstance(value, list)
            else value
            if isinstance(value, str)
            else json.dumps(value, ensure_ascii=False)
            for value in cells
        ]
        lines = [f"{name}: {text}" for name, text in zip(fields.inputs, shown, strict=True)]
        values["input_text"] = shown[0] if len(shown) == 1 else "\n".join(lines)
    if "truth" not in values and fields.truths:
        values["truth"] = {name: row.get(name) for name in fields.truths}
        if {"ner_tags", "tags"} & set(fields.truths) and "tokens" in values:
            values["truth"].setdefault("tokens", values["tokens"])
    if "item_id" not in values and (fields.inputs or fields.truths):
        values["item_id"] = str(values.get("id", number))
    return Row(row.where, values)


LABEL_KEYS = ("label", "choice")
"""Keys under which a truth names one of a closed set of answers."""
CLOSED_UP_TO = 12
"""A task with at most this many answers is a choice among them."""
DEFAULT_HASH_SEED = "pcsuite-v1"
"""``repro.deterministic_hash_seed`` of the profiles that set none."""


def rank_of(*parts: object) -> bytes:
    """Rank of a name: the SHA-256 of its parts joined by ``|``.

    Choices by rank depend on no generator, no platform and no order of the file, and adding items never reshuffles
    the others.
    """
    return hashlib.sha256("|".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).digest()


def sample_items(
    items: Iterable[Item], n: int | None, seed: int, task_id: str, hash_seed: str = DEFAULT_HASH_SEED
) -> list[Item]:
    """The first ``n`` items by hash rank; ``None`` takes all of them.

    The choice is the same everywhere and nested: the 10 are among the first 500. They come in rank order, but items of
    one cluster follow one another, at the rank that the first of them by id has: whatever takes a beginning of them (a
    look, the part that chooses) takes whole clusters. Raises :class:`DataError` where ``n`` is negative.
    """
    if n is not None and n < 0:
        raise DataError(f"cannot sample {n} items of task '{task_id}'", hint="give a number of 0 or more")
    known = list(items)
    ids = [item.item_id for item in known]
    ranks = {item_id: (rank_of(hash_seed, seed, task_id, item_id), item_id) for item_id in ids}
    chosen = sorted(known, key=lambda item: ranks[item.item_id])[:n]
    leaders: dict[str, str] = {}
    for item in chosen:
        leaders[item.cluster] = min(leaders.get(item.cluster, item.item_id), item.item_id)
    return sorted(chosen, key=lambda item: (ranks[leaders[item.cluster]], ranks[item.item_id]))


def exemplars(train_items: Iterable[Item], k: int, hash_seed: str = DEFAULT_HASH_SEED) -> list[Item]:
    """The ``k`` fixed exemplars of a training split: the first by hash rank, whatever the run's seed.

    Raises :class:`DataError` where the split has fewer items.
    """
    ranked = sorted(train_items, key=lambda one: (rank_of(hash_seed, "exemplars", one.item_id), one.item_id))
    if k > len(ranked):
        raise DataError(f"{k} exemplars asked for, but the training split has {len(ranked)} items")
    return ranked[:k]


def unscored_items(
    items: Iterable[Item], count: int, seed: int, task_id: str, hash_seed: str = DEFAULT_HASH_SEED
) -> list[Item]:
    """The ``count`` items that :func:`sample_items` would take last, the very last first; all where there are fewer.

    They are the same whatever part of the items is scored, as long as that leaves them over. Items whose input
    stands in the split more than once are none of them.
    """
    known = list(items)
    times = Counter(item.input_text for item in known)
    ranks = {item.item_id: (rank_of(hash_seed, seed, task_id, item.item_id), item.item_id) for item in known}
    single = [item for item in known if times[item.input_text] == 1]
    return sorted(single, key=lambda item: ranks[item.item_id], reverse=True)[:count]


def closed_answers(items: Iterable[Item]) -> int | None:
    """How many answers a task with these items allows: its labels or options, and one for anything else.

    ``None`` where the truths name no closed set, or so many that the answers are as good as open.
    """
    labels: set[str] = set()
    for item in items:
        stated = [str(item.truth[key]) for key in LABEL_KEYS if key in item.truth]
        if not stated:
            return None
        labels.update(stated)
        labels.update(str(option) for option in item.truth.get("choices") or ())
    return len(labels) + 1 if 2 <= len(labels) <= CLOSED_UP_TO else None


def majority_class(items: Iterable[Item]) -> tuple[str, float] | None:
    """The most frequent true label of a task with a closed set of answers, and its share of the items.

    Of equally frequent labels it is the first by name. ``None`` where the answers are open (:func:`closed_answers`).
    """
    known = list(items)
    if closed_answers(known) is None:
        return None
    counts = Counter(next(str(item.truth[key]) for key in LABEL_KEYS if key in item.truth) for item in known)
    label, times = min(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return label, times / len(known)


def split_off(items: Sequence[Item], n: int, name: str, seed: int) -> tuple[list[Item], list[Item]]:
    """Part ``items`` into ``n`` for the split ``name`` and the rest, both in the given order; returns both.

    Items of one cluster and items with the same input (case and spacing aside) always fall on the same side, so that a
    split-off development set shares no question, and no customer, with what remains. Groups are ranked by the hash of
    the text of their first item and taken while they fit, so the part has exactly ``n`` items unless only larger groups
    are left.
    """
    texts = [text_key(item.input_text) for item in items]
    groups: dict[str, list[int]] = {}
    names: dict[str, str] = {}
    for position, label in enumerate(joined_labels(texts, [item.cluster for item in items])):
        groups.setdefault(names.setdefault(label, texts[position]), []).append(position)
    chosen: set[int] = set()
    for text in sorted(groups, key=lambda text: rank_of(name, seed, text)):
        if len(chosen) + len(groups[text]) <= n:
            chosen.update(groups[text])
        if len(chosen) == n:
            break
    part = [item for position, item in enumerate(items) if position in chosen]
    rest = [item for position, item in enumerate(items) if position not in chosen]
    return part, rest
