"""From logs to the finished report: tables, figures, page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite.analysis.analysis import Analysis, analyse
from pcsuite.analysis.helm_evidence import beside_ours, evidence_files, read_evidence
from pcsuite.analysis.information_tables import Truths
from pcsuite.analysis.tables import RunTables
from pcsuite.errors import AnalysisError
from pcsuite.evaluation.cache_report import write_cache_report
from pcsuite.report.drawing import Figure
from pcsuite.report.grid import Section
from pcsuite.report.helm_section import helm_section
from pcsuite.report.html import render_page
from pcsuite.report.latex import latex_tables
from pcsuite.report.markdown_report import render_markdown
from pcsuite.report.memory import ReportMemory
from pcsuite.report.page import build_page
from pcsuite.report.plots import entropy_figures, ladder_figures
from pcsuite.report.plots_detail import abstention_figures, unsupported_figures, variance_figures
from pcsuite.report.plots_grid import cost_figures, interaction_figures, pareto_figures, robustness_figures
from pcsuite.report.samples import sample_rows


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
    evidence = read_evidence(folders)
    if evidence is None:
        return []
    beside = beside_ours(evidence, analysis.tables["summary_by_condition"])
    written.append(beside.write_csv(folders[0] / f"{beside.name}.csv"))
    return [helm_section(evidence, beside)]


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
