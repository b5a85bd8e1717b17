"""Extraction of building records by llama.cpp: the ladder, the constraint, and too little context."""

import json

import pytest
import yaml

from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.logging.log import newest_rows
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile
from support.tiny_gguf import tiny_gguf

pytestmark = pytest.mark.model

DOCUMENT = "City: Gannet Bay\nClimate zone: 5\nStories: 1\nBedrooms: 2\nConditioned floor area (ft2): 420\n"
TRUTH = {
    "project": {"city": "Gannet Bay", "climate_zone": 5, "stories": 1, "bedrooms": 2},
    "envelope": {"conditioned_floor_area": 420.0},
}


def run(folder, conditions, max_tokens, context_tokens, documents=1):
    """Rows of short documents in their order, with the bundled task except for its completion limit."""
    datasets = folder / "cache" / "datasets"
    datasets.mkdir(parents=True)
    items = [
        {"item_id": f"short-{n}", "input_text": f"{DOCUMENT}Sheet: {n}\n", "truth": {"record": TRUTH}}
        for n in range(documents)
    ]
    (datasets / "buildingspec_test.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    tasks = yaml.safe_load((bundled_configs() / "tasks_v1.yaml").read_text(encoding="utf-8"))
    task = tasks["tasks"]["buildingspec_json"] | {"max_tokens": max_tokens}
    (folder / "tasks.yaml").write_text(
        yaml.safe_dump({"version": "1.0", "tasks": {"buildingspec_json": task}}), encoding="utf-8"
    )
    models = yaml.safe_load((bundled_configs() / "models_v1.yaml").read_text(encoding="utf-8"))["models"]
    model = models["smollm2-135m"] | {"workers": 1, "path": str(tiny_gguf())}
    del model["weights"]
    assert model["context_tokens"] == 8192
    path = write_profile(
        folder,
        {"smollm2-135m": model | {"context_tokens": context_tokens}},
        tasks=("buildingspec_json",),
        conditions=conditions,
        regimes=("D0",),
        suite={"tasks_ref": "tasks.yaml", "models_ref": "models.yaml"},
        length_control="off",
    )
    summary = run_suite(load_suite(path), quiet=True)
    assert summary.not_applicable == ()
    return list(newest_rows(summary.paths.log))


def test_c6_enforces_the_schema_of_the_record(tmp_path):
    rows = run(tmp_path, ("C0", "C6"), max_tokens=24, context_tokens=8192, documents=6)
    for row in rows:
        assert row.errors == []
        assert row.metrics["task_score"] == 0.0  # 24 tokens are no whole record
        assert row.metrics["omissions"] == 5
    constrained = [row for row in rows if row.condition.id == "C6"]
    assert len(constrained) == 6
    # The weights are drawn by lot: some answers are an empty record, which the schema allows, and end by themselves.
    # The others are cut at the limit, but so far every key is one of the schema, and laid out as enforced JSON is.
    schema = json.loads(
        (bundled_configs() / "schemas" / "buildingspec_json.json").read_text(encoding="utf-8")
    )
    sections = tuple(schema["properties"])
    for row in constrained:
        answer = row.generation
        assert answer.constraint_backend == "native:llama.cpp"
        assert row.metrics["truncated"] is (answer.finish_reason == "length")
        if answer.finish_reason == "length":
            assert answer.text.startswith(tuple(f'{{"{name}": ' for name in sections))
        else:
            assert (answer.finish_reason, answer.text) == ("stop", "{}")
    assert any(row.metrics["truncated"] for row in constrained)
    assert all(row.generation.constraint_backend is None for row in rows if row.condition.id == "C0")


def test_a_prompt_beyond_the_context_is_an_error_row_with_the_remedy(tmp_path):
    rows = {row.condition.id: row for row in run(tmp_path, ("C0", "C3"), max_tokens=300, context_tokens=256)}
    (error,) = rows["C3"].errors
    assert "raise context_tokens of model 'smollm2-135m' or shorten the prompt" in error
    assert rows["C3"].generation is None
    # The short prompt fits, its answer may not: it ends where the context ends, and says so.
    fits = rows["C0"].generation
    assert fits.usage.total_tokens <= 256
    assert fits.finish_reason in ("stop", "length")
