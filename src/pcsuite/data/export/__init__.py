"""Exporters: published benchmarks to items files, from original files or from the Hugging Face hub."""

from __future__ import annotations

from pcsuite.data.export.base import Built, Exporter, ExportOptions, Output
from pcsuite.data.export.pipeline import (
    EXPORTERS,
    ExportResult,
    export_datasets,
    exported_as,
    exported_datasets,
)

__all__ = [
    "EXPORTERS",
    "Built",
    "ExportOptions",
    "ExportResult",
    "Exporter",
    "Output",
    "export_datasets",
    "exported_as",
    "exported_datasets",
]
