"""Exporters: published benchmarks to items files, from original files or from the Hugging Face hub."""

from __future__ import annotations

from typing import Any

from pcsuite.data.export.base import Exporter
from pcsuite.registry import Registry

EXPORTERS: Registry[type[Exporter[Any]]] = Registry(
    "dataset",
    "pcsuite.exporters",
    {
        "conll2003": "pcsuite.data.export.conll:ConllExporter",
        "ag_news": "pcsuite.data.export.ag_news:AgNewsExporter",
        "gsm8k": "pcsuite.data.export.arithmetic:Gsm8kExporter",
        "commonsense_qa": "pcsuite.data.export.questions:CommonsenseQaExporter",
        "truthful_qa": "pcsuite.data.export.truthful_qa:TruthfulQaExporter",
        "truthful_qa_mc": "pcsuite.data.export.truthful_qa:TruthfulQaMcExporter",
        "fever": "pcsuite.data.export.fever:FeverExporter",
        "spider": "pcsuite.data.export.spider:SpiderExporter",
        "svamp": "pcsuite.data.export.arithmetic:SvampExporter",
        "strategyqa": "pcsuite.data.export.questions:StrategyQaExporter",
        "boolq": "pcsuite.data.export.questions:BoolQExporter",
        "trec": "pcsuite.data.export.questions:TrecExporter",
        "nq_open": "pcsuite.data.export.questions:NqOpenExporter",
        "conll04": "pcsuite.data.export.relations:Conll04Exporter",
        "scierc": "pcsuite.data.export.relations:SciErcExporter",
    },
)
"""By the name that ``--only`` and ``dataset`` of a task call a dataset."""
