"""Power of a plan: the report's family, the test's floor, a pilot's world, and what a wanted effect needs."""

from dataclasses import replace

import numpy as np
import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.logging.log import iter_newest_rows
from pcsuite.runners.estimate import PowerSettings, _between_clusters, family_sizes, plan_power
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from pcsuite.stats.power import achieved_power
from support.profiles import SIMULATED, write_profile


def plan_of(tmp_path, models=None, **changes):
    chosen = {"items": 40, "conditions": ("C0", "C3"), **changes}
    path = write_profile(tmp_path, models, **chosen) if models else write_profile(tmp_path, **chosen)
    return path, build_plan(load_suite(path))


def test_the_family_is_that_of_the_report(tmp_path):
    models = {"one": SIMULATED, "two": SIMULATED}
    _, plan = plan_of(tmp_path, models, items=9, conditions=("C0", "C2", "C3"), regimes=("D0", "D1"))
    # two conditions against the control, on two models, under two regimes
    assert set(family_sizes(plan).values()) == {8}
    assert {design.comparisons for design in plan_power(plan, PowerSettings())} == {8}


@pytest.mark.slow
def test_the_promise_is_kept_by_the_library(tmp_path):
    _, plan = plan_of(tmp_path, regimes=("D1",))
    (design,) = plan_power(plan, PowerSettings())
    assert (design.items, design.replicates, design.comparisons, design.from_pilot) == (40, 2, 1, False)
    again = achieved_power(design.world, design.gain, 40, replicates=2, rng=np.random.default_rng(4))
    assert again == pytest.approx(0.8, abs=0.03)
    assert design.loss == pytest.approx(-design.gain, abs=0.02)


@pytest.mark.slow
def test_a_wanted_effect_at_the_detectable_size_needs_what_the_plan_has(tmp_path):
    _, plan = plan_of(tmp_path, regimes=("D1",))
    (design,) = plan_power(plan, PowerSettings())
    (again,) = plan_power(plan, PowerSettings(effect=design.gain))
    assert again.target.power == pytest.approx(0.8, abs=0.02)
    assert again.target.items == pytest.approx(40, abs=3)
    assert again.target.replicates in (2, 3)
    (hopeless,) = plan_power(plan, PowerSettings(effect=0.01))
    assert hopeless.target.replicates is None
    assert hopeless.target.items > 10_000


@pytest.mark.slow
def test_seeds_of_greedy_decoding_are_no_replicates(tmp_path):
    _, plan = plan_of(tmp_path, regimes=("D0",))
    (design,) = plan_power(plan, PowerSettings(effect=0.2))
    assert design.replicates == 1
    assert design.target.replicates is None


