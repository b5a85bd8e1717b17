"""Runs from Python: ``run``, ``read``, ``report``, ``compare`` and ``effects``, which the commands call too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pcsuite._util.text import commonest, shorten
from pcsuite.analysis.analyse import analyse_scores
from pcsuite.analysis.asked_items import cluster_labels, clustered_scores
from pcsuite.analysis.baseline import Baseline, is_baseline
from pcsuite.analysis.compare import JudgedSide, compare_runs
from pcsuite.analysis.comparison import Comparison, Correction
from pcsuite.analysis.frame import Frame, RowsFrame
from pcsuite.analysis.load.item_scores import CellKey, ItemScores, item_scores, items_at_hand, truth_texts
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY, METRIC_PREFIX, USABLE, sql_name, sql_text
from pcsuite.analysis.metrics import Metrics, metrics_of
from pcsuite.analysis.table import CELL, Column, Table, TableSpec
from pcsuite.api.comparing import Sides, condition_pairs, of_condition, with_posterior
from pcsuite.api.imports import Scratch, import_in_passing, is_own_log
from pcsuite.api.profiles import Profile, load
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.profile import MissingAnswers
from pcsuite.config.spellings import column_names
from pcsuite.contrasts import Assumption
from pcsuite.data.items import Item
from pcsuite.errors import AnalysisError, ConfigError, did_you_mean
from pcsuite.logging.log import iter_newest_rows
from pcsuite.logging.manifest import MergedManifest, read_manifests
from pcsuite.logging.row import IMPORTED
from pcsuite.logging.segments import find_log, log_exists
from pcsuite.reporting.build import ReportFiles, build_report
from pcsuite.reporting.results import Result, result_of
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.run_suite import LOCAL, RunSummary, run_suite, run_suite_async
from pcsuite.runners.task_plan import plan_task

if TYPE_CHECKING:
    from pcsuite.view.serving import Serving


def run(
    profile: Profile,
    *,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    deviation: str | None = None,
    batch: bool = False,
    **overrides: Any,
) -> Run:
    """Run a profile, or go on with it, and return its result; works inside a running event loop too.

    ``profile`` is the name of a bundled profile, a file, a mapping with a profile's content, or what :func:`load`
    returned; ``overrides`` are those of :func:`load`. Rows that are in the log are not asked again; ``batch`` sends the
    others through the providers' batch APIs. Raises what ends a run early (``BudgetExceededError``,
    ``ErrorRateError``) and ``ConfigError`` for a profile that is wrong.

        pcs.run("quickstart", models="smollm2-135m", limit=20).effects()
    """
    suite = load(profile, **overrides)
    summary = run_suite(
        suite, quiet=quiet, use_cache=use_cache, executor=executor, deviation=deviation, batch=batch
    )
    return Run(summary.paths.log, suite, summary)


async def arun(
    profile: Profile,
    *,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    deviation: str | None = None,
    batch: bool = False,
    **overrides: Any,
) -> Run:
    """:func:`run` to be awaited: the caller's loop stays free, and cancelling ends the run in order.

    result = await pcs.arun("quickstart", limit=20)
    """
    suite = load(profile, **overrides)
    summary = await run_suite_async(
        suite, quiet=quiet, use_cache=use_cache, executor=executor, deviation=deviation, batch=batch
    )
    return Run(summary.paths.log, suite, summary)


def read(run: str | Path, *, output_dir: str | Path = "outputs", profile: Profile | None = None) -> Run:
    """A run that was made earlier: by its name below ``output_dir``, or its log.

    With its ``profile`` the items are at hand too. Raises ``ConfigError`` where there is no such run.

        pcs.read("quickstart").rows().to_pandas()
    """
    return Run(find_log(run, output_dir), None if profile is None else load(profile))


ITEMS = TableSpec(
    "items",
    "Scores of items",
    "item of a cell, replicates averaged",
    (
        *CELL,
        Column("item_id", "id of the item"),
        Column("score", "score of the task, 0 to 1"),
        Column("answered", "share of answers that could be read"),
        Column("total_tokens", "tokens of a call"),
    ),
)


@dataclass
class Run:
    """A run and what its log says. Tables are computed when they are asked for, from all rows that count."""

    log: Path
    suite: Suite | None = field(default=None, repr=False)
    """The profile it was made from, where it is known; with it the items can be read."""
    summary: RunSummary | None = field(default=None, repr=False)
    """What this call did: rows, tokens, cost, what failed; ``None`` for a run that was only read."""
    keep: object = field(default=None, repr=False)
    """What must not be cleared away while the run is in use: the folder of rows that were imported in passing."""

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.log.stem

    @cached_property
    def _folder(self) -> Scratch:
        return Scratch()

    def _tables(self) -> RunTables:
        return RunTables([self.log], self._folder.path)

    @cached_property
    def manifest(self) -> MergedManifest:
        """The manifest that was written beside the log.

        Tasks, models, conditions, regimes and metrics are known from it without the profile.
        """
        return read_manifests([self.log])

    @property
    def metrics(self) -> Metrics:
        """Label, direction and range of each metric.

        The profile takes precedence over the manifest, and both over the bundled file.
        """
        return metrics_of(self.manifest.metrics, None if self.suite is None else self.suite.metrics)

    @cached_property
    def scores(self) -> ItemScores:
        """Item scores of every cell, replicates averaged within the item: what all tables are made of.

        Computed at first use and kept. Only usable rows count: failed ones are left out, and of several rows of one
        id the newest.
        """
        with self._tables() as tables:
            return item_scores(tables)

    def rows(self) -> Frame:
        """Every row that counts, one per call: prompt hash, answer, scores, tokens; read lazily from Parquet."""
        with self._tables() as tables:
            path = tables.folder / "runs.parquet"
        return RowsFrame(path, f"SELECT * FROM read_parquet({sql_text(str(path))})", keep=self._folder)

    def items(self) -> Frame:
        """Every item of every clean cell with its score, replicates averaged, and further metrics of the run.

        A metric that a scorer of yours returned is a column of its own.
        """
        scores = self.scores
        standard = [column.name for column in ITEMS.columns]
        extra = [name for name in self.manifest.metrics if name not in standard]
        extra += [name for name in scores.metrics if name not in {*standard, *extra, *self.metrics}]
        spec = ITEMS.extended(Column(name, self.metrics.label(name)) for name in dict.fromkeys(extra))
        records = []
        for key in scores.cell_keys():
            cell, names = scores.cells[key], scores.item_names[key.task]
            columns = {name: cell.values[name].tolist() for name in spec.names if name in cell.values}
            for row, item in enumerate(cell.items.tolist()):
                values = {name: values[row] for name, values in columns.items() if values[row] == values[row]}
                records.append(key.names() | {"item_id": names[item]} | values)
        return Table.of(spec, records)

    def effects(self, baseline: str | None = None) -> Frame:
        """Every condition against the control (or ``baseline``) and its twin, with interval, p-values and verdict.

        The same table as ``effects.csv``. Raises ``AnalysisError`` for a baseline that no row has.
        """
        from pcsuite.analysis.tables.effects import effects
        from pcsuite.analysis.tables.registration import Registered

        conditions = {key.condition for key in self.scores.cell_keys()}
        if baseline is not None and baseline not in conditions:
            raise AnalysisError(
                f"no row has the baseline '{baseline}'", hint=did_you_mean(baseline, conditions)
            )
        # A copy: the baseline of one table is no property of the run.
        scores = replace(self.scores, control=baseline)
        return effects(scores, self.metrics, Registered.of(self.manifest, [self.log]))

    def table(self, name: str) -> Frame:
        """Any table of the report by the name of its CSV file, ``summary_by_condition`` say.

        All of them are computed for it. Raises ``AnalysisError`` for an unknown name.
        """
        if name not in self._analysed:
            raise AnalysisError(f"there is no table '{name}'", hint=did_you_mean(name, self._analysed))
        return self._analysed[name]

    @cached_property
    def _analysed(self) -> Mapping[str, Table]:
        from pcsuite.analysis.analyse import analyse

        labels, answers = truth_texts(self.suite) if self.suite is not None else (None, None)
        metrics = self.suite.metrics if self.suite is not None else None
        with self._tables() as tables:
            return analyse(tables, labels, references=answers, metrics=metrics).tables

    def report(self, **options: Any) -> ReportFiles:
        """Write tables, figures and the page of the run; ``options`` are those of :func:`report`.

        pcs.read_log("outputs/runs/t.jsonl").report().result
        """
        return report(self, **options)

    def compare(self, other: Run | str | Path, **options: Any) -> Comparison:
        """This run against an earlier one; ``options`` are those of :func:`compare`.

        ``other`` comes first in the tables: differences are this run less the other.
        """
        return compare(other, self, **options)

    def view(self, *, open_browser: bool = False) -> Serving:
        """Serve ``pcsuite view`` on this run from a thread; in a notebook the result shows it.

        Its ``url`` is for a browser on this computer; ``close()`` ends it, as the end of the process does.
        """
        from pcsuite.view.serving import Serving

        root = self.log.parent.parent if self.log.parent.name == "runs" else self.log.parent
        serving = Serving(root, self.name, self.suite)
        serving.start()
        if open_browser:
            serving.open()
        return serving

    def answers(self, requested: Sequence[tuple[CellKey, str]]) -> dict[tuple[CellKey, str], str]:
        """The text answered to items of cells; of several replicates the one that scores lowest.

        A cell whose condition or model the run does not have is taken by its task, where that is the only cell of it.
        """
        if not requested:
            return {}
        ids = sorted({item for _, item in requested})
        marks = ", ".join("?" * len(ids))
        score = f"{METRIC_PREFIX}task_score"
        with self._tables() as tables:
            ordered = f"{sql_name(score)} DESC NULLS LAST" if "task_score" in tables.metrics else "seed"
            rows = tables.query(
                f"SELECT {CELL_KEY}, item_id, text FROM runs WHERE {USABLE} AND item_id IN ({marks})"
                f" ORDER BY {ordered}",
                ids,
            )
        # Of rows with the same key the last stays, which is the one that scores lowest.
        texts = {(CellKey(*key), item): str(text) for *key, item, text in rows if text is not None}
        alone = {key.task: key for key, _ in texts}
        several = {task for task in alone if len({key for key, _ in texts if key.task == task}) > 1}
        answers: dict[tuple[CellKey, str], str] = {}
        for key, item in requested:
            cell = key if (key, item) in texts or key.task in several else alone.get(key.task, key)
            if (cell, item) in texts:
                answers[key, item] = texts[cell, item]
        return answers

    def baseline(self) -> Baseline:
        """The run's item scores as a baseline to commit: ``run.baseline().write(path, run.metrics)``.

        It holds scores and hashes of items, no texts. Raises ``AnalysisError`` for a run of which no answer has a
        score: nothing could ever be held against it.
        """
        cells = self.scores.cells.values()
        if not any(np.isfinite(values).any() for cell in cells for values in cell.values.values()):
            why = commonest(row.errors[0] for row in iter_newest_rows(self.log) if row.errors)
            raise AnalysisError(
                f"run '{self.name}': no answer has a score, so nothing could be held against it"
                + (f"; why calls failed, most often: {shorten(why)}" if why else "")
            )
        return Baseline(self.scores, self.name, self.digests())

    def digests(self) -> dict[str, dict[str, str]]:
        """A hash of each item by task and id, where the profile is known; else nothing.

        The hash is of text and truth: a baseline is held only against items that still read as they did.
        """
        if self.suite is None:
            return {}
        return {
            task: dict(plan_task(self.suite, task).item_digests)
            for task in self.suite.profile.selection.tasks
            if task in self.scores.item_names
        }

    def __repr__(self) -> str:
        counts = f"{sum(cell.n_rows for cell in self.scores.cells.values()):,} rows in {len(self.scores.cells)} cells"
        return f"Run({self.name!r}: {counts}; {self.log})"

    @cached_property
    def result(self) -> Result:
        """The answer as the terminal gives it: one sentence, alarms, and a row for every cell."""
        with self._tables() as tables:
            return result_of(analyse_scores(tables), [self.log])

    def _repr_html_(self) -> str:
        """Sentence, alarms and cells, for notebooks."""
        result = self.result
        names = ["task", "model", "decoding", "condition", "n_items", "score"]
        names += ["effect", "effect_low", "effect_high", "p_adjusted", "verdict", "tokens"]
        spec = TableSpec("result", "", "", tuple(Column(name, "") for name in names))
        cells = Table(spec, [tuple(row.get(name) for name in names) for row in result.rows])
        alarms = "".join(f"<li>{escape(alarm.text)}</li>" for alarm in result.alarms)
        heading = f"<p><b>{escape(self.name)}</b>: {escape(result.sentence)}</p>"
        return f"{heading}{f'<ul>{alarms}</ul>' if alarms else ''}{cells._repr_html_()}"


def report(
    runs: Run | str | Path | Sequence[Run | str | Path],
    *,
    profile: Profile | None = None,
    output_dir: str | Path = "outputs",
    out: str | Path | None = None,
    title: str | None = None,
    plots: bool = True,
    formats: Sequence[str] = ("html",),
    embeddings: str | None = None,
    baseline: str | None = None,
    runs_csv: bool = False,
    cluster: Sequence[str] | str = (),
    missing: MissingAnswers | None = None,
    posterior: bool = False,
) -> ReportFiles:
    """Write tables, figures and the page of one run or several together; returns the files.

    ``runs`` are results, names below ``output_dir`` or logs. With their ``profile`` the items are at hand, which the
    measures of information need; without it the rows of bundled tasks still say what was expected of them.
    ``formats`` are of ``html``, ``md`` and ``latex``; ``runs_csv`` writes ``runs.csv`` whatever its size. ``cluster``
    are columns of the items that say which are related, in place of the clusters in the log. ``posterior`` adds
    probabilities to the effects: better, and within the profile's ``analysis.loss_margin``. Raises ``ConfigError`` for
    an unknown run, ``DataError`` or ``AnalysisError`` for columns that the items do not have.

        pcs.report("quickstart").index
    """
    listed = [runs] if isinstance(runs, (Run, str, Path)) else list(runs)
    logs = [entry.log if isinstance(entry, Run) else find_log(entry, output_dir) for entry in listed]
    if not logs:
        raise ConfigError("nothing to report on", hint="give a run, its name or its log")
    suites = [entry.suite for entry in listed if isinstance(entry, Run) and entry.suite is not None]
    suite = load(profile) if profile is not None else suites[0] if suites else None
    labels, answers = truth_texts(suite) if suite is not None else (None, None)
    items = items_at_hand(suite or load_suite("quickstart"), read_manifests(logs).tasks)
    columns = column_names(cluster)
    clusters = _labels_by(columns, logs, suite) if columns else None
    folder = logs[0].parent
    return build_report(
        logs,
        Path(out) if out is not None else (folder.parent if folder.name == "runs" else folder),
        title=title,
        plots=plots,
        formats=formats,
        truths=labels,
        references=answers,
        embeddings=embeddings,
        metrics=suite.metrics if suite is not None else None,
        baseline=baseline,
        items=items,
        runs_csv=runs_csv,
        clusters=clusters,
        missing=missing,
        posterior=posterior,
    )


def _labels_by(
    columns: Sequence[str], logs: Sequence[Path], suite: Suite | None
) -> dict[str, dict[str, str]]:
    """The label of every item of some logs' tasks by columns of theirs, by task and id; raises where there is none."""
    at_hand: dict[str, Mapping[str, Item]] = {}
    for log in logs:
        run = Run(log)
        tasks = run.manifest.tasks or run.scores.item_names
        at_hand |= {task: {} for task in tasks if task not in at_hand} | dict(_items_of(run, suite))
    names = {task: list(of_task) for task, of_task in at_hand.items()}
    labelled = cluster_labels(names, at_hand, columns)
    return {task: dict(zip(names[task], map(str, labels), strict=True)) for task, labels in labelled.items()}


