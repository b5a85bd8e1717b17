"""Writing the samples of foreign logs into a run: whole, once, and with nothing left out in silence."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pcsuite import __version__
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.mappings import flatten
from pcsuite.data.clusters import input_cluster, text_key
from pcsuite.errors import ConfigError, DataError, LogError, did_you_mean
from pcsuite.evaluation.base import Parsed
from pcsuite.importers.base import (
    FORMATS,
    UNKNOWN,
    ImportedSample,
    LogHeader,
    ReadOptions,
    SourceLog,
    detect_format,
    open_log,
)
from pcsuite.importers.values import quoted_names, short_name
from pcsuite.logging import manifest as manifests
from pcsuite.logging import row as log_row
from pcsuite.logging.log import RunLog, RunPaths, iter_rows

DEFAULT_CONDITION = "imported"


@dataclass(frozen=True, slots=True)
class ImportOptions(ReadOptions):
    """What the user says about the logs, and what becomes of them."""

    measures: Sequence[str] = ()
    """Names of scores, of which each log must have exactly one; none where every log has only one."""
    also: Sequence[str] = ()
    """Further measures that are compared beside the score; ``all`` for every one that a log has."""
    condition: str | None = None
    condition_from: str | None = None
    """A key of the header, by dots, whose value names the condition."""
    family: str = UNKNOWN
    size: str = UNKNOWN
    first_seed: int = 1
    by_content: bool = False
    """Whether items are named by their content instead of their id."""
    replace: bool = False
    """Whether rows of another evaluation in the same cell may be replaced."""
    cluster: Sequence[str] = ()
    """Columns, variables or metadata of the items that say which are related."""
    task: str | None = None
    """Name of the task, instead of the log's."""


class ReplicateKey(NamedTuple):
    """What a set of rows is about; each item has one row in it."""

    task: str
    model: str
    condition: str
    decoding: str
    seed: int


