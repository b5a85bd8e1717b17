"""From logs to the finished report: tables, figures, page."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import pcsuite
from pcsuite._util.hashing import sha256_hex
from pcsuite.analysis.analyse import Analysis, analyse
from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.information import Truths
from pcsuite.analysis.tables.robustness import interventions_table, robustness_tables
from pcsuite.errors import AnalysisError
from pcsuite.evaluation.metric_cache import write_cache_report
from pcsuite.integrations.helm.evidence import evidence_files, external_evidence
from pcsuite.logging.segments import log_segments
from pcsuite.report.drawing import Figure
from pcsuite.report.grid import Section
from pcsuite.report.latex import latex_tables
from pcsuite.report.markdown import render_markdown
from pcsuite.report.page import build_page, render_page
from pcsuite.report.plots import (
    abstention_figures,
    entropy_figures,
    ladder_figures,
    unsupported_figures,
    variance_figures,
)
from pcsuite.report.plots_grid import cost_figures, interaction_figures, pareto_figures, robustness_figures
from pcsuite.report.samples import sample_rows

# Whether a report is still what its log says, so that asking again for the same one costs nothing.


_BESIDE = (".manifest.json", ".prompts.z")


class _Remembered(msgspec.Struct):
    """A report that was written: from what, and the files it consists of."""

    inputs: str
    reports: list[str]
    tables: list[str]
    plots: list[str]
    stamps: dict[str, str]


class ReportMemory:
    """Remembers the last report in a folder.

    A report is remembered with the size and time of its log's files, of what else it reads (``also``) and of its
    own, with the options it was asked for with, and with the code that made it. Where any of these differs it is
    made anew.
    """

    def __init__(self, note: Path, logs: Sequence[Path], options: Any, also: Sequence[Path] = ()) -> None:
        self._note = note
        described = {
            "logs": [_log_stamps(log) for log in logs],
            "also": [f"{path.resolve()}:{_stamp(path)}" for path in also],
            "options": msgspec.to_builtins(options),
            "code": _tree_stamp(Path(pcsuite.__file__).parent),
            # Installing a package (an embedding model, say) touches the folder that packages lie in.
            "packages": _stamp(Path(msgspec.__file__).parent.parent),
        }
        self._inputs = sha256_hex(json.dumps(described, sort_keys=True))

    def recall(self) -> tuple[list[Path], list[Path], list[Path]] | None:
        """Reports, tables and plots of the last report, if it is just the one that is asked for now."""
        try:
            found = msgspec.json.decode(self._note.read_bytes(), type=_Remembered)
        except (OSError, msgspec.MsgspecError):
            return None
        files = (
            [Path(name) for name in found.reports],
            [Path(name) for name in found.tables],
            [Path(name) for name in found.plots],
        )
        unchanged = all(_stamp(Path(name)) == stamp for name, stamp in found.stamps.items())
        return files if found.inputs == self._inputs and unchanged else None

    def keep(self, reports: Sequence[Path], tables: Sequence[Path], plots: Sequence[Path]) -> None:
        """Remember a report that was just written."""
        remembered = _Remembered(
            self._inputs,
            [str(path) for path in reports],
            [str(path) for path in tables],
            [str(path) for path in plots],
            {str(path): _stamp(path) for path in (*reports, *tables, *plots)},
        )
        self._note.parent.mkdir(parents=True, exist_ok=True)
        self._note.write_bytes(msgspec.json.encode(remembered))


def _log_stamps(log: Path) -> list[str]:
    files = [segment.path for segment in log_segments(log)] + [log.with_suffix(suffix) for suffix in _BESIDE]
    return [f"{path.resolve()}:{_stamp(path)}" for path in files]


def _tree_stamp(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".css", ".js", ".j2"))
    return sha256_hex("\n".join(f"{path}:{_stamp(path)}" for path in files))


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "absent"
    return f"{found.st_size}:{found.st_mtime_ns}"


# The robustness tables and figures alone, as ``pcsuite promptbench`` writes them after a run.


@dataclass(frozen=True, slots=True)
class RobustnessFiles:
    """What was written, and what a reader must know of it."""

    tables: list[Path]
    figures: list[Path]
    notes: list[str]


def write_robustness(logs: Sequence[Path], output_dir: Path, *, plots: bool = True) -> RobustnessFiles:
    """Write ``robustness_worst_case.csv``, ``robustness_by_attack.csv``, ``interventions.csv`` and the figures."""
    with RunTables(logs, output_dir / "tables") as loaded:
        worst, by_attack = robustness_tables(item_scores(loaded))
        made = (worst, by_attack, interventions_table(loaded))
        written = [table.write_csv(loaded.folder / f"{table.name}.csv") for table in made]
    figures = robustness_figures(by_attack, output_dir / "plots") if plots else []
    notes = [
        f"{record['task']} × {record['model']} × {record['condition']}: the clean score is 0, so no drop rate"
        for record in worst.records()
        if record["clean"] == 0
    ]
    if not worst.rows:
        notes.append("no cell has at least 2 items both clean and perturbed: the tables are empty")
    return RobustnessFiles(written, [figure.png for figure in figures if figure.png is not None], notes)


@dataclass(slots=True)
class ReportFiles:
    """What a report consists of."""

    reports: list[Path]
    tables: list[Path] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)

    @property
    def index(self) -> Path:
        """What to open first."""
        return self.reports[0]


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
) -> ReportFiles:
    """Write tables, plots and the report for some logs under ``output_dir``.

    ``truths`` (labels by task and item) and ``references`` (true answers in words) allow the measures of
    information; ``embeddings`` names the embedding model, ``off`` for none. Where neither the logs nor what is
    asked for nor the files have changed since the last report, they are left as they are.
    """
    folder = output_dir / "reports"
    asked = [title, plots, sorted(formats), truths, references, embeddings]
    evidence_folders = [output_dir / "tables", logs[0].parent.parent / "tables"]
    note = output_dir / "tables" / ".parts" / "report.json"
    memory = ReportMemory(note, logs, asked, also=evidence_files(evidence_folders))
    if (known := memory.recall()) is not None:
        return ReportFiles([*known[0], write_cache_report(folder / "cache_report.md")], *known[1:])
    with RunTables(logs, output_dir / "tables") as tables, ThreadPoolExecutor(max_workers=1) as pool:
        analysis = analyse(tables, truths, references=references, embeddings=embeddings)
        # The database writes the rows while the figures are drawn.
        runs_csv = pool.submit(tables.write_csv)
        written = [tables.folder / "runs.parquet", *analysis.write(tables.folder)]
        figures = draw_figures(analysis, output_dir / "plots") if plots else []
        samples = sample_rows(tables, logs)
        written.insert(1, runs_csv.result())
    external = _external_evidence(analysis, evidence_folders, written)
    page = build_page(
        analysis, figures, samples, title=title or f"Report on {logs[0].stem}", external=external
    )
    reports = []
    if "html" in formats:
        reports.append(write_text(folder / "index.html", render_page(page)))
    if "md" in formats:
        reports.append(write_text(folder / "report.md", render_markdown(page)))
    if "latex" in formats:
        for name, text in latex_tables(analysis).items():
            reports.append(write_text(folder / "latex" / f"{name}.tex", text))
    drawn = [figure.png for figure in figures if figure.png is not None]
    memory.keep(reports, written, drawn)
    reports.append(write_cache_report(folder / "cache_report.md"))
    return ReportFiles(reports, written, drawn)


def _external_evidence(analysis: Analysis, folders: Sequence[Path], written: list[Path]) -> list[Section]:
    """What other tools found on the same models, where it was imported into one of these folders."""
    tables, sections = external_evidence(folders, analysis.tables["summary_by_condition"])
    written += [table.write_csv(folders[0] / f"{table.name}.csv") for table in tables]
    return sections


def draw_figures(analysis: Analysis, folder: Path | None) -> list[Figure]:
    """Every figure that the tables allow."""
    tables = analysis.tables
    return [
        *ladder_figures(tables["summary_by_condition"], folder),
        *pareto_figures(tables["efficiency"], folder),
        *cost_figures(tables["efficiency"], folder),
        *interaction_figures(tables["summary_by_condition"], folder),
        *entropy_figures(tables["entropy_by_condition"], folder),
        *variance_figures(tables["variance_components"], folder),
        *robustness_figures(tables["robustness_by_attack"], folder),
        *unsupported_figures(tables["unsupported"], folder),
        *abstention_figures(tables["abstention"], folder),
    ]


def write_text(path: Path, text: str) -> Path:
    """Write a text file, lone surrogates made readable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be written ({error.strerror})") from error
    return path
