"""A search backend of a user's own package, named in the profile."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.config.profile import RetrievalSection
from pcsuite.errors import ConfigError
from pcsuite.retrieval import RETRIEVERS
from pcsuite.retrieval.base import Passage, Retriever
from pcsuite.runners.plan import build_plan
from pcsuite.runners.retrievers import retrieval_version

PLUGIN = """
from pcsuite.retrieval.base import Passage, Retriever

class Almanac(Retriever):
    @classmethod
    def open(cls, settings, dataset, cache_dir):
        return cls()

    @classmethod
    def version(cls, settings, dataset, cache_dir):
        return {"backend": "almanac", "edition": "1923"}

    def search(self, query, k=5):
        return [Passage("Almanac", 0, query, 1.0)][:k]
"""


@pytest.fixture
def almanac(tmp_path, monkeypatch):
    """An installed package that registers the retriever ``almanac``."""
    site = tmp_path / "site"
    (site / "almanac_search-1.0.dist-info").mkdir(parents=True)
    (site / "almanac_search.py").write_text(PLUGIN)
    info = site / "almanac_search-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: almanac-search\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pcsuite.retrievers]\nalmanac = almanac_search:Almanac\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(RETRIEVERS, "_plugins_loaded", False)
    monkeypatch.setattr(RETRIEVERS, "_targets", dict(RETRIEVERS._targets))


def profile(folder: Path, backend: str) -> Path:
    content = yaml.safe_load((bundled_configs() / "quickstart.yaml").read_text())
    del content["suite"]
    content["integrations"] = {"retrieval": {"enabled_for_tasks": ["fever_json"], "backend": backend}}
    content["run"] = {"name": "t", "output_dir": str(folder / "out"), "cache_dir": str(folder / "cache")}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.usefixtures("almanac")
def test_a_plugin_is_a_backend_like_any_other(tmp_path):
    suite = load_suite(profile(tmp_path, "almanac"))
    assert build_plan(suite).calls > 0
    assert retrieval_version(suite, "fever_json") == {"backend": "almanac", "edition": "1923"}
    opened = RETRIEVERS.get("almanac").open(RetrievalSection(backend="almanac"), "fever", tmp_path)
    assert isinstance(opened, Retriever)
    assert opened.search("Lorvik") == [Passage("Almanac", 0, "Lorvik", 1.0)]
    assert opened.known_pages(RetrievalSection(), "fever", tmp_path) is None


@pytest.mark.usefixtures("almanac")
def test_a_misspelt_backend_is_told_with_its_line(tmp_path, capsys):
    path = profile(tmp_path, "almanack")
    suite = load_suite(path)
    line = 1 + next(n for n, text in enumerate(path.read_text().splitlines()) if "almanack" in text)
    with pytest.raises(ConfigError, match=rf"mine\.yaml:{line}.*backend.*did you mean 'almanac'"):
        build_plan(suite)
    assert main(["config", "check", str(path)]) == 2
    assert "unknown retrieval backend 'almanack'" in capsys.readouterr().err