@dataclass(frozen=True, slots=True)
class ImportedEvaluation:
    """What is the same for all rows of one imported log."""

    format: str
    header: LogHeader
    measure: str
    """The measure that becomes the score."""
    condition: str
    options: ImportOptions

    @property
    def origin(self) -> str:
        """What its rows name as profile, engine and template: ``imported:inspect``."""
        return f"{log_row.IMPORTED}{self.format}"

    @property
    def decoding(self) -> log_row.DecodingRef:
        """The decoding regime, named after what the log says of it: ``t0.7-p0.95``, ``default`` if nothing.

        A log by likelihood has a regime of that name instead.
        """
        header = self.header
        name = header.regime
        if name is None and header.temperature is None:
            name = "default"
        elif name is None:
            name = f"t{header.temperature:g}"
            name += f"-p{header.top_p:g}" if header.top_p not in (None, 1) else ""
        return log_row.DecodingRef(name, header.temperature, header.top_p, header.max_tokens)

    @property
    def keys(self) -> list[ReplicateKey]:
        """What its rows will be about, one key for each seed: repetitions are numbered on.

        ``--first-seed`` says where the numbers begin.
        """
        header, first = self.header, self.options.first_seed
        cell = (header.task, header.model, self.condition, self.decoding.id)
        return [ReplicateKey(*cell, seed) for seed in range(first, first + header.epochs)]

    def row(self, sample: ImportedSample) -> log_row.RunRow:
        """A sample's row; the same sample always gives the same row.

        A sample that failed, or that the tool left unscored, gives a row with the reason among its errors and no
        metrics. Measures other than the score are kept under the format's name.
        """
        header, measure, usage = self.header, self.measure, sample.usage
        item = sha256_hex(sample.content)[:16] if self.options.by_content else sample.item_id
        seed = self.options.first_seed + sample.epoch - 1
        defining = [header.tool, header.task, item, header.model, self.condition, self.decoding.id, str(seed)]
        errors, metrics, parsed = [], {}, None
        if sample.error is not None:
            errors = [f"{header.tool}: {' '.join(sample.error.split())[:300]}"]
        elif sample.scores.get(measure) is None:
            errors = [f"not scored by {measure}: {sample.unscored or 'no reason in the log'}"]
        else:
            metrics = {"task_score": sample.scores[measure]}
            for name, value in sample.scores.items():
                if name != measure and value is not None:
                    metrics[f"{self.format}:{name}"] = value
            if usage is not None:
                metrics["token_cost"] = usage.total_tokens
            if sample.cost_usd is not None:
                metrics["cost_usd"] = sample.cost_usd
            notes = list(sample.remarks)
            if measure in sample.unmapped:
                notes.append(f"the value '{sample.unmapped[measure]}' is no number; the tool counts it as 0")
            parsed = Parsed(answer=sample.answer, parse_errors=notes)
            parsed.settle_reading()
        generation = None
        if sample.text is not None or sample.error is None:
            generation = log_row.GenerationRecord(
                text=sample.text or "",
                finish_reason=sample.finish_reason,
                latency_ms=sample.latency_ms,
                usage=usage,
                tool_calls=sample.tool_calls,
            )
        return log_row.RunRow(
            run_id=sha256_hex(json.dumps(defining)),
            timestamp_utc=sample.finished_at or header.created,
            profile=self.origin,
            config_hash="",
            pcsuite_version=__version__,
            git_commit=header.commit,
            task=log_row.TaskRef(header.task, header.split, item, self._cluster(sample)),
            model=log_row.ModelRef(header.model, self.options.family, self.options.size, self.origin),
            condition=log_row.ConditionRef(self.condition, ()),
            decoding=self.decoding,
            seed=seed,
            seed_honoured=False,
            perturbation=log_row.PerturbationRef(),
            prompt=log_row.PromptRecord(
                prompt_hash=sha256_hex(sample.prompt),
                schema_hash=None,
                template=self.origin,
                rendered_chars=len(sample.prompt),
                prompt_tokens=usage.prompt_tokens if usage is not None else None,
                padded=0,
            ),
            generation=generation,
            parsed=parsed,
            metrics=metrics,
            errors=errors,
            engine={"tool": header.tool, "tool_version": header.tool_version, "source": header.source},
            outcome="failed" if sample.error is not None else log_row.outcome_of(sample.finish_reason),
        )

    @property
    def compared(self) -> Sequence[str]:
        """The measures that are compared beside the score."""
        return self.header.measures if "all" in self.options.also else self.options.also

    @property
    def score_range(self) -> tuple[float, float] | None:
        """The least and largest value of the score, where the user or the tool says so."""
        return self.options.range or self.header.ranges.get(self.measure)

    def _cluster(self, sample: ImportedSample) -> str:
        """What names the item's cluster: columns that the user chose, the log's own word, or what the item asks."""
        alone = sample.cluster or input_cluster(sample.content, {})
        if not self.options.cluster:
            return alone
        for name in self.options.cluster:
            if name not in sample.attributes:
                raise DataError(
                    f"item {sample.item_id}: no column '{name}' to cluster items by (--cluster)",
                    hint=did_you_mean(name, sample.attributes) if sample.attributes else "the log keeps none",
                )
        parts = [text_key(sample.attributes[name]) for name in self.options.cluster]
        return " · ".join(parts) if any(parts) else alone

    def metric_entry(self, name: str, extent: tuple[float, float]) -> dict[str, Any]:
        """What a manifest says of a measure whose values were seen to lie within ``extent``."""
        is_score = name == self.measure
        declared = self.score_range if is_score else self.header.ranges.get(name)
        if declared is None and extent[0] >= 0 and extent[1] <= 1:
            declared = (0.0, 1.0)
        ends = [end if math.isfinite(end) else None for end in declared or (math.inf, math.inf)]
        return {
            "label": name,
            "higher_is_better": name not in self.header.lower_is_better,
            "range": ends,
            "compared": ["effects", "compare"] if is_score or name in self.compared else [],
            **({"type": "primary", "shown": ["verdicts"]} if is_score else {}),
        }


