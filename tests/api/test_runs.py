"""Runs from Python: profiles in every form, results, tables, event loops."""

import asyncio
import html
import http.cookiejar
import json
import urllib.request

import pytest
import yaml

import pcsuite as pcs
from pcsuite.cli import main
from pcsuite.errors import AnalysisError, ConfigError
from support.own_task import write_own_profile


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return write_own_profile(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def made(profile):
    return pcs.run(profile, quiet=True)


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


def test_a_profile_may_be_a_mapping_and_overrides_are_the_flags_words(profile, tmp_path, monkeypatch):
    monkeypatch.chdir(profile.parent)
    content = yaml.safe_load(profile.read_text())
    del content["version"]
    suite = pcs.load(
        content, name="mine", tasks="tickets", conditions=["C0"], limit=5, limits__max_cost_usd=2.5
    )
    assert (suite.profile.run.name, suite.profile.selection.conditions) == ("mine", ("C0",))
    assert (suite.profile.limits.max_items_per_task, suite.profile.limits.max_cost_usd) == (5, 2.5)
    made = pcs.run(content, quiet=True, name="mapped", output_dir=tmp_path, limit=4)
    assert made.summary.tally.done == 8
    assert made.log == tmp_path / "runs" / "mapped.jsonl"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"condition": "C0"}, "unknown word 'condition' (did you mean 'conditions'?)"),
        ({"conditions": "C77"}, "unknown condition 'C77'"),
        ({"limits__max_cost": 1}, "max_cost"),
        ({"name": "a/b"}, "letters, digits"),
    ],
)
def test_what_is_wrong_is_one_clear_line(profile, changes, words):
    with pytest.raises(ConfigError) as caught:
        pcs.run(profile, quiet=True, **changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mapping_that_is_wrong_names_its_line():
    chosen = {
        "tasks": ["agnews_jso"],
        "models": ["smollm2-135m"],
        "conditions": ["C0"],
        "decoding_regimes": ["D0"],
    }
    with pytest.raises(ConfigError, match=r"^profile:\d+: selection.tasks\[0\]: unknown task 'agnews_jso'"):
        pcs.plan({"run": {"name": "x"}, "selection": chosen})
    with pytest.raises(ConfigError, match="what YAML has no word for"):
        pcs.plan({"run": object()})


def test_a_loaded_profile_takes_no_overrides(profile):
    suite = pcs.load(profile)
    assert pcs.plan(suite).rows == 80
    with pytest.raises(ConfigError, match="takes no overrides"):
        pcs.plan(suite, limit=3)


def test_plan_says_rows_and_price_and_calls_nothing(profile, tmp_path):
    planned = pcs.plan(profile, output_dir=tmp_path / "new", limit=10)
    assert (planned.rows, planned.max_cost_usd) == (20, 0)
    assert [record["rows"] for record in planned.cells().records()] == [10, 10]
    assert "20 rows, 20 to run" in repr(planned)
    assert "<table>" in planned._repr_html_()
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_plan_says_what_it_can_find_as_the_command_does(profile, tmp_path, capsys):
    planned = pcs.plan(profile, power=True, assume={"accuracy": 0.7}, output_dir=tmp_path / "new", limit=40)
    (record,) = planned.power().records()
    assert (record["items"], record["comparisons"], record["can_hold"]) == (40, 1, True)
    assert 0 < record["smallest_gain"] < 0.3
    assert "smallest_gain" in repr(planned)
    words = [
        "--power",
        "--assume",
        "accuracy=0.7",
        "--limit",
        "40",
        "--output-dir",
        str(tmp_path / "new"),
        "--json",
    ]
    assert main(["plan", "--config", str(profile), *words]) == 0
    assert json.loads(capsys.readouterr().out)["power"] == [record]
    assert pcs.plan(profile, limit=10).power_settings is None
    with pytest.raises(ConfigError, match=r"assume: unknown 'accurcy' \(did you mean 'accuracy'"):
        pcs.plan(profile, assume={"accurcy": 0.7})


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
def test_compare_takes_runs_names_and_baselines(made, profile, tmp_path):
    worse = pcs.run(
        profile, quiet=True, name="worse", conditions="C1", repro__deterministic_hash_seed="pcsuite-v1"
    )
    path = made.baseline().write(tmp_path / "own.json", made.metrics)
    for first in (made, "own", path, str(path)):
        compared = pcs.compare(first, worse, margin=0.3, output_dir=made.log.parent.parent)
        assert compared.standing == "no worse"
        assert [key.condition for key in compared.only_first] == ["C0"]
    assert made.compare(made).changes == []


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
