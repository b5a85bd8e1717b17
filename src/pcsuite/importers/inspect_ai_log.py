"""Logs of inspect_ai: ``.eval`` (a zip of JSON members) and ``.json`` (one document), read without that package.

Layout of a ``.eval`` file (log schema 2): ``header.json`` once the evaluation ended, ``_journal/start.json``
from its start, and one member ``samples/<id>_epoch_<n>.json`` a sample. A sample may also be in chunks: then
``samples/<id>_epoch_<n>/sample.json`` is its shell, and messages and attachments are numbered sequences beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.text import describe
from pcsuite.errors import DataError
from pcsuite.importers.base import UNKNOWN, ImportedSample, LogHeader, ReadOptions
from pcsuite.importers.documents import JsonDocument, ZipMembers
from pcsuite.importers.inspect_sample import Sample, ScoreResult, flat_values, imported_sample, reported_means
from pcsuite.importers.shapes import FileShape
from pcsuite.importers.values import decode_json

NEWEST_SCHEMA = 2
"""The newest log schema this reader knows."""
_MEMBER = re.compile(r"^samples/(.*)_epoch_(\d{1,9})(?:/sample)?\.json$", re.DOTALL)
_SHELL = re.compile(r"^(samples/.*_epoch_\d+)/sample\.json$")
_CHUNK = re.compile(r"^samples/.*_epoch_\d+/(?:messages|events|calls|attachments)/\w+\.json$")
_SIDECAR = re.compile(r"^samples/.*_epoch_\d+/(?:metadata|skeleton)\.json$")


class _Config(msgspec.Struct):
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


class _Dataset(msgspec.Struct):
    samples: int | None = None
    sample_ids: list[Any] | None = None
    shuffled: bool | None = None


class _EvalConfig(msgspec.Struct):
    epochs: int | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _Eval(msgspec.Struct):
    task: str
    model: str
    task_id: str = ""
    eval_id: str = ""
    run_id: str = ""
    created: str = ""
    dataset: _Dataset = msgspec.field(default_factory=_Dataset)
    config: _EvalConfig = msgspec.field(default_factory=_EvalConfig)
    model_generate_config: _Config = msgspec.field(default_factory=_Config)
    revision: dict[str, Any] | None = None
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    scorers: list[_Named] | None = None
    metadata: dict[str, Any] | None = None


class _Plan(msgspec.Struct):
    config: _Config = msgspec.field(default_factory=_Config)


class _Results(msgspec.Struct):
    total_samples: int = 0
    scores: list[ScoreResult] = msgspec.field(default_factory=list)


class _Header(msgspec.Struct):
    eval: _Eval
    version: int = 1
    status: str = "started"
    plan: _Plan = msgspec.field(default_factory=_Plan)
    results: _Results | None = None
    error: dict[str, Any] | None = None
    invalidated: bool = False


class _EvalFile:
    """A ``.eval`` file."""

    def __init__(self, path: Path) -> None:
        self._members = ZipMembers(path)

    def header(self) -> bytes:
        for name in ("header.json", "_journal/start.json"):
            if name in self._members:
                return self._members.read(name)
        raise DataError(f"{self._members.path}: no header.json inside", hint="is this a log of inspect_ai?")

    def samples(self) -> Iterator[tuple[str, bytes, Mapping[str, Any]]]:
        """Place, JSON text, and what lies beside a sample in chunks."""
        names = [name for name in self._members.names if name.startswith("samples/")]
        chunked = {match.group(1): name for name in names if (match := _SHELL.match(name))}
        # Chunks of messages and attachments by sample, in order of their numbers.
        sequences: dict[str, list[str]] = {}
        for name in names if chunked else ():
            prefix, _, rest = name.rpartition("_epoch_")
            epoch, kind, chunk, *_ = [*rest.split("/")[:3], "", ""]
            if kind in ("messages", "attachments") and chunk.removesuffix(".json").isdigit():
                sequences.setdefault(f"{prefix}_epoch_{epoch}", []).append(name)
        for chunks in sequences.values():
            chunks.sort(key=lambda name: int(name.rpartition("/")[2].removesuffix(".json")))
        for name in names:
            if not name.endswith(".json"):
                continue
            shell = _SHELL.match(name)
            if shell is not None:
                pool: dict[str, list[Any]] = {"messages": [], "attachments": []}
                chunks = sequences.get(shell.group(1), [])
                self._members.check_together(chunks)
                for chunk in chunks:
                    problem = f"{self._members.path}: {chunk} cannot be read"
                    pool[chunk.split("/")[-2]] += decode_json(self._members.read(chunk), list[Any], problem)
                numbered = {str(index): text for index, text in enumerate(pool["attachments"])}
                beside = {"message_pool": pool["messages"], "attachments": numbered}
                yield name, self._members.read(name), beside
            elif not chunked or not (_CHUNK.match(name) or _SIDECAR.match(name)):
                yield name, self._members.read(name), {}

    def close(self) -> None:
        self._members.close()


class _JsonFile:
    """A ``.json`` log."""

    def __init__(self, path: Path) -> None:
        self._document = JsonDocument(path)

    def header(self) -> bytes:
        parts = self._document.values(without="samples")
        parts.pop("reductions", None)
        if "eval" not in parts:
            raise DataError(f"{self._document.path}: no key 'eval'", hint="is this a log of inspect_ai?")
        return b"{" + b",".join(b'"%s":%s' % (key.encode(), value) for key, value in parts.items()) + b"}"

    def samples(self) -> Iterator[tuple[str, bytes, Mapping[str, Any]]]:
        for number, element in enumerate(self._document.elements("samples"), start=1):
            yield f"sample {number}", element, {}

    def close(self) -> None:
        self._document.close()


class InspectLog:
    """One log of inspect_ai."""

    def __init__(self, path: Path, *, model: str | None = None) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                # By content, not by name: people rename files.
                is_zip = stream.read(2) == b"PK"
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
        self._files = _EvalFile(path) if is_zip else _JsonFile(path)
        try:
            self.header = self._read_header(model)
        except BaseException:
            self._files.close()
            raise

    def samples(self, measure: str) -> Iterator[ImportedSample]:
        """Every sample, one at a time, with all its measures.

        ``measure`` decides which score's answer and reason are kept. A sample that can be read and makes no sense
        (a model nests its tool calls as deep as it likes) is one with an error. Raises :class:`DataError` on a
        damaged sample.
        """
        for sample in self._samples():
            try:
                imported = imported_sample(sample, measure, self._model)
            except Exception as error:
                odd = Sample(sample.id, sample.epoch, error={"message": f"cannot be read: {describe(error)}"})
                imported = imported_sample(odd, measure, self._model)
            yield imported

    def close(self) -> None:
        self._files.close()

    def _read_header(self, model: str | None) -> LogHeader:
        raw, problem = self._files.header(), f"{self.path}: the header cannot be read"
        header, fields = decode_json(raw, _Header, problem), decode_json(raw, dict[str, Any], problem)
        spec, config = header.eval, header.plan.config
        self._model = spec.model
        self._first_scorer = next((entry.name for entry in spec.scorers or []), "score")
        epochs = spec.config.epochs or 1
        total = header.results.total_samples if header.results else 0
        expected = total or len(spec.dataset.sample_ids or []) * epochs or None
        base = spec.model_generate_config
        results = header.results.scores if header.results is not None else []
        condition = (spec.metadata or {}).get("condition")
        return LogHeader(
            tool="inspect_ai",
            tool_version=spec.packages.get("inspect_ai", "unknown"),
            source=spec.task_id or spec.eval_id or spec.run_id or spec.created,
            task=spec.task,
            split=UNKNOWN,
            model=model or spec.model,
            measures=self._measures(results),
            **{
                name: getattr(base if getattr(config, name) is None else config, name)
                for name in ("temperature", "top_p", "max_tokens")
            },
            epochs=epochs,
            expected=expected,
            condition=str(condition) if isinstance(condition, (str, int)) and condition != "" else None,
            created=spec.created,
            commit=str((spec.revision or {}).get("commit") or "") or None,
            reported=reported_means(results),
            fields=fields,
            remarks=tuple(_remarks(header)),
        )

    def _measures(self, results: list[ScoreResult]) -> tuple[str, ...]:
        """Names of values in the first samples, then what else is reported; NaN at the root hides a scorer's keys."""
        names: dict[str, None] = {}
        nested: set[str] = set()
        for looked, sample in enumerate(self._samples(), start=1):
            for name, _ in flat_values(sample.scores or {}):
                names.setdefault(name)
            scores = (sample.scores or {}).items()
            nested |= {name for name, score in scores if isinstance(score.value, (dict, list))}
            if names and looked >= 50:
                break
        for result in results:
            names.setdefault(result.measure)
        return tuple(name for name in names if name not in nested)

    def _samples(self) -> Iterator[Sample]:
        for where, raw, beside in self._files.samples():
            try:
                sample = decode_json(raw, Sample, f"{self.path}: {where} cannot be read")
            except DataError as error:
                if (
                    not isinstance(error.__cause__, RecursionError)
                    and "nested more than" not in error.message
                ):
                    raise
                named = _MEMBER.match(where)
                item, epoch = (named[1], int(named[2])) if named else (where, 1)
                sample = Sample(item, epoch, error={"message": "cannot be read: nested too deep"})
            if sample.score is not None and sample.scores is None:  # log schema 1
                sample.scores = {self._first_scorer: sample.score}
            if beside:
                sample.restore(**beside)
            yield sample