@dataclass(slots=True)
class ImportedLog:
    """What became of one log."""

    path: Path
    evaluation: ImportedEvaluation
    samples: int = 0
    items: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Samples without a score by reason; each has a row that says so."""
    remarks: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    """Values of the score that are no number."""
    mean: float | None = None
    """Mean of the score, repetitions averaged within the item first."""
    sample_mean: float | None = None
    """Mean of the score over samples: another one where items have unequal numbers of repetitions."""
    extents: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The least and largest value of each measure."""

    @property
    def reported(self) -> float | None:
        """The mean that the tool itself reports for the score, ``None`` where it reports none."""
        return self.evaluation.header.reported.get(self.evaluation.measure)

    @property
    def agrees(self) -> bool | None:
        """Whether our mean, over items or over samples, is the tool's to nine digits; ``None`` where it reports none.

        A difference means that the tool's figure is not the plain mean over samples, or that the log is not
        whole.
        """
        if self.reported is None or self.mean is None or self.sample_mean is None:
            return None
        means = (self.mean, self.sample_mean)
        return any(math.isclose(mean, self.reported, rel_tol=1e-9, abs_tol=1e-12) for mean in means)

    @property
    def open_range(self) -> str:
        """What is to be said of a score that leaves 0..1 though nobody said what it can be; empty where that is known.

        Such a score is an amount: nothing bounds what is missing, and its limits rest on sign flips.
        """
        low, high = self.extents.get(self.evaluation.measure, (0.0, 1.0))
        if self.evaluation.score_range is not None or (low >= 0 and high <= 1):
            return ""
        return (
            f"{self.evaluation.measure} has values from {low:g} to {high:g} and no known range: --range LOW,HIGH says"
            " what it can be (--range none: anything)"
        )

    @property
    def missing(self) -> int:
        """Samples that the evaluation should have had and the log has not.

        0 where the log does not say how many there should be.
        """
        return max(0, (self.evaluation.header.expected or 0) - self.samples)


def import_logs(
    format_name: str | None, logs: Sequence[Path], paths: RunPaths, options: ImportOptions | None = None
) -> list[ImportedLog]:
    """Write every sample of the logs as a row of the run; what is there already is left alone.

    ``format_name`` is a registered format (``inspect``, ``promptfoo``, …), or ``None`` to know each log by its content;
    ``logs`` are its files or folders of them. Returns what became of each evaluation: a file may hold several. Raises
    :class:`DataError` where a log cannot be read, :class:`ConfigError` where two evaluations would be mixed or the
    score is not clear, :class:`LogError` on a run of our own.
    """
    options = options or ImportOptions()
    log_files: dict[Path, str] = {}
    for place in logs:
        if not place.exists():
            raise DataError(f"{place}: no such file or folder")
        name = format_name or detect_format(place)
        matching = FORMATS.get(name).find(place)
        if not matching:
            raise DataError(f"{place}: no log of {name} in this folder")
        log_files |= dict.fromkeys(matching, name)
    opened: list[tuple[Path, SourceLog, str]] = []
    try:
        for path, name in log_files.items():
            opened += [(path, source, name) for source in open_log(name, path, options)]
        opened.sort(key=lambda entry: entry[1].header.created)  # of several tries the newest row counts
        return write_evaluations(opened, paths, options)
    finally:
        for _, source, _ in opened:
            source.close()


def write_evaluations(
    opened: Sequence[tuple[Path, SourceLog, str]], paths: RunPaths, options: ImportOptions
) -> list[ImportedLog]:
    """Write evaluations that are open, each with its file and the name of its format; see :func:`import_logs`."""
    outcomes = []
    for path, source, name in opened:
        header = source.header
        if options.task is not None:
            header = replace(header, task=options.task)
        measure = choose_measure(path.name, header, options.measures)
        condition = options.condition or header.condition or DEFAULT_CONDITION
        if options.condition_from:
            condition = header_value(path.name, header.fields, options.condition_from)
        for further in options.also:
            if further != "all" and further not in header.measures:
                hint = did_you_mean(further, header.measures)
                raise ConfigError(f"{path.name} has no score '{further}' (--also)", hint=hint)
        outcomes.append(ImportedLog(path, ImportedEvaluation(name, header, measure, condition, options)))
    expected = _expected_sources(outcomes)
    with RunLog(paths) as log:
        digests = _known_rows(paths, {} if options.replace else expected)
        for outcome, (_, source, _) in zip(outcomes, opened, strict=True):
            _import(outcome, source, log, digests)
    _describe(paths.log, outcomes)
    return outcomes


