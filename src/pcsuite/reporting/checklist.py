"""What the whole protocol promises, held against what a run's report has: a line each, with the file or the reason."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pcsuite.logging.log import RunPaths
from pcsuite.logging.segments import log_exists
from pcsuite.reporting.folders import ReportFolders

Rows = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that the protocol promises, and what is there of it."""

    what: str
    kept: bool
    detail: str
    """Where it is, or why it is not there."""

    def __str__(self) -> str:
        return f"[{'x' if self.kept else ' '}] {self.what}: {self.detail}"


_TABLES: tuple[tuple[str, str, str], ...] = (
    ("runs.parquet", "every row", "no row was logged"),
    ("summary_by_condition.csv", "levels with intervals, medians and quartiles", "no row was scored"),
    (
        "effects.csv",
        "effects against the control, paired, corrected, with effect sizes",
        "one condition only",
    ),
    ("mixed_model.csv", "mixed-effects model", "too few items or conditions for a fit"),
    ("marginal_means.csv", "marginal means by condition", "the mixed model has no fit"),
    ("entropy_by_condition.csv", "entropy and disagreement", "no regime with replicates"),
    ("entropy_per_item.csv", "entropy item by item", "no regime with replicates"),
    ("variance_components.csv", "variance by seeds, prompts and items", "no replicates, or one item"),
    ("information.csv", "information proxies (MDL, InfoNCE, calibration)", "too few items to learn from"),
    ("unsupported.csv", "unsupported content", "no task whose answers can be unsupported"),
    ("abstention.csv", "abstention, answerable against not", "no item that cannot be answered"),
    ("self_consistency.csv", "majority votes over replicates", "no regime with replicates"),
    ("efficiency.csv", "tokens and cost per right answer", "no row was scored"),
    (
        "robustness_worst_case.csv",
        "worst case over perturbations",
        "no perturbed prompts: pcsuite promptbench",
    ),
    ("robustness_by_attack.csv", "loss by kind of perturbation", "no perturbed prompts: pcsuite promptbench"),
)
_FIGURES: tuple[tuple[str, str, str], ...] = (
    ("perf_condition_ladder__", "scores along the ladder", "no row was scored"),
    ("interaction_condition_size__", "effects by model size", "models of at least two sizes are needed"),
    ("entropy_vs_condition__", "entropy by condition", "no regime with replicates"),
    ("variance_decomposition__", "variance by source", "no replicates"),
    ("unsupported_rate__", "unsupported content by condition", "no task whose answers can be unsupported"),
    ("abstain_confusion__", "abstention as a matrix", "no item that cannot be answered"),
    ("robustness_drop__", "loss by kind of perturbation", "no perturbed prompts: pcsuite promptbench"),
    ("robustness_worst_case__", "worst case over perturbations", "no perturbed prompts: pcsuite promptbench"),
    ("pareto_accuracy_tokens__", "score against tokens", "no row was scored"),
    ("cost_per_correct__", "what a right answer costs", "nothing was answered right"),
)


def protocol_checklist(
    output_dir: Path, name: str, not_run: Mapping[str, str] | None = None
) -> Iterator[Promise]:
    """Everything that the protocol promises of the run ``name``, in the order of the protocol.

    ``not_run`` has the parts of it that were left out or failed, each with the reason. Files are looked at as they are:
    a table without a row keeps no promise.
    """
    left_out, folders = not_run or {}, ReportFolders(output_dir, name)
    log = RunPaths.of(output_dir, name).log
    yield Promise("rows", log_exists(log), str(log))
    for file, what, why in _TABLES:
        path = folders.tables / file
        rows = path.exists() if path.suffix == ".parquet" else bool(_rows(path))
        yield Promise(f"table of {what}", rows, str(path) if rows else f"{why} ({file})")
    yield _column(folders, "contradiction rate", "unsupported.csv", "contradiction_rate", bool, left_out)
    yield _column(
        folders, "tie-breaks by verifier score", "self_consistency.csv", "tie_break", _by_verifier, left_out
    )
    for prefix, what, why in _FIGURES:
        drawn = sorted(folders.plots.glob(f"{prefix}*.png"))
        detail = f"{len(drawn)} × {folders.plots / prefix}…png" if drawn else why
        yield Promise(f"figure of {what}", bool(drawn), detail)
    for row in _rows(folders.tables / "hypotheses.csv"):
        # A verdict that could not be reached is one too, where it says so.
        yield Promise(f"verdict {row['id']}", bool(row["verdict"]), row["verdict"])
    pages = {
        "report page": folders.reports / "index.html",
        "metric cache report": folders.reports / "cache_report.md",
    }
    for what, path in pages.items():
        yield Promise(what, path.exists(), str(path))
    for part in ("promptbench", "helm"):
        if part in left_out:
            yield Promise(part, kept=False, detail=left_out[part])
    conditions = {row["condition"] for row in _rows(folders.tables / "summary_by_condition.csv")}
    compiled = (
        "in the tables" if "C8" in conditions else "nothing is compiled: pcsuite optimize --config PROFILE"
    )
    yield Promise("compiled prompt (C8)", "C8" in conditions, compiled)


def _column(
    folders: ReportFolders,
    what: str,
    file: str,
    column: str,
    counts: Callable[[str], bool],
    left_out: Mapping[str, str],
) -> Promise:
    """A promise that some rows of a table keep."""
    count = sum(counts(row.get(column, "")) for row in _rows(folders.tables / file))
    why = left_out.get("verifier-pass", "the verifier judged none of its answers: pcsuite verifier-pass")
    return Promise(what, count > 0, f"{count} rows of {folders.tables / file}" if count else why)


def _by_verifier(value: str) -> bool:
    return value.startswith("verifier")


def _rows(path: Path) -> Rows:
    """The rows of a table; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
