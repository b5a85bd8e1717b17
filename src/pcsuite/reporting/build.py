"""From logs to the finished report: tables, figures, page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import pcsuite
from pcsuite._util.files import Put, replace_atomically, replacing, sha256_file
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.threads import one_blas_thread
from pcsuite.analysis.analyse import Analysis, analyse
from pcsuite.analysis.load.item_scores import item_scores, natural_key
from pcsuite.analysis.load.parts import file_stamp
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.information import Truths
from pcsuite.analysis.tables.robustness import interventions_table, robustness_tables
from pcsuite.analysis.twins import ladder
from pcsuite.config.definitions import MetricSpec
from pcsuite.config.load import bundled_configs
from pcsuite.config.profile import MissingAnswers
from pcsuite.evaluation.metric_cache import write_cache_report
from pcsuite.logging.segments import Beside, log_segments
from pcsuite.pages.figures.declare import Facts, Figure, draw_figures
from pcsuite.pages.render import render_page
from pcsuite.registry import Registry
from pcsuite.reporting.answer import answer_of
from pcsuite.reporting.flips import block_flips
from pcsuite.reporting.folders import RESULT_FILE, ReportFolders, record_owner, report_folders
from pcsuite.reporting.grid import ExtraSection
from pcsuite.reporting.latex import latex_tables
from pcsuite.reporting.markdown import render_markdown
from pcsuite.reporting.page import ReportPage, build_page
from pcsuite.reporting.results import LARGEST_LOG, result_of
from pcsuite.reporting.samples import Items, sample_rows

SPREADSHEET_ROWS = 1_048_575
"""Rows below a header that spreadsheets open. Ten times as many make a CSV of 12 GB, a third of the report's time."""
EXTRA_SECTIONS: Registry[ExtraSection] = Registry(
    "section of the report",
    "pcsuite.report_sections",
    {"helm": "pcsuite.integrations.helm.evidence:HELM_SECTION"},
)
"""Parts of the page that other packages add. Named lazily: the report knows of no integration."""


@dataclass(slots=True)
class ReportFiles:
    """What a report consists of."""

    reports: list[Path]
    tables: list[Path] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)
    runs: Path | None = None
    """The page that lists all runs of the output folder."""

    @property
    def result(self) -> Path:
        """What the report says, for programs."""
        return next(path for path in self.reports if path.name == RESULT_FILE)

    @property
    def index(self) -> Path:
        """What to open first."""
        return self.reports[0]


class _ReportRecord(msgspec.Struct):
    """A report that was written: from what, the files it consists of, and their sizes and times."""

    inputs: str
    files: tuple[list[str], list[str], list[str]]
    stamps: dict[str, str]


_READ_BESIDE = (
    Beside.PROMPTS,
    Beside.MANIFEST,
    Beside.LOOKS,
    Beside.JUDGE_SAMPLE,
    Beside.LABELS,
    Beside.JUDGE_CHECK,
)
"""What a report reads beside its logs; a mark made in the view, say, changes nothing of it."""


class _ReportCache:
    """Knows the last report of a folder, so that asking again for the same one costs nothing.

    A report is recorded with the size and time of its log's files, of what else it reads (``also``) and of its
    own, with the options it was asked for with, and with the code that made it. Where any of these differs it is
    made anew.
    """

    def __init__(self, note: Path, logs: Sequence[Path], options: Any, also: Sequence[Path] = ()) -> None:
        self._note = note
        read = [segment.path for log in logs for segment in log_segments(log)]
        read += [beside.of(log) for log in logs for beside in _READ_BESIDE]
        read.append(bundled_configs() / "metrics_v1.yaml")
        described = {
            "files": [f"{path.resolve()}:{_stamp(path)}" for path in (*read, *also)],
            "code": _code_stamps(),
            "options": msgspec.to_builtins(options),
            # Installing a package (an embedding model, say) touches the folder that packages lie in.
            "packages": _stamp(Path(msgspec.__file__).parent.parent),
        }
        self._inputs = sha256_hex(json.dumps(described, sort_keys=True))

    def load(self) -> ReportFiles | None:
        """The last report, unless anything it was made from or any of its files has changed since."""
        try:
            record = msgspec.json.decode(self._note.read_bytes(), type=_ReportRecord)
        except (OSError, msgspec.MsgspecError):
            return None
        unchanged = all(_stamp(Path(name)) == stamp for name, stamp in record.stamps.items())
        if record.inputs != self._inputs or not unchanged:
            return None
        reports, tables, plots = ([Path(name) for name in names] for names in record.files)
        return ReportFiles(reports, tables, plots)

    def store(self, report: ReportFiles) -> None:
        """Record a report that was just written."""
        reports, tables, plots = (
            [str(path) for path in paths] for paths in (report.reports, report.tables, report.plots)
        )
        stamps = {name: _stamp(Path(name)) for name in (*reports, *tables, *plots)}
        self._note.parent.mkdir(parents=True, exist_ok=True)
        record = _ReportRecord(self._inputs, (reports, tables, plots), stamps)
        replace_atomically(self._note, msgspec.json.encode(record))