def choose_measure(file: str, header: LogHeader, requested: Sequence[str]) -> str:
    """The score of a log: the only one it has, or the one that ``requested`` names.

    A filter need not be named where a metric has only one (``exact_match`` for ``exact_match,strict``). Raises
    :class:`ConfigError` where several or none are meant, or where lower would be better.
    """
    if not header.measures:
        failed = next((remark for remark in header.remarks if "did not end well" in remark), None)
        hint = failed or "score the log with its tool first"
        raise DataError(f"{file}: no sample has a score", hint=hint)
    if not requested and header.primary is not None:
        return header.primary
    if not requested and len(header.measures) > 1:
        hint = "choose one with --metric NAME"
        raise ConfigError(f"{file} has several scores: {quoted_names(header.measures)}", hint=hint)
    chosen = [] if requested else list(header.measures)
    for word in requested:
        exact = [name for name in header.measures if name == word]
        chosen += exact or [name for name in header.measures if name.rpartition(",")[0] == word]
    if not chosen:
        raise ConfigError(
            f"{file} has no score '{requested[0]}'", hint=did_you_mean(requested[0], header.measures)
        )
    if len(set(chosen)) > 1:
        raise ConfigError(f"{file} has all of {quoted_names(chosen)}", hint="name one score for each log")
    if chosen[0] in header.lower_is_better:
        raise ConfigError(
            f"{file}: {chosen[0]} is better when lower, and comparisons take a higher score as better",
            hint="choose another score with --metric",
        )
    return chosen[0]


def header_value(file: str, fields: Mapping[str, Any], path: str) -> str:
    """The value at a dotted key of a header, as the name of a condition.

    An empty value is called ``none``; a long one is cut and ends in a hash. Raises :class:`ConfigError`
    where the header has no such key.
    """
    scalars = (type(None), str, int, float, bool)
    leaves = {name: value for name, value in flatten(fields) if isinstance(value, scalars)}
    if path not in leaves:
        raise ConfigError(f"{file}: the header has no value '{path}'", hint=did_you_mean(path, leaves))
    return short_name(str(leaves[path] if leaves[path] not in (None, "") else "none"))


def _expected_sources(outcomes: Sequence[ImportedLog]) -> dict[ReplicateKey, str]:
    """Which evaluation each set of rows comes from; two of them in one are a mistake, two tries of one are not."""
    first_logs: dict[ReplicateKey, ImportedLog] = {}
    for outcome in outcomes:
        for key in outcome.evaluation.keys:
            other = first_logs.setdefault(key, outcome)
            if other.evaluation.header.source != outcome.evaluation.header.source:
                raise _clash(key, f"{outcome.path.name} and {other.path.name} are")
    return {key: outcome.evaluation.header.source for key, outcome in first_logs.items()}


def _clash(key: ReplicateKey, what: str) -> ConfigError:
    return ConfigError(
        f"{what} different evaluations of the same cell ({key.task}, {key.model}, condition {key.condition},"
        f" {key.decoding})",
        hint="tell them apart with --condition or --condition-from, number repetitions on with --first-seed,"
        " or import one under another --name; --replace lets the new rows count",
    )


def _known_rows(paths: RunPaths, expected: Mapping[ReplicateKey, str]) -> dict[bytes, bytes]:
    """Digest of the newest row by run id; a run of our own, or another evaluation in the way, is refused."""
    digests: dict[bytes, bytes] = {}
    for row in iter_rows(paths.log) if paths.log.exists() else ():
        if not row.profile.startswith(log_row.IMPORTED):
            hint = "import under another name with --name"
            raise LogError(f"{paths.log} is a run of pcsuite itself", hint=hint)
        key = ReplicateKey(row.task.id, row.model.id, row.condition.id, row.decoding.id, row.seed)
        if key in expected and row.engine.get("source") != expected[key]:
            raise _clash(key, f"rows of {paths.log.name} and the log to import are")
        digests[bytes.fromhex(row.run_id[:32])] = _row_digest(row)
    return digests


def _row_digest(row: log_row.RunRow) -> bytes:
    """What a row says, whichever version of the suite wrote it."""
    # An update of the suite must not make every imported row a changed one.
    plain = msgspec.structs.replace(row, pcsuite_version="")
    return hashlib.blake2b(log_row.encode_row(plain), digest_size=16).digest()


