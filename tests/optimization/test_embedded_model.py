"""APE with the embedded model: it finishes, and the frozen text gives the very answers it was measured by."""

import shutil

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.weights import catalogue_entry, weights_path
from pcsuite.logging.log import newest_rows
from pcsuite.optimization.development import dev_suite
from pcsuite.optimization.run import OptimizeSettings, optimize
from pcsuite.prompts.compiled import compiled_path
from pcsuite.runners.run_suite import run_suite
from support.profiles import SMOLLM, write_profile

pytestmark = pytest.mark.model


def test_the_frozen_text_reproduces_the_answers_of_the_search(tmp_path):
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    if not weights_path(catalogue_entry("smollm2-135m-instruct-q4_1")).is_file():
        pytest.skip("the embedded model is not here: pcsuite models pull smollm2-135m")
    path = write_profile(tmp_path, SMOLLM, conditions=("C8",), regimes=("D1",), items=1)
    suite = load_suite(path)
    outcome = optimize(suite, OptimizeSettings("agnews_json", "smollm2-135m", "ape", candidates=1, items=1))
    assert outcome.document["candidates"] == 1
    rows = newest_rows(outcome.log)
    searched = {
        (row.task.item_id, row.seed): row.generation.text
        for row in rows
        if row.condition.id == f"C8:{outcome.document['hash'][:12]}"
    }
    assert len(searched) == 2
    # The same items through the ordinary run under C8, with nothing from a cache.
    anew = load_suite(path, {"run.output_dir": str(tmp_path / "anew")})
    target = compiled_path(tmp_path / "anew", "agnews_json", "smollm2-135m")
    target.parent.mkdir(parents=True)
    shutil.copy(outcome.path, target)
    summary = run_suite(dev_suite(anew, "agnews_json", 1), quiet=True, use_cache=False)
    again = {(row.task.item_id, row.seed): row.generation.text for row in newest_rows(summary.paths.log)}
    assert again == searched