@cache
def _code_stamps() -> list[str]:
    """Size and time of the files that this process has its code, templates and styles from."""
    source = Path(pcsuite.__file__).resolve().parent
    code = sorted(path for path in source.rglob("*") if path.suffix in (".py", ".css", ".js", ".j2"))
    return [f"{path}:{_stamp(path)}" for path in code]


def _stamp(path: Path) -> str:
    try:
        return file_stamp(path)
    except OSError:
        return "absent"


@dataclass(frozen=True, slots=True)
class RobustnessFiles:
    """What was written, and what a reader must know of it."""

    tables: list[Path]
    figures: list[Path]
    notes: list[str]


def write_robustness(logs: Sequence[Path], output_dir: Path, *, plots: bool = True) -> RobustnessFiles:
    """The robustness tables and figures alone, as ``pcsuite promptbench`` writes them after a run.

    Writes ``robustness_worst_case.csv``, ``robustness_by_attack.csv``, ``interventions.csv`` and, with ``plots``,
    their figures into the run's folders under ``output_dir``.
    """
    folders = report_folders(logs, output_dir)
    with folders.changing() as changes:
        with RunTables(logs, folders.tables) as loaded:
            record_owner(folders, logs)
            scores = item_scores(loaded)
            worst, by_attack = robustness_tables(scores)
            tables = (worst, by_attack, interventions_table(loaded))
        put = changes.replacing
        written = [table.write_csv(folders.tables / f"{table.name}.csv", put) for table in tables]
        drawn = {table.name: table for table in (worst, by_attack)} if plots else {}
        figures = draw_figures(drawn, Facts(scores.temperature), folders.plots, put=put)
    notes = [
        f"{record['task']} × {record['model']} × {record['condition']}: the clean score is 0, so no drop rate"
        for record in worst.records()
        if record["clean"] == 0
    ]
    if not worst.rows:
        notes.append("no cell has at least 2 items both clean and perturbed: the tables are empty")
    pictures = [figure.png for figure in figures if figure.png is not None]
    folders.publish()
    return RobustnessFiles(written, pictures, notes)