def _check_range(outcome: ImportedLog, score: float, item: str) -> None:
    """Refuse a score that its declared range does not hold: limits, margins and what is missing are reckoned by it."""
    declared = outcome.evaluation.score_range
    if declared is not None and not declared[0] <= score <= declared[1]:
        raise DataError(
            f"{outcome.path}: item {item} has the score {score:g} by {outcome.evaluation.measure}, outside its range of"
            f" {declared[0]:g} to {declared[1]:g}"
        )


def _import(outcome: ImportedLog, source: SourceLog, log: RunLog, digests: dict[bytes, bytes]) -> None:
    """Append the rows that are new or changed, and count them."""
    evaluation = outcome.evaluation
    scores: dict[str, list[float]] = {}
    keys: set[bytes] = set()
    for sample in source.samples(evaluation.measure):
        row = evaluation.row(sample)
        key = bytes.fromhex(row.run_id[:32])
        if key in keys:
            raise DataError(
                f"{outcome.path}: item {row.task.item_id}, repetition {sample.epoch} is there twice",
                hint="items with the same content need their ids" if evaluation.options.by_content else None,
            )
        keys.add(key)
        outcome.samples += 1
        outcome.errors.update(row.errors)
        outcome.remarks.update(sample.remarks)
        if evaluation.measure in sample.unmapped:
            outcome.unmapped[sample.unmapped[evaluation.measure]] += 1
        of_item = scores.setdefault(row.task.item_id, [])
        if (score := row.metrics.get("task_score")) is not None:
            _check_range(outcome, score, row.task.item_id)
            of_item.append(score)
            for name, value in sample.scores.items():
                if value is not None:
                    low, high = outcome.extents.get(name, (value, value))
                    outcome.extents[name] = (min(low, value), max(high, value))
        digest = _row_digest(row)
        if digests.get(key) == digest:
            outcome.unchanged += 1
            continue
        outcome.changed += key in digests
        outcome.new += key not in digests
        digests[key] = digest
        log.append(row, sample.prompt)
    outcome.items = len(scores)
    means = [math.fsum(values) / len(values) for values in scores.values() if values]
    outcome.mean = math.fsum(means) / len(means) if means else None
    every = [score for values in scores.values() for score in values]
    outcome.sample_mean = math.fsum(every) / len(every) if every else None


def _describe(log: Path, outcomes: Sequence[ImportedLog]) -> None:
    """Add what was imported to the manifest of the run, where the report looks for it."""
    try:
        manifest = manifests.read_manifest(log) or manifests.RunManifest()
    except LogError:
        manifest = manifests.RunManifest()
    manifest.run, manifest.pcsuite_version, manifest.length_control = log.stem, __version__, "off"
    for outcome in outcomes:
        evaluation, file = outcome.evaluation, outcome.path.name
        header, decoding = evaluation.header, evaluation.decoding
        manifest.profile = evaluation.origin
        source = f"imported from {header.tool} {header.tool_version} ({file})"
        earlier = manifest.tasks[header.task].source if header.task in manifest.tasks else source
        manifest.tasks[header.task] = manifests.TaskNote(
            title=header.task,
            kind="imported",
            primary_metric=evaluation.measure,
            # A scorer may well log counts named tp, fp and fn; its own score counts all the same.
            pooling="mean",
            items=outcome.items,
            source=earlier if file in earlier else f"{earlier}; {source}",
            max_tokens=header.max_tokens or 0,
        )
        manifest.models[header.model] = manifests.ModelNote(
            evaluation.origin, evaluation.options.family, evaluation.options.size
        )
        for name, extent in outcome.extents.items():
            is_score = name == evaluation.measure
            key = "task_score" if is_score else f"{evaluation.format}:{name}"
            entry = evaluation.metric_entry(name, extent)
            # A range that one log stays within another may leave: the wider word counts for both.
            known = manifest.metrics.get(key, {})
            if known.get("range") in (None, [0.0, 1.0]):
                manifest.metrics[key] = entry
        manifest.conditions[evaluation.condition] = manifests.ConditionNote(evaluation.condition)
        manifest.regimes[decoding.id] = {"temperature": decoding.temperature, "top_p": decoding.top_p}
    manifests.write_manifest(log, manifest)
