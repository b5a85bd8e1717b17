"""The embedded model through the whole suite: repeatable, constrained, measured."""

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.weights import catalogue_entry, weights_path
from pcsuite.logging.log import newest_rows
from pcsuite.runners.run_suite import run_suite
from support.profiles import SMOLLM, write_profile

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    if not weights_path(catalogue_entry("smollm2-135m-instruct-q4_1")).is_file():
        pytest.skip("the embedded model is not here: pcsuite models pull smollm2-135m")
    folder = tmp_path_factory.mktemp("embedded")
    seeds = {"seeds": {"D0": [0], "D1": [1, 2]}, "seeds_per_task": {"default": 2}}
    path = write_profile(folder, SMOLLM, conditions=("C0", "C6"), items=2, repro=seeds)
    results = []
    for name in ("first", "second"):
        summary = run_suite(load_suite(path, {"run.name": name}), quiet=True, use_cache=False)
        results.append({row.run_id: row for row in newest_rows(summary.paths.log)})
    return results


def test_the_same_profile_gives_the_same_texts_at_d0_and_per_seed_at_d1(runs):
    first, second = runs
    assert first.keys() == second.keys()
    assert len(first) == 2 * 2 * 3
    for run_id, row in first.items():
        assert row.seed_honoured is True
        assert row.generation.text == second[run_id].generation.text


def test_replicates_differ_from_each_other(runs):
    free = [r for r in runs[0].values() if r.decoding.id == "D1" and r.condition.id == "C0"]
    texts = {}
    for row in free:
        texts.setdefault(row.task.item_id, set()).add(row.generation.text)
    assert all(len(group) == 2 for group in texts.values())


def test_c6_is_enforced_and_says_by_whom(runs):
    constrained = [row for row in runs[0].values() if row.condition.id == "C6"]
    for row in constrained:
        assert row.generation.constraint_backend.startswith("native:llama.cpp")
        if row.generation.finish_reason != "length":
            assert row.parsed.json_mode == "strict"
            assert row.parsed.schema_valid is True


def test_rows_carry_exact_tokens_and_the_engine(runs):
    for row in runs[0].values():
        assert row.prompt.tokens_exact is True
        assert 0 < row.prompt.prompt_tokens < row.generation.usage.prompt_tokens
        assert row.engine["engine"].startswith("xllamacpp ")
        assert row.engine["weights_sha256"].startswith("b179c952")
