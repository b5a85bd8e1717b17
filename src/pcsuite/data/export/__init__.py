"""Exporters: published benchmarks to items files, from original files or from the Hugging Face hub."""

from __future__ import annotations

from pcsuite.data.export.base import BuiltDataset, Exporter, ExportOptions, OutputFile
from pcsuite.data.export.pipeline import (
    EXPORTERS,
    ExportResult,
    export_datasets,
    exported_as,
    exported_datasets,
)

__all__ = [
    "EXPORTERS",
    "BuiltDataset",
    "ExportOptions",
    "ExportResult",
    "Exporter",
    "OutputFile",
    "export_datasets",
    "exported_as",
    "exported_datasets",
]
