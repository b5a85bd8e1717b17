from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pcsuite.data.export.base import HubTable, HubTables
from pcsuite.errors import DataError


def test_converted_tables_are_loaded_from_their_parquet_branch(monkeypatch):
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def load_dataset(*args: Any, **kwargs: Any) -> dict[str, list[dict[str, int]]]:
        calls.append((args, kwargs))
        return {"dev": [{"n": 1}, {"n": 2}]}

    library = SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setattr("pcsuite.data.export.base.require", lambda module, extra: library)
    hub = HubTables()
    plain = HubTable("a", "org/a", "main")
    assert [row.values for row in hub.rows(plain, "dev")] == [{"n": 1}, {"n": 2}]
    assert [row.where for row in hub.rows(plain, "dev")] == ["hub a/main/dev row 1", "hub a/main/dev row 2"]
    list(hub.rows(HubTable("b", "org/b", "v1", ("dev",)), "dev"))
    assert calls == [
        (("org/a", "main"), {}),
        (("org/b",), {"data_files": {"dev": "v1/dev/*.parquet"}, "revision": "refs/convert/parquet"}),
    ]
    assert [(source["hub"], source["rows"]) for source in hub.sources()] == [("org/a", 2), ("org/b", 2)]


def test_a_hub_that_cannot_be_reached_names_the_other_roads(monkeypatch):
    def load_dataset(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no route\nmore lines")

    monkeypatch.setattr(
        "pcsuite.data.export.base.require", lambda module, extra: SimpleNamespace(load_dataset=load_dataset)
    )
    with pytest.raises(DataError) as caught:
        next(HubTables().rows(HubTable("a", "org/a"), "dev"))
    assert "org/a cannot be loaded: no route (use --from DIR" in str(caught.value)
    assert "more lines" not in str(caught.value)


def test_a_table_without_hub_copy_names_the_road(monkeypatch):
    monkeypatch.setattr("pcsuite.data.export.base.require", lambda module, extra: SimpleNamespace())
    with pytest.raises(DataError, match="no table with the published split on the hub"):
        HubTables().has_split(HubTable("a", None), "dev")


def test_mirrors_are_checked(mirror: Path):
    hub = HubTables(mirror)
    with pytest.raises(DataError, match="no table 'nope'"):
        hub.has_split(HubTable("nope", "org/nope"), "dev")
    with pytest.raises(DataError, match=r"hub table gsm8k/main/dev: no such split \(it has test, train\)"):
        next(hub.rows(HubTable("gsm8k", "openai/gsm8k", "main"), "dev"))
    assert hub.holds(HubTable("fever", "fever/fever", "wiki_pages"))
    assert not hub.holds(HubTable("fever", "fever/fever", "other"))


def test_one_table_instead_of_splits_is_refused(tmp_path: Path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset.from_list([{"n": 1}]).save_to_disk(str(tmp_path / "a"))
    with pytest.raises(DataError, match="no table 'a'"):
        HubTables(tmp_path).has_split(HubTable("a", "org/a"), "dev")