class InspectFormat:
    """inspect_ai's two log formats."""

    def find(self, path: Path) -> list[Path]:
        """The file itself, or every log below a folder.

        Of a folder every ``.eval`` file counts, and ``.json`` files whose name begins with a time.
        """
        if not path.is_dir():
            return [path]
        # Folders also hold logs.json, eval-set.json and the like.
        is_log = re.compile(r".*\.eval$|\d{4}-\d{2}-\d{2}T.*\.json$")
        return sorted(file for file in path.rglob("*") if is_log.match(file.name) and file.is_file())

    def recognises(self, shape: FileShape) -> bool:
        """A zip with a header inside, or a document whose first keys are those of an evaluation."""
        if shape.is_zip:
            return b"_journal/" in shape.head or b"header.json" in shape.head or shape.path.suffix == ".eval"
        return shape.has("eval", "task", "model") and shape.has("eval_id") | shape.has("task_id")

    def open(self, path: Path, options: ReadOptions) -> Sequence[InspectLog]:
        return [InspectLog(path, model=options.model)]


FORMAT = InspectFormat()


def _remarks(header: _Header) -> Iterator[str]:
    if header.version > NEWEST_SCHEMA:
        yield f"log schema {header.version} is newer than this reader ({NEWEST_SCHEMA}): check the figures"
    if header.status != "success":
        message = str((header.error or {}).get("message", "")).strip()
        yield f"the evaluation did not end well (status '{header.status}'){f': {message}' if message else ''}"
    if header.invalidated:
        yield "samples of this log were invalidated; they are imported as they are"
    ids = header.eval.dataset.sample_ids or []
    if header.eval.dataset.shuffled and ids and all(isinstance(name, int) for name in ids):
        yield (
            "the dataset was shuffled and its samples are only numbered: numbers may stand for other items in"
            " another run (--match-by content pairs by question and target)"
        )