@one_blas_thread()
def build_report(
    logs: Sequence[Path],
    output_dir: Path,
    *,
    title: str | None = None,
    plots: bool = True,
    formats: Collection[str] = ("html",),
    truths: Truths | None = None,
    references: Truths | None = None,
    embeddings: str | None = None,
    metrics: Mapping[str, MetricSpec] | None = None,
    baseline: str | None = None,
    items: Items | None = None,
    runs_csv: bool = False,
    clusters: Mapping[str, Mapping[str, str]] | None = None,
    missing: MissingAnswers | None = None,
    posterior: bool = False,
) -> ReportFiles:
    """Write tables, plots and the report for some logs under ``output_dir``.

    ``formats`` are of ``html``, ``md`` and ``latex``. ``truths`` (labels by task and item) and ``references`` (true
    answers in words) allow the measures of information; ``embeddings`` names the embedding model, ``off`` for none;
    ``metrics`` (``suite.metrics``) says how metrics are named, compared and shown; ``baseline`` is a condition to
    compare with in place of the control. ``items`` (by task and id) let the rows to read say what was expected.
    ``runs_csv`` writes ``runs.csv`` whatever its size, where otherwise more rows than a spreadsheet opens are in
    ``runs.parquet`` alone. ``clusters`` are labels by task and item that say which items are related, in place of those
    in the logs; ``missing`` says what is made of missing answers. ``posterior`` adds probabilities to the effects.

    Where neither the logs nor what is asked for nor the files have changed since the last report, they are left as they
    are. Each run has folders of its own (:mod:`pcsuite.reporting.folders`); what was reported on last is also linked at
    the old places. Raises :class:`~pcsuite.errors.LogError` where a log is not there, and
    :class:`~pcsuite.errors.AnalysisError` where it has no rows or the tables cannot be written.
    """
    folders = report_folders(logs, output_dir)
    # Other tools leave their tables beside the run, which may be another folder than the report's.
    table_folders = [output_dir / "tables", logs[0].parent.parent / "tables"]
    extra_sections = [EXTRA_SECTIONS.get(name) for name in EXTRA_SECTIONS]
    declared = {name: spec.model_dump(mode="json") for name, spec in (metrics or {}).items()}
    expected = {
        task: {name: item.truth for name, item in by_id.items()} for task, by_id in (items or {}).items()
    }
    settings: list[Any] = [title, plots, sorted(formats), truths, references, embeddings]
    settings += [declared, baseline, runs_csv, expected, clusters, missing, posterior]
    cache = _ReportCache(
        folders.tables / ".parts" / "report.json",
        logs,
        settings,
        also=[path for extra in extra_sections for path in extra.inputs(table_folders)],
    )
    with folders.changing() as changes:
        if (cached := cache.load()) is not None:  # only now: another process may just have made it
            return _published(cached, folders)
        put = changes.replacing
        with RunTables(logs, folders.tables) as tables, ThreadPoolExecutor(max_workers=1) as pool:
            record_owner(folders, logs)
            tables.clusters, tables.missing = clusters, missing
            analysis = analyse(
                tables,
                truths,
                references=references,
                embeddings=embeddings,
                metrics=metrics,
                baseline=baseline,
                posterior=posterior,
            )
            # The database writes the rows while the figures are drawn.
            wants_csv = runs_csv or tables.loaded.rows <= SPREADSHEET_ROWS
            as_csv = pool.submit(tables.write_csv, put) if wants_csv else None
            written = [tables.folder / "runs.parquet", *analysis.write(tables.folder, put)]
            figures = figures_of(analysis, folders.plots, put) if plots else []
            samples = sample_rows(tables, logs, items=items)
            answer = answer_of(analysis)
            flips = block_flips(tables, (*answer.planned, *answer.blocks), logs, items)
            if as_csv is not None:
                written.insert(1, as_csv.result())
            else:
                changes.remove(tables.folder / "runs.csv")  # that of an earlier state of the log
        sections = (extra.make(table_folders, analysis) for extra in extra_sections)
        external = [section for section in sections if section is not None]
        written += [table.write_csv(folders.tables / f"{table.name}.csv", put) for _, table in external]
        page = build_page(
            analysis,
            figures,
            samples,
            title=title or f"Report on {logs[0].stem}",
            external=[section for section, _ in external],
            view=shlex.join(["pcsuite", "view", logs[0].stem]),
            answer=answer,
            flips=flips,
            log_hashes=_log_hashes(logs),
        )
        texts = _texts(page, analysis, formats, folders.name, logs)
        for name, text in texts.items():
            changes.write(folders.reports / name, text)
        reports = [folders.reports / name for name in texts]
    report = ReportFiles(reports, written, [figure.png for figure in figures if figure.png is not None])
    # Before what changes with every call is added: that is no part of what was asked for.
    cache.store(report)
    return _published(report, folders)


def _log_hashes(logs: Sequence[Path]) -> dict[str, str]:
    """The sha256 of the files of each log, by file name; of logs beyond :data:`LARGEST_LOG` bytes there is none."""
    hashes: dict[str, str] = {}
    for log in logs:
        parts = [segment.path for segment in log_segments(log)]
        if sum(path.stat().st_size for path in parts) <= LARGEST_LOG:
            hashes |= {path.name: sha256_file(path) for path in parts}
    return hashes


def figures_of(analysis: Analysis, folder: Path | None = None, put: Put = replacing) -> list[Figure]:
    """Every figure that the tables of an analysis allow, in the order of the page; as PNG where a folder is given.

    ``put`` is how a file takes its place.
    """
    scores = analysis.scores
    ladders = {}
    for task in scores.tasks:
        conditions = sorted(
            {key.condition for key in scores.cell_keys() if key.task == task}, key=natural_key
        )
        bundles = {name: scores.operators.get((task, name), ()) for name in conditions}
        ladders[task] = ladder(bundles, scores.operator_types)
    facts = Facts(scores.temperature, ladders, analysis.judges.words)
    return draw_figures(analysis.tables, facts, folder, put=put)


def _texts(
    page: ReportPage, analysis: Analysis, formats: Collection[str], run: str, logs: Sequence[Path]
) -> dict[str, str]:
    """The report in each format that is asked for and for programs, by file name; what is opened first comes first."""
    texts = {}
    if "html" in formats:
        texts["index.html"] = render_page("reporting/templates/report.html.j2", page=page)
    if "md" in formats:
        texts["report.md"] = render_markdown(page, run)
    if "latex" in formats:
        texts |= {f"latex/{name}.tex": text for name, text in latex_tables(analysis).items()}
    result = result_of(analysis, logs).document()
    return texts | {RESULT_FILE: json.dumps(result, indent=1, ensure_ascii=False) + "\n"}


def _published(report: ReportFiles, folders: ReportFolders) -> ReportFiles:
    """A report with what changes even where the report itself does not: the cache report and the list of runs."""
    report.reports.append(write_cache_report(folders.reports / "cache_report.md"))
    report.runs = folders.publish()
    return report