def compare(
    first: Run | Baseline | str | Path | Any,
    second: Run | str | Path | Any,
    *,
    margin: float = 0.0,
    output_dir: str | Path = "outputs",
    missing: MissingAnswers | None = None,
    allow_different_items: bool = False,
    cluster: Sequence[str] | str = (),
    profile: Profile | None = None,
    posterior: bool = False,
    assume: Assumption = "nothing",
    conditions: Sequence[str] | str = (),
    arms: tuple[str, str] | None = None,
    correction: Correction | None = None,
    **reading: Any,
) -> Comparison:
    """Compare two runs item by item: did the second get better or worse, and how surely?

    Runs are results, names below ``output_dir``, logs, (the first) a baseline or its file, files of other tools, or
    tables: a frame of pandas or polars or an Arrow table, with ``item`` and ``score`` (and ``arm``, ``repeat``) among
    the ``reading`` options of :func:`read_foreign`. ``arms`` are the conditions to compare, of the
    first and of the second, where there are several. Changes up to ``margin``
    are no regression; with a margin ``standing`` also says whether the second is shown to be no worse by it. Items that
    were planned and have no score are bounded, unless ``missing`` is ``drop`` (by default as the second run's profile
    says); runs that were to ask different items are refused with an ``AnalysisError`` unless
    ``allow_different_items``. ``cluster`` are columns of the items that say which of them are related, instead of the
    clusters in the logs; the items are those of ``profile``, else of the profile that the runs were made from.
    ``posterior`` adds the probabilities that a cell is better, and within ``margin`` where there is one. What is said
    of graded scores holds whatever the shape of their differences, unless ``assume`` is ``symmetric``. ``conditions``
    are the only ones that are compared; ``"C3=C4"`` holds C4 of the second run against C3 of the first. Reliable is
    what holds after the ``correction``: ``bh`` over the cells of a metric (the default), or ``holm`` over all cells and
    metrics at once (the default of imported files and tables, whose metrics are all read at once).

        pcs.compare("before", "after", margin=0.05).standing
        pcs.compare("base.json", "new.json", margin=0.05).standing
        pcs.compare(frame_a, frame_b, item="question", score="correct", cluster="document").table
    """
    if margin < 0:
        raise ConfigError(f"--margin {margin}: a margin is not negative")
    columns = column_names(cluster)
    first = side_of(first, output_dir, reading, cluster=columns, name="first")
    later = side_of(second, output_dir, reading, cluster=columns, name="second", beside=first)
    if isinstance(later, Baseline):
        raise ConfigError("a baseline goes first", hint="pcsuite compare BASELINE.json RUN")
    check_reading(reading, (first, later))
    if missing is None and later.suite is not None:
        missing = later.suite.profile.missing
    elif missing is None:
        missing = "drop" if later.manifest.missing == "drop" else "bound"
    sides = Sides.of_baseline(first, later) if isinstance(first, Baseline) else Sides.of_runs(first, later)
    if cluster and later.keep is None:
        suite = load(profile) if profile is not None else None
        earlier = later if isinstance(first, Baseline) else first  # a baseline keeps no items
        sides.scores = (
            clustered_scores(sides.scores[0], _items_of(earlier, suite), columns),
            clustered_scores(sides.scores[1], _items_of(later, suite), columns),
        )
    if arms is not None:
        sides.scores = (of_condition(sides.scores[0], arms[0]), of_condition(sides.scores[1], arms[1]))
    if correction is None:
        correction = "holm" if later.manifest.profile.startswith(IMPORTED) else "bh"
    comparison = compare_runs(
        *sides.scores,
        metrics=sides.metrics,
        margin=margin,
        judged=(sides.judge, JudgedSide.of(later.log)),
        plans=sides.plans,
        allow_different_items=allow_different_items,
        missing=missing,
        assume=assume,
        conditions=condition_pairs(conditions),
        correction=correction,
    )
    return with_posterior(comparison) if posterior else comparison


