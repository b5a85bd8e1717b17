"""Information about the truth, and why there is none."""

import math

import pytest

from pcsuite.config.load import load_suite
from pcsuite.logging.log import iter_rows
from pcsuite.runners.run_suite import run_suite
from support.analysed import tables_of
from support.profiles import write_profile
from support.provider_server import ProviderServer
from support.synthetic_log import make_row


@pytest.mark.slow
def test_information_about_the_truth(tmp_path):
    labels = {f"{k}": "xy"[k % 2] for k in range(40)}
    rows = [make_row(item=k, condition="C0", answer="x", metrics={"confidence": 1.0}) for k in labels]
    rows += [
        make_row(item=k, condition="C3", answer=label, metrics={"confidence": 0.5})
        for k, label in labels.items()
    ]
    found = tables_of(tmp_path, rows, {"agnews_json": labels})
    known = {(r["condition"], r["measure"]): r for r in found["information"]}
    assert known["C0", "mutual information"]["value"] == pytest.approx(0.0, abs=1e-9)
    # All of log 2 is told; Miller–Madow takes (2 - 2 - 2 + 1)/80 off, i.e. adds 1/80.
    assert known["C3", "mutual information"]["value"] == pytest.approx(0.6931 + 1 / 80, abs=1e-3)
    assert known["C0", "ECE"]["value"] == pytest.approx(0.0)
    assert known["C3", "Brier score"]["value"] == pytest.approx(0.25)
    # Five operators lie between C0 and C3: nothing of it can be credited to one of them.
    assert {row["id"]: row["verdict"] for row in found["hypotheses"]}["H1I"] == "not tested"


@pytest.mark.slow
def test_without_truths_information_says_so(tmp_path):
    found = tables_of(tmp_path, [make_row(item=f"{k}", condition=c) for k in range(3) for c in ("C0", "C3")])
    notes = [row["note"] for row in found["information"]]
    assert "not computed: the truths were not given: report with --config" in notes
    assert [row["verdict"] for row in found["hypotheses"]][:5] == ["not tested"] * 5


@pytest.mark.slow
def test_truths_that_were_given_are_not_asked_for(tmp_path):
    """A report with --config on tasks with open answers: there are no labels, and --config would bring none."""
    operators = {"C0": (), "C1": ("SCHEMA",)}
    rows = [make_row(item=f"{k}", condition=c, operators=o) for k in range(3) for c, o in operators.items()]
    found = tables_of(tmp_path, rows, truths={})
    notes = [str(row["note"]) for table in ("information", "structure") for row in found[table]]
    assert "not computed: no task has a closed set of labels" in notes
    assert "it needs tasks with a closed set of labels and readable answers on both sides" in notes
    assert not any("--config" in note for note in notes)


@pytest.mark.slow
def test_the_models_own_probability_of_its_label_is_calibrated_too(tmp_path):
    """From the server's log probabilities through the row's metrics to the table."""
    with ProviderServer(text='{"label": "World"}') as server:
        model = {
            "provider": "openai",
            "family": "f",
            "size": "1B",
            "base_url": f"{server.origin}/v1",
            "logprobs": True,
        }
        server.logprobs = [('{"label": "', 0.0), ("World", math.log(0.75)), ('"}', 0.0)]
        path = write_profile(tmp_path, {"served": model}, conditions=("C0",), regimes=("D0",), items=12)
        suite = load_suite(path)
        log = run_suite(suite, quiet=True, use_cache=False).paths.log
    rows = list(iter_rows(log))
    assert [row.metrics["label_probability"] for row in rows] == [pytest.approx(0.75)] * 12
    assert rows[0].metrics["answer_perplexity"] == pytest.approx(0.75 ** (-1 / 3))
    assert rows[0].generation.usage.cached_tokens == 90
    right = sum(row.metrics["task_score"] for row in rows) / 12
    found = {record["measure"]: record for record in tables_of(tmp_path, rows)["information"]}
    # All answers have one confidence, so the gap is its distance from the share of right ones.
    assert found["ECE (label probability)"]["value"] == pytest.approx(abs(0.75 - right), abs=1e-6)
    brier = right * 0.25**2 + (1 - right) * 0.75**2
    assert found["Brier score (label probability)"]["value"] == pytest.approx(brier, abs=1e-6)
