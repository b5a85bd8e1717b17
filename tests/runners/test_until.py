"""Running until decided: arms stop, looks are kept, and a killed run goes on from them."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.data.items import Item, datasets_dir, dump_line, task_items
from pcsuite.errors import BudgetExceededError, ConfigError
from pcsuite.logging.log import RunLog, iter_newest_rows
from pcsuite.logging.looks import read_looks
from pcsuite.logging.scored_rows import LoggedScores
from pcsuite.logging.segments import Beside
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from pcsuite.runners.until import UntilDecided, cluster_end
from pcsuite.stats.sequential import confidence_sequence, family_level
from support.profiles import SIMULATED, write_profile

STRONG = {
    "sim": SIMULATED | {"base_accuracy": 0.2, "operator_effects": {"SCHEMA": 4.0}, "json_validity": 0.99}
}


def profile(tmp_path, models=STRONG, **changes):
    chosen = {"items": 40, "conditions": ("C0", "C2", "C3"), "regimes": ("D1",), **changes}
    section = {"stopping": {"rule": "decided", "batch": 5}} | changes.pop("preregistration", {})
    chosen.pop("preregistration", None)
    return write_profile(tmp_path, models, preregistration=section, **chosen)


def items_by_condition(log):
    seen = {}
    for row in iter_newest_rows(log):
        seen.setdefault(row.condition.id, set()).add(row.task.item_id)
    return seen


def test_a_decided_arm_stops_and_the_others_go_on(tmp_path):
    summary = run_suite(load_suite(profile(tmp_path)), quiet=True)
    found = {look.condition: look for look in summary.looks}
    assert found["C3"].verdict == "better"
    assert found["C3"].stopped
    # One look is all there was, or the mean is without the bias of the others.
    assert found["C3"].low <= found["C3"].unbiased <= found["C3"].high
    assert all(entry.unbiased is None for entry in found.values() if not entry.stopped)
    assert found["C2"].verdict == "undecided"
    seen = items_by_condition(summary.paths.log)
    assert len(seen["C3"]) == found["C3"].visited < 40
    assert len(seen["C0"]) == len(seen["C2"]) == 40
    assert seen["C3"] < seen["C0"]


def test_looks_are_the_confidence_sequence_of_item_means(tmp_path):
    summary = run_suite(load_suite(profile(tmp_path)), quiet=True)
    looks = [look for look in read_looks(summary.paths.log) if look.condition == "C2"]
    assert [look.visited for look in looks] == list(range(5, 41, 5))
    scores = {}
    for row in iter_newest_rows(summary.paths.log):
        scores.setdefault((row.condition.id, row.task.item_id), []).append(row.metrics["task_score"])
    order = list(dict.fromkeys(row.task.item_id for row in iter_newest_rows(summary.paths.log)))
    means = {name: np.array([np.mean(scores[name, item]) for item in order]) for name in ("C2", "C0")}
    level = family_level(2)  # two arms share the level
    sequence = confidence_sequence(means["C2"] - means["C0"], level=level, looks=[5, 10, 20, 40])
    kept = {look.visited: look for look in looks}
    for index, n in enumerate(sequence.items):
        assert kept[n].mean == pytest.approx(sequence.mean[index])
        assert kept[n].level == level
    assert kept[40].low >= sequence.low[-1] - 1e-9


def test_a_margin_makes_equal_arms_end(tmp_path):
    same = {"sim": SIMULATED | {"base_accuracy": 0.97, "operator_effects": {}, "json_validity": 0.999}}
    path = profile(tmp_path, same, conditions=("C0", "C2"), preregistration={"margin": 0.4})
    (look,) = run_suite(load_suite(path), quiet=True).looks
    assert look.verdict == "equivalent"
    assert look.stopped
    assert look.visited < 40


def test_no_worse_is_a_rule_of_its_own(tmp_path):
    stopping = {"margin": 0.5, "stopping": {"rule": "no_worse", "batch": 5}}
    path = profile(tmp_path, conditions=("C0", "C3"), preregistration=stopping)
    (look,) = run_suite(load_suite(path), quiet=True).looks
    assert look.verdict in ("no worse", "better")
    assert look.stopped


def test_everything_decided_ends_the_run(tmp_path):
    summary = run_suite(load_suite(profile(tmp_path, conditions=("C0", "C3"))), quiet=True)
    (look,) = summary.looks
    assert {len(items) for items in items_by_condition(summary.paths.log).values()} == {look.visited}
    assert summary.tally.done == look.visited * 2 * 2


@pytest.mark.slow
def test_a_run_that_was_cut_short_goes_on_with_its_looks(tmp_path):
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = run_suite(load_suite(profile(tmp_path / "whole")), quiet=True)
    path = profile(tmp_path / "cut")
    with pytest.raises(BudgetExceededError):
        run_suite(load_suite(path, {"limits.max_tokens_overall": 9_000}), quiet=True)
    log = tmp_path / "cut" / "outputs" / "runs" / "t.jsonl"
    early = read_looks(log)
    assert early
    with Beside.LOOKS.of(log).open("ab") as stream:
        stream.write(b'{"task": "torn')
    summary = run_suite(load_suite(path), quiet=True)
    looks = read_looks(log)
    assert looks[: len(early)] == early
    told = [(look.arm, look.visited, look.items, look.low, look.high, look.verdict) for look in looks]
    assert len(set(told)) == len(told)
    assert told == [
        (look.arm, look.visited, look.items, look.low, look.high, look.verdict)
        for look in read_looks(whole.paths.log)
    ]
    assert items_by_condition(log) == items_by_condition(whole.paths.log)
    again = run_suite(load_suite(path), quiet=True)
    assert again.tally.done == 0
    assert again.looks == summary.looks


@pytest.mark.slow
def test_a_log_set_aside_takes_its_looks_along(tmp_path):
    path = profile(tmp_path)
    run_suite(load_suite(path), quiet=True)
    summary = run_suite(load_suite(path, {"run.overwrite": True}), quiet=True)
    assert (tmp_path / "outputs" / "runs" / "t.old-1.looks.ndjson").is_file()
    assert len({(look.arm, look.visited) for look in read_looks(summary.paths.log)}) == len(
        read_looks(summary.paths.log)
    )


def test_failed_rows_leave_their_items_out(tmp_path):
    broken = {"sim": STRONG["sim"] | {"fatal_error_rate": 0.2}}
    path = profile(tmp_path, broken, limits={"max_items_per_task": 20, "stop_on_error_rate": 1.0})
    summary = run_suite(load_suite(path), quiet=True)
    assert all(look.items < look.visited for look in summary.looks)


def test_what_cannot_be_decided_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no bounds"):
        run_suite(load_suite(profile(tmp_path, preregistration={"metric": "token_cost"})), quiet=True)
    with pytest.raises(ConfigError, match="nothing to decide"):
        run_suite(load_suite(profile(tmp_path, conditions=("C3",))), quiet=True)


@pytest.mark.slow
def test_the_command_stops_early_and_the_report_tells_the_looks(tmp_path, capsys):
    path = write_profile(tmp_path, STRONG, items=30, conditions=("C0", "C3"), regimes=("D0",))
    assert (
        main(
            [
                "run",
                "--config",
                str(path),
                "--until",
                "decided",
                "--set",
                "preregistration.stopping.batch=5",
                "--quiet",
            ]
        )
        == 0
    )
    assert "C3 against C0 is better after" in capsys.readouterr().out
    # without the flag the plan is another one
    assert main(["run", "--config", str(path), "--quiet"]) == 2
    assert "the plan changed" in capsys.readouterr().err
    assert main(["report", "--config", str(path), "--format", "md"]) == 0
    text = (tmp_path / "outputs" / "reports" / "report.md").read_text()
    assert "looks were taken" in text
    tables = tmp_path / "outputs" / "tables"
    assert "betting, anytime-valid" in (tables / "effects.csv").read_text()
    looks = (tables / "looks.csv").read_text().splitlines()
    lines = (tmp_path / "outputs" / "runs" / "t.looks.ndjson").read_text().splitlines()
    assert len(looks) == 1 + len(lines)
    assert json.loads(lines[-1])["stopped"] is True


@pytest.mark.slow
def test_looks_at_pooled_counts_say_that_they_judge_item_means(tmp_path, capsys):
    path = write_profile(
        tmp_path, STRONG, tasks=("conll03_ner_json",), items=30, conditions=("C0", "C3"), regimes=("D0",)
    )
    said = "conll03_ner_json: looks judge the mean of item scores"
    command = ["--config", str(path), "--until", "decided"]
    assert main(["plan", *command]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert main(["run", *command, "--quiet"]) == 0
    assert said in capsys.readouterr().out
    assert main(["report", "--config", str(path), "--no-plots"]) == 0
    with (tmp_path / "outputs" / "tables" / "effects.csv").open(newline="") as stream:
        (row,) = (row for row in csv.DictReader(stream) if row["metric"] == "score")
    (look,) = read_looks(tmp_path / "outputs" / "runs" / "t.jsonl")[-1:]
    assert row["measure"] == "mean over items"
    assert float(row["delta"]) == pytest.approx(look.effect)
    assert float(row["delta_low"]) <= look.effect <= float(row["delta_high"])


def test_a_margin_without_a_rule_is_refused(tmp_path, capsys):
    path = write_profile(tmp_path, STRONG)
    assert main(["run", "--config", str(path), "--margin", "0.02"]) == 2
    assert "--margin goes with --until" in capsys.readouterr().err


def related_items(tmp_path, size):
    """The profile's task with its items' clusters in a file of its own: so many items each, one after the other."""
    path = profile(tmp_path, conditions=("C0", "C3"), cluster="group")
    suite = load_suite(path)
    spec = suite.tasks["agnews_json"]
    cache = Path(suite.profile.run.cache_dir)
    items = task_items(spec, spec.split, cache, cluster=()).items
    target = datasets_dir(cache) / f"{spec.dataset}_{spec.split}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        "".join(dump_line(item.line() | {"group": f"g{n // size}"}) for n, item in enumerate(items)),
        encoding="utf-8",
    )
    return load_suite(path)


def test_looks_are_taken_where_clusters_end(tmp_path):
    """Clusters of seven and batches of five: a look after 7, 14, 21, … items, and no cluster is cut."""
    suite = related_items(tmp_path, 7)
    summary = run_suite(suite, quiet=True)
    looks = read_looks(summary.paths.log)
    clusters = {row.task.item_id: row.task.cluster for row in iter_newest_rows(summary.paths.log)}
    order = list(dict.fromkeys(row.task.item_id for row in iter_newest_rows(summary.paths.log)))
    assert looks
    for look in looks:
        seen = [clusters[item] for item in order[: look.visited]]
        after = [clusters[item] for item in order[look.visited :]]
        assert not set(seen) & set(after)
        assert look.clusters == len(set(seen))
    assert len({look.visited for look in looks}) == len(looks)


@pytest.mark.parametrize(("position", "end"), [(0, 0), (1, 3), (3, 3), (4, 4), (5, 7), (9, 7)])
def test_where_a_cluster_ends(position, end):
    items = [Item(str(n), str(n), {}, cluster=label) for n, label in enumerate("aaabccc")]
    assert cluster_end(items, position) == end


def test_an_arm_stops_only_where_it_would_whatever_its_missing_answers_were(tmp_path):
    """C3 is far better on what was answered, and what it lost C0 has right: at its worst the two are even."""
    suite = load_suite(profile(tmp_path, conditions=("C0", "C3")))
    plan = build_plan(suite)
    scores = LoggedScores()
    with RunLog.of(suite.profile.run, overwrite=False, scores=scores) as log:
        until = UntilDecided(plan, log, suite.profile.preregistration)
        (arm,) = until._arms
        for number, item in enumerate(arm.treated.task.items):
            for cell, score in ((arm.treated, 1.0), (arm.baseline, 1.0 - number % 2)):
                for unit in cell.units(item):
                    if cell is arm.baseline or number % 2:
                        scores.values[unit.run_id] = score
        until._look(arm, 40)
        assert (arm.last.verdict, arm.last.stopped, arm.last.missing, arm.last.items) == (
            "undecided",
            False,
            20,
            20,
        )
        dropping = suite.profile.model_copy(update={"missing": "drop"})
        until._plan = replace(plan, suite=replace(suite, profile=dropping))
        arm.last = None
        until._look(arm, 40)
        assert (arm.last.verdict, arm.last.stopped, arm.last.missing) == ("better", True, 20)


def planned(tmp_path, **changes):
    stopping = {"rule": "decided", "looks": 4}
    return profile(tmp_path, preregistration={"stopping": stopping | changes.pop("stopping", {})}, **changes)


def test_planned_looks_are_taken_after_equal_parts_and_named(tmp_path):
    summary = run_suite(load_suite(planned(tmp_path)), quiet=True)
    looks = read_looks(summary.paths.log)
    assert {look.visited for look in looks} <= {10, 20, 30, 40}
    assert all((look.rule, look.planned) == ("obrien-fleming", 4) for look in looks)
    assert [(look.number, look.visited) for look in looks if look.condition == "C2"] == [
        (1, 10),
        (2, 20),
        (3, 30),
    ]
    found = {look.condition: look for look in summary.looks}
    assert found["C3"].verdict == "better"
    assert found["C3"].visited < 40
    assert items_by_condition(summary.paths.log)["C3"] < items_by_condition(summary.paths.log)["C0"]


def test_planned_looks_are_part_of_what_is_registered(tmp_path):
    """Looks that were planned otherwise are another plan; a plan without them is hashed as it always was."""
    from pcsuite.runners.registration import registered_plan

    hashes = set()
    for name, stopping in (("a", {}), ("b", {"looks": 5}), ("c", {"spending": "pocock"})):
        (tmp_path / name).mkdir()
        plan = build_plan(load_suite(planned(tmp_path / name, stopping=stopping)))
        content = registered_plan(plan)
        assert content.plan["stopping"]["looks"] == stopping.get("looks", 4)
        hashes.add(content.hash)
    assert len(hashes) == 3
    (tmp_path / "d").mkdir()
    without = registered_plan(build_plan(load_suite(profile(tmp_path / "d"))))
    assert without.plan["stopping"] == {"rule": "decided", "batch": 5}


def test_planned_looks_need_a_rule_to_stop_by(tmp_path):
    with pytest.raises(ConfigError, match="needs a rule"):
        load_suite(planned(tmp_path, stopping={"rule": "all_items"}))


def test_an_arm_that_the_items_left_would_hardly_decide_is_given_up(tmp_path):
    # Always right, so that nothing moves: all items together could not show a margin of 0.01.
    same = {"sim": SIMULATED | {"base_accuracy": 0.9999, "operator_effects": {}, "json_validity": 0.9999}}
    path = profile(
        tmp_path,
        same,
        items=80,
        conditions=("C0", "C2"),
        preregistration={"margin": 0.01, "stopping": {"rule": "no_worse", "looks": 8}},
    )
    (look,) = run_suite(load_suite(path), quiet=True).looks
    assert look.verdict == "undecided"
    assert look.stopped
    assert look.visited < 48  # of the sample


@pytest.mark.slow
def test_a_run_with_planned_looks_that_was_cut_short_says_what_a_whole_one_says(tmp_path):
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = run_suite(load_suite(planned(tmp_path / "whole")), quiet=True)
    path = planned(tmp_path / "cut")
    with pytest.raises(BudgetExceededError):
        run_suite(load_suite(path, {"limits.max_tokens_overall": 9_000}), quiet=True)
    summary = run_suite(load_suite(path), quiet=True)
    told = [
        [
            (look.arm, look.visited, look.low, look.high, look.p_value, look.verdict, look.moved)
            for look in each
        ]
        for each in (read_looks(summary.paths.log), read_looks(whole.paths.log))
    ]
    assert sorted(told[0]) == sorted(told[1])