def effects(
    frame: Any,
    *,
    arm: str,
    item: str,
    score: str | Sequence[str],
    baseline: str | None = None,
    cluster: Sequence[str] | str = (),
    repeat: str = "",
    range: tuple[float, float] | None = None,
) -> Frame:
    """Every arm of a table against its control, on the same items: effects with intervals, p-values and verdicts.

    ``frame`` is one of pandas or polars, an Arrow table, or the path of a table or of another tool's file; ``arm``,
    ``item`` and ``score`` name its columns (several scores are several metrics), ``repeat`` the one that tells
    repetitions apart and ``cluster`` those that say which items are related. ``baseline`` is the control (default: C0,
    else the first arm in order). The table is that of ``effects.csv``. Raises as :func:`read_foreign` does.

        pcs.effects(frame, arm="prompt", item="question", score="correct", baseline="v1").to_pandas()
    """
    kind = "table" if isinstance(frame, (str, Path)) else None
    run = read_foreign(
        frame, format=kind, cluster=cluster, arm=arm, item=item, score=score, repeat=repeat, range=range
    )
    return run.effects(baseline)


def read_foreign(
    source: str | Path | Any,
    *,
    format: str | None = None,
    cluster: Sequence[str] | str = (),
    name: str = "",
    task: str | None = None,
    **reading: Any,
) -> Run:
    """A file or folder of another tool, or a table in memory, as a run that lives as long as it is used.

    ``source`` is a path, a frame of pandas or polars, or an Arrow table. ``format`` is the name of the tool as in
    ``pcsuite import --from``; files are known by their content where it is not given. ``reading`` are ``item``,
    ``arm``, ``score``, ``repeat`` of tables, ``metric`` (which measure is the score), ``also`` (further ones that are
    compared, or ``"all"``), ``range`` (the least and largest score), ``match_by`` (``"content"``: items by what they
    ask), ``condition``, ``condition_from`` and ``model``. ``cluster`` are columns, variables or metadata that say which
    items are related, and ``task`` is what the task of a source with one is called. Raises ``DataError`` for what
    cannot be read and ``ConfigError`` for what is not clear.

        read_foreign("results.json").effects()
        read_foreign(frame, item="id", arm="prompt", score="correct").effects(baseline="v1")
    """
    scratch = Scratch()
    log = import_in_passing(
        source, scratch, format=format, cluster=cluster, name=name, task=task, reading=reading
    )
    return Run(log, keep=scratch)


