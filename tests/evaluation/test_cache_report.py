"""The cache report, from files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcsuite.errors import DataError
from pcsuite.evaluation.cache_report import summarise_cache, write_cache_report
from pcsuite.evaluation.metric_cache import MetricCache


def test_report_merges_what_every_process_wrote(tmp_path: Path) -> None:
    path, stats = tmp_path / "c.sqlite", tmp_path / "stats"
    with MetricCache(path, stats) as cache:
        for number in range(4):
            cache.get("rouge_l", str(number), "r")
            cache.put("rouge_l", str(number), "r", 1.0, seconds=0.5)
    with MetricCache(path, stats) as cache:
        for number in range(4):
            cache.get("rouge_l", str(number), "r")
        cache.put("bleu", "x", "r", 1.0, seconds=0.25)
    with MetricCache(tmp_path / "other.sqlite", stats) as other:
        other.get("rouge_l", "x", "r")
    summary = summarise_cache(path, stats)
    assert dict(summary.rows) == {"rouge_l": 4, "bleu": 1}
    assert summary.size_bytes > 0
    report = write_cache_report(tmp_path / "reports" / "cache_report.md", path, stats).read_text(
        encoding="utf-8"
    )
    assert "- Rows: 5" in report
    # 4 hits at an average of 0.5 s a put save 2 s.
    assert "| rouge_l | 4 | 4 | 4 | 50.0% | 4 | 2.00 | 0.500000 | 2.00 |" in report
    assert "| bleu | 1 | 0 | 0 | – | 1 | 0.25 | 0.250000 | 0.00 |" in report
    assert "| **all** | 5 | 4 | 4 | 50.0% | 5 | 2.25 | 0.450000 | 2.00 |" in report


def test_a_cache_never_used_is_empty(tmp_path: Path) -> None:
    report = write_cache_report(tmp_path / "r.md", tmp_path / "none.sqlite", tmp_path / "none").read_text(
        "utf-8"
    )
    assert "| **all** | 0 | 0 | 0 | – | 0 | 0.00 | – | 0.00 |" in report


def test_damaged_statistics_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"x\.json cannot be read"):
        summarise_cache(tmp_path / "c.sqlite", tmp_path)
