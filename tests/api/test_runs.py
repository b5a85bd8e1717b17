"""Runs from Python: results, tables, event loops."""

import asyncio
import html
import http.cookiejar
import urllib.request

import pytest
import yaml

import pcsuite as pcs
from pcsuite.errors import AnalysisError, ConfigError


@pytest.mark.slow
def test_a_run_says_what_it_did_and_what_it_found(made):
    assert (made.name, made.summary.tally.done) == ("own", 80)
    assert repr(made).startswith("Run('own': 80 rows in 2 cells")
    effect = next(record for record in made.effects().records() if record["metric"] == "score")
    rows = made.rows().to_pandas()
    scores = rows.groupby("condition_id")["metric_task_score"].mean()
    assert effect["delta"] == pytest.approx(scores["C1"] - scores["C0"])
    assert (effect["condition"], effect["baseline"], effect["n_items"]) == ("C1", "C0", 40)
    shown = made._repr_html_()
    assert made.result.sentence in html.unescape(shown)
    assert "<td>no reliable change</td>" in shown
    assert [row["verdict"] for row in made.result.rows] == ["control", "no reliable change"]


def test_items_have_the_scorers_own_metrics_and_agree_with_the_rows(made):
    items = made.items().to_polars()
    assert items.height == 80
    assert set(items.columns) >= {"item_id", "condition", "score", "words"}
    rows = made.rows().to_polars()
    assert items["score"].sum() == rows["metric_task_score"].sum()


def test_another_baseline_turns_the_effect_round(made):
    (forward,) = [one["delta"] for one in made.effects().records() if one["metric"] == "score"]
    (backward,) = [one["delta"] for one in made.effects("C1").records() if one["metric"] == "score"]
    assert backward == -forward
    with pytest.raises(AnalysisError, match="no row has the baseline 'C9'"):
        made.effects("C9")


@pytest.mark.slow
def test_any_table_of_the_report_by_name(made):
    assert {record["condition"] for record in made.table("summary_by_condition").records()} == {"C0", "C1"}
    with pytest.raises(AnalysisError, match="did you mean 'effects'"):
        made.table("efects")


@pytest.mark.slow
def test_inside_a_running_loop_both_ways_work(profile, tmp_path):
    async def notebook():
        made = pcs.run(profile, quiet=True, name="sync", output_dir=tmp_path, limit=5)
        again = await pcs.arun(profile, quiet=True, name="async", output_dir=tmp_path, limit=5)
        return made, again

    made, again = asyncio.run(notebook())
    assert [one["score"] for one in made.items().records()] == [
        one["score"] for one in again.items().records()
    ]
    assert pcs.compare(made, again).changes == []


@pytest.mark.slow
def test_a_cancelled_arun_keeps_its_rows_and_goes_on(profile, tmp_path):
    slow = yaml.safe_load((profile.parent / "models.yaml").read_text())
    slow["models"]["sim"]["latency_ms"] = 30
    (tmp_path / "slow.yaml").write_text(yaml.safe_dump(slow))
    settings = {
        "output_dir": tmp_path,
        "suite__models_ref": str(tmp_path / "slow.yaml"),
        "repro__max_inflight": 1,
    }

    async def cut():
        task = asyncio.create_task(pcs.arun(profile, quiet=True, **settings))
        log = tmp_path / "runs" / "own.jsonl"
        while not (log.is_file() and log.stat().st_size > 2000):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut())
    made = pcs.run(profile, quiet=True, **settings)
    assert made.summary.skipped > 0
    assert made.summary.skipped + made.summary.tally.done == 80


@pytest.mark.slow
def test_read_finds_a_run_by_name_or_log_and_says_which_is_meant(made):
    output_dir = made.log.parent.parent
    assert pcs.read("own", output_dir=output_dir).items().rows == made.items().rows
    assert pcs.read(made.log).name == "own"
    with pytest.raises(ConfigError, match="did you mean 'own'"):
        pcs.read("owm", output_dir=output_dir)
    with pytest.raises(ConfigError, match="is a folder"):
        pcs.read(output_dir / "runs", output_dir=output_dir)


@pytest.mark.slow
def test_report_writes_the_page_from_a_result_or_a_name(made, tmp_path):
    files = made.report(out=str(tmp_path), plots=False, title="Mine")
    assert "Mine" in files.index.read_text()
    named = pcs.report(
        "own", profile=made.suite, output_dir=made.log.parent.parent, out=tmp_path, plots=False, title="Mine"
    )
    assert named.index == files.index


@pytest.mark.slow
def test_view_serves_the_run_behind_a_token_until_closed(made):
    serving = made.view()
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        with opener.open(serving.url) as answer:
            assert answer.status == 200
        assert "token=" in serving._repr_html_()
    finally:
        serving.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(serving.url)