def side_of(
    source: Run | Baseline | str | Path | Any,
    output_dir: str | Path,
    reading: Mapping[str, Any],
    *,
    cluster: Sequence[str],
    name: str,
    beside: Run | Baseline | None = None,
) -> Run | Baseline:
    """One side of a comparison, whatever a user named: a run, a baseline, a file of another tool, or a table.

    Runs by name and logs of our own go first. ``beside`` is the other side: where both are imported and each has one
    task, the second gets the name of the first, because a title that was edited does not make another task.
    """
    if isinstance(source, (Run, Baseline)):
        return source
    foreign = not isinstance(source, (str, Path))
    if not foreign:
        path = Path(source)
        if is_baseline(path):
            return Baseline.read(path)
        by_name = path.name and log_exists(Path(output_dir) / "runs" / f"{source}.jsonl")
        foreign = bool(reading.get("format")) or (path.exists() and not by_name and not is_own_log(path))
    if not foreign:
        return Run(find_log(source, output_dir))
    task = None
    if isinstance(beside, Run) and beside.keep is not None and len(beside.manifest.tasks) == 1:
        task = next(iter(beside.manifest.tasks))
    return read_foreign(source, cluster=cluster, name=name, task=task, **reading)


def check_reading(reading: Mapping[str, Any], sides: Sequence[Run | Baseline]) -> None:
    """Refuse words about files of other tools, or misspelled ones, where neither side is read by them."""
    if reading and not any(isinstance(side, Run) and side.keep is not None for side in sides):
        words = ", ".join(reading)
        raise ConfigError(
            f"{words}: these are runs of ours, and that goes with files of other tools and tables"
        )


def _items_of(run: Run, suite: Suite | None) -> Mapping[str, Mapping[str, Item]]:
    """The items of a run's tasks, by task and id: of a profile that is given, the run's own, or the one that its files
    lie beside; a task that none of them has is left out."""
    if suite is None:
        suite = run.suite or _profile_beside(run.log) or load_suite("quickstart")
    return items_at_hand(suite, run.manifest.tasks or run.scores.item_names)


def _profile_beside(log: Path) -> Suite | None:
    """The profile that an ablation, a prompt's run or a folder of ``pcsuite init`` has beside its log, if any."""
    for folder in log.resolve().parents[1:3]:
        path = folder / "profile.yaml"
        if path.is_file():
            return load_suite(path, check_selection=False)
    return None