def test_a_plan_in_which_nothing_can_hold_says_so(tmp_path, capsys):
    models = {f"m{index}": SIMULATED for index in range(4)}
    path, plan = plan_of(tmp_path, models, items=8, conditions=("C0", "C2", "C3"), regimes=("D0",))
    designs = plan_power(plan, PowerSettings(accuracy=0.05))
    assert not any(design.can_hold for design in designs)
    assert {(design.gain, design.loss) for design in designs} == {(None, None)}
    assert main(["plan", "--config", str(path), "--power", "--assume", "accuracy=0.05"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no effect can hold with 8 items and 8 tests: least p 0.0078 against 0.0063 for one alone" in said
    assert "at least 9 items needed" in said


@pytest.mark.slow
def test_an_effect_without_room_is_told(tmp_path, capsys):
    path, plan = plan_of(tmp_path, regimes=("D0",))
    (design,) = plan_power(plan, PowerSettings(accuracy=0.95, effect=0.2))
    assert design.target.power is None
    assert main(["plan", "--config", str(path), "--effect", "0.2", "--assume", "accuracy=0.95"]) == 0
    assert "no room" in capsys.readouterr().out


@pytest.mark.slow
def test_a_pilot_is_measured(tmp_path):
    sure = {"sim": SIMULATED | {"base_accuracy": 0.5, "item_difficulty_sd": 3.0}}
    path = write_profile(tmp_path, sure, items=40, conditions=("C0", "C3"), regimes=("D1",))
    summary = run_suite(load_suite(path), quiet=True)
    (design,) = plan_power(build_plan(load_suite(path)), PowerSettings(), summary.paths.log)
    assert design.from_pilot
    assert 0 < design.world.noise < 1
    assert 0.2 < design.world.accuracy < 0.8
    assert 0.02 < design.gain < 0.5


@pytest.mark.slow
def test_pooled_counts_are_planned_on_the_pooled_figure(tmp_path, capsys):
    path = write_profile(
        tmp_path, tasks=("conll03_ner_json",), items=30, conditions=("C0", "C3"), regimes=("D1",)
    )
    (stated,) = plan_power(build_plan(load_suite(path)), PowerSettings())
    assert stated.measure == "micro_f1"
    assert main(["plan", "--config", str(path), "--power"]) == 0
    assert "--pilot LOG plans on micro-F1" in " ".join(capsys.readouterr().out.split())
    summary = run_suite(load_suite(path), quiet=True)
    (design,) = plan_power(build_plan(load_suite(path)), PowerSettings(), summary.paths.log)
    counts = {"C0": np.zeros(3), "C3": np.zeros(3)}
    for row in iter_newest_rows(summary.paths.log):
        counts[row.condition.id] += [row.metrics[name] for name in ("tp", "fp", "fn")]
    pooled = {name: 2 * tp / (2 * tp + fp + fn) for name, (tp, fp, fn) in counts.items()}
    assert design.world.differences.mean() == pytest.approx(pooled["C3"] - pooled["C0"])
    assert main(["plan", "--config", str(path), "--power", "--pilot", str(summary.paths.log)]) == 0
    assert "planned on micro-F1" in " ".join(capsys.readouterr().out.split())


def test_related_items_are_worth_fewer(tmp_path, capsys):
    """40 items in 20 clusters by a key of theirs: as good as 20 where they answer alike, as 40 where they do not."""
    path, plan = plan_of(tmp_path, regimes=("D0",))
    (task,) = plan.tasks.values()
    related = replace(task, items=[replace(item, cluster=f"c{n % 20}") for n, item in enumerate(task.items)])
    cells = tuple(replace(cell, task=related) for cell in plan.cells)
    clustered = replace(plan, tasks={task.id: related}, cells=cells)
    (apart,) = plan_power(plan, PowerSettings())
    (alike,) = plan_power(clustered, PowerSettings())
    (loose,) = plan_power(clustered, PowerSettings(related=0.0))
    assert [(d.items, d.clusters, d.units) for d in (apart, alike, loose)] == [
        (40, 40, 40),
        (40, 20, 20),
        (40, 20, 40),
    ]
    assert loose.gain == apart.gain < alike.gain
    few = replace(related, items=[replace(item, cluster=f"c{n % 5}") for n, item in enumerate(task.items)])
    (untested,) = plan_power(
        replace(clustered, tasks={task.id: few}, cells=tuple(replace(cell, task=few) for cell in cells)),
        PowerSettings(related=0.0),
    )
    assert not untested.can_hold
    assert main(["plan", "--config", str(path), "--power", "--cluster", "labl", "--regimes", "D0"]) == 2
    assert "did you mean 'label'?" in capsys.readouterr().err
    assert main(["plan", "--config", str(path), "--power", "--cluster", "label", "--regimes", "D0"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "40 items in 4 clusters by label" in out
    assert "nothing will be tested: 4 clusters, at least 6 are needed" in out


def test_a_pilot_says_how_alike_related_items_are():
    # Two values each of ten clusters: the same within, different between, and the other way round.
    same = np.repeat(np.arange(10.0), 2)
    labels = [f"c{n // 2}" for n in range(20)]
    assert _between_clusters(same, labels) == pytest.approx(1.0)
    assert _between_clusters(np.tile([0.0, 1.0], 10), labels) == 0.0
    assert _between_clusters(same, [str(n) for n in range(20)]) is None
