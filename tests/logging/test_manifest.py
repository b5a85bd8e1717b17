"""The manifest beside a log: written once, read by everyone, merged for a report."""

from __future__ import annotations

import json

import pytest

from pcsuite.errors import LogError
from pcsuite.logging.manifest import (
    ConditionNote,
    NotApplicableNote,
    RegisteredPlan,
    RunManifest,
    TaskNote,
    differing_settings,
    read_manifest,
    read_manifests,
    write_manifest,
)
from pcsuite.logging.segments import Beside

OLD_FILE = {
    "run": "r",
    "profile": "quickstart",
    "tasks": {"gsm8k": {"title": "Sums", "items": 3, "length_band": [200, 500], "max_tokens": 320}},
    "planned_rows": 12,
    "not_applicable": [{"task": "gsm8k", "model": "m", "condition": "C7", "reason": "no retrieval"}],
    "of_a_later_version": True,
}


def test_what_is_written_is_read(tmp_path):
    log = tmp_path / "r.jsonl"
    assert read_manifest(log) is None
    manifest = RunManifest(
        run="r",
        tasks={"t": TaskNote("T", items=2)},
        conditions={"C0": ConditionNote("bare")},
        not_applicable=[NotApplicableNote("t", "m", "C6", "no backend")],
    )
    write_manifest(log, manifest)
    assert read_manifest(log) == manifest
    assert Beside.MANIFEST.of(log) == tmp_path / "r.manifest.json"


def test_the_keys_of_the_file(tmp_path):
    write_manifest(tmp_path / "r.jsonl", RunManifest())
    text = (tmp_path / "r.manifest.json").read_text()
    assert list(json.loads(text)) == [
        "run", "profile", "config_hash", "pcsuite_version", "length_control", "wordings", "tasks", "models", "conditions",
        "operator_types", "operator_work", "operator_titles", "regimes", "objective", "missing", "analysis", "metrics", "compiled", "preregistration", "planned_rows",
        "not_applicable", "enforced_in_part", "configurations",
    ]  # fmt: skip
    assert text.startswith('{\n  "run"')
    assert text.endswith("}\n")


def test_a_file_with_fewer_and_with_unknown_keys_is_read(tmp_path):
    (tmp_path / "r.manifest.json").write_text(json.dumps(OLD_FILE))
    found = read_manifest(tmp_path / "r.jsonl")
    assert found is not None
    assert (found.planned_rows, found.config_hash, found.tasks["gsm8k"].token_budget) == (12, "", 820)
    assert found.not_applicable == [NotApplicableNote("gsm8k", "m", "C7", "no retrieval")]


def test_a_damaged_file_is_an_error_that_names_it(tmp_path):
    (tmp_path / "r.manifest.json").write_text('{"tasks": 3}')
    with pytest.raises(LogError, match=r"r\.manifest\.json could not be read"):
        read_manifest(tmp_path / "r.jsonl")


def test_manifests_merge_with_the_first_words_first(tmp_path):
    first = RunManifest(run="a", tasks={"t": TaskNote("first")}, compiled=[{"hash": "x"}], planned_rows=2)
    second = RunManifest(
        run="b",
        profile="p",
        tasks={"t": TaskNote("second"), "u": TaskNote("other")},
        compiled=[{"hash": "x"}, {"hash": "y"}],
        planned_rows=3,
    )
    write_manifest(tmp_path / "a.jsonl", first)
    write_manifest(tmp_path / "b.jsonl", second)
    (tmp_path / "c.manifest.json").write_text("{")
    merged = read_manifests([tmp_path / f"{name}.jsonl" for name in "abcd"])
    assert (merged.run, merged.profile, merged.planned_rows) == ("a", "p", 5)
    assert {name: note.title for name, note in merged.tasks.items()} == {"t": "first", "u": "other"}
    assert merged.compiled == [{"hash": "x"}, {"hash": "y"}]
    assert len(merged.problems) == 1
    assert merged.problems[0].startswith("c.manifest.json could not be read")
    assert merged.problems[0].endswith("titles and sources are missing.")


def test_blocks_are_written_only_where_there_are_some(tmp_path):
    write_manifest(tmp_path / "r.jsonl", RunManifest(blocks={"promptbench": {"planned_rows": 3}}))
    assert json.loads((tmp_path / "r.manifest.json").read_text())["blocks"] == {
        "promptbench": {"planned_rows": 3}
    }


def test_parts_of_one_registered_plan_add_their_contrasts():
    def part(contrast, at, digest="abc"):
        plan = RegisteredPlan(digest, {"primary": ["C3"]}, [contrast], at)
        return RunManifest(run="r", preregistration=plan)

    whole = part(["t", "a", "D0", "C3", "C0"], "2026-02-02")
    whole.fill_from(part(["t", "b", "D0", "C3", "C0"], "2026-02-01"))
    whole.fill_from(part(["t", "c", "D0", "C3", "C0"], "2026-01-01", "other"))
    assert [contrast[1] for contrast in whole.preregistration.contrasts] == ["a", "b"]
    assert whole.preregistration.registered_utc == "2026-02-01"


def test_configurations_are_told_apart_by_their_settings():
    one = {"limits.max_items_per_task": 2, "selection.tasks": ["a", "b"], "tasks.a": "11", "models.m": "5"}
    other = {
        "limits.stop_on_error_rate": None,
        "selection.tasks": ["a"],
        "tasks.a": "12",
        "run.name": "default",
    }
    assert differing_settings([one, other]) == [
        "limits.max_items_per_task (2; default)",
        "limits.stop_on_error_rate (default; null)",
        "run.name (default)",
        'selection.tasks (["a", "b"]; ["a"])',
        "the definition tasks.a",
    ]
    assert differing_settings([one, one]) == []
    assert differing_settings([]) == []


def test_long_values_are_left_to_the_profile():
    long = {"selection.conditions": [f"C{number}" for number in range(30)]}
    assert differing_settings([long, {"selection.conditions": ["C0"]}]) == ["selection.conditions"]
