"""What a study is about is spelled out, hashed before the first call, and cannot change unnoticed."""

import csv
import json

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError
from pcsuite.logging.manifest import read_manifest
from pcsuite.runners.estimate import PowerSettings, plan_power
from pcsuite.runners.plan import build_plan
from pcsuite.runners.registration import planned_contrasts, registered_plan
from pcsuite.runners.run_suite import run_suite
from support.profiles import SIMULATED, write_profile

MODELS = {"one": SIMULATED, "two": SIMULATED}


def profile(tmp_path, section, **changes):
    chosen = {"items": 8, "conditions": ("C0", "C2", "C3"), "regimes": ("D0",), **changes}
    return write_profile(tmp_path, MODELS, preregistration=section, **chosen)


def contrasts(path):
    plan = build_plan(load_suite(path))
    return [tuple(arm) for arm in planned_contrasts(plan, plan.suite.profile.preregistration)]


def test_contrasts_are_spelled_out(tmp_path):
    primary = ["C3", "C3 - C2", {"condition": "C2", "models": ["two"]}]
    found = contrasts(profile(tmp_path, {"primary": primary}))
    cell = ("agnews_json", "one", "D0")
    other = ("agnews_json", "two", "D0")
    assert found == [
        (*cell, "C3", "C0"),
        (*cell, "C3", "C2"),
        (*other, "C3", "C0"),
        (*other, "C3", "C2"),
        (*other, "C2", "C0"),
    ]


@pytest.mark.parametrize("words", ["C3 vs C2", "C3 − C2", "C3 - C2", "C3 vs. C2"])
def test_a_contrast_in_words(tmp_path, words):
    (contrast,) = load_suite(profile(tmp_path, {"primary": [words]})).profile.preregistration.primary
    assert (contrast.condition, contrast.baseline) == ("C3", "C2")


def test_without_contrasts_every_condition_meets_the_control(tmp_path):
    assert [arm[3:] for arm in contrasts(profile(tmp_path, {"metric": "json_valid"}))] == [
        ("C2", "C0"),
        ("C3", "C0"),
    ] * 2


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"primary": ["C33"]}, r"primary.*unknown selected condition 'C33' \(did you mean"),
        ({"primary": ["C3 - C9"]}, "unknown selected condition 'C9'"),
        ({"primary": [{"condition": "C3", "models": ["tvo"]}]}, "unknown selected model 'tvo'.*two"),
        ({"metric": "task_scor"}, "unknown metric 'task_scor'.*task_score"),
        ({"stopping": {"rule": "decide"}}, "stopping.rule"),
        ({"stopping": {"rule": "no_worse"}}, "needs a margin"),
        ({"margins": 0.1}, "margin"),
    ],
)
def test_mistakes_are_told_at_load(tmp_path, section, said):
    with pytest.raises(ConfigError, match=f"(?s){said}"):
        load_suite(profile(tmp_path, section))


def test_a_part_of_a_registered_study_can_be_run_by_itself(tmp_path):
    path = profile(tmp_path, {"primary": ["C3", "C3 - C2"]})
    part = build_plan(load_suite(path, {"selection.conditions": ["C0", "C3"]}))
    assert {tuple(arm[3:]) for arm in registered_plan(part).contrasts} == {("C3", "C0")}
    assert registered_plan(part).hash == registered_plan(build_plan(load_suite(path))).hash


def test_conditions_of_a_design_are_known_when_they_are_made(tmp_path):
    (tmp_path / "conditions.yaml").write_text(
        'version: "1.0"\nconditions:\n  C0: []\n  loo: {design: leave_one_out, operators: [ROLE, SCHEMA]}\n'
    )
    where = {"models_ref": "models.yaml", "conditions_ref": "conditions.yaml"}
    path = profile(tmp_path, {"primary": ["nowhere"]}, conditions=("C0", "loo"), suite=where)
    plan = build_plan(load_suite(path))
    with pytest.raises(ConfigError, match="unknown selected condition 'nowhere'"):
        registered_plan(plan)
    design = profile(tmp_path, {"primary": ["loo"]}, conditions=("C0", "loo"), suite=where)
    with pytest.raises(ConfigError, match="unknown selected condition 'loo'"):  # a design is no condition
        registered_plan(build_plan(load_suite(design)))
    members = [cell.condition.id for cell in plan.cells if cell.condition.id != "C0"]
    path = profile(tmp_path, {"primary": [members[0]]}, conditions=("C0", "loo"), suite=where)
    assert {arm[3] for arm in contrasts(path)} == {members[0]}


def test_no_command_calls_a_profile_fine_whose_registered_condition_nothing_makes(tmp_path, capsys):
    (tmp_path / "conditions.yaml").write_text(
        'version: "1.0"\nconditions:\n  C0: []\n  fac: {design: factorial, operators: [ROLE, SCHEMA]}\n'
    )
    where = {"models_ref": "models.yaml", "conditions_ref": "conditions.yaml"}
    path = profile(tmp_path, {"primary": ["fac:+ROLE"]}, conditions=("C0", "fac"), suite=where)
    for words in (["config", "check", str(path)], ["plan", "--config", str(path)]):
        assert main(words) == 2
        told = capsys.readouterr()
        assert told.out == ""  # nothing is said before the mistake is
        assert "unknown selected condition 'fac:+ROLE' (did you mean 'fac:ROLE'?)" in told.err
    path = profile(tmp_path, {"primary": ["fac:ROLE"]}, conditions=("C0", "fac"), suite=where)
    assert main(["config", "check", str(path)]) == 0
    assert "2 models, 5 conditions, 1 regime" in capsys.readouterr().out


def test_the_plan_is_in_the_manifest_before_the_first_call(tmp_path, monkeypatch):
    path = profile(tmp_path, {"primary": ["C3"], "margin": 0.02})
    suite = load_suite(path)
    seen = []

    async def refuse(log, plan, executor, **rest):
        seen.append(read_manifest(log.paths.log).preregistration)
        raise ConfigError("stopped before anything was asked")

    monkeypatch.setattr("pcsuite.runners.run_suite.run_into", refuse)
    with pytest.raises(ConfigError, match="stopped before"):
        run_suite(suite, quiet=True)
    (registered,) = seen
    assert len(registered.hash) == 64
    assert registered.plan["margin"] == 0.02
    assert ["agnews_json", "one", "D0", "C3", "C0"] in registered.contrasts
    assert registered.registered_utc


def test_a_changed_plan_is_refused_with_both_hashes(tmp_path):
    path = profile(tmp_path, {"primary": ["C3"]})
    summary = run_suite(load_suite(path), quiet=True)
    before = read_manifest(summary.paths.log).preregistration
    profile(tmp_path, {"primary": ["C2"]})
    changed = load_suite(path)
    with pytest.raises(ConfigError, match="the plan changed after 48 rows") as refused:
        run_suite(changed, quiet=True)
    after = registered_plan(build_plan(changed)).hash
    assert before.hash[:12] in str(refused.value)
    assert after[:12] in str(refused.value)
    assert read_manifest(summary.paths.log).preregistration == before
    run_suite(changed, quiet=True, deviation="C2 turned out to be the one")
    registered = read_manifest(summary.paths.log).preregistration
    (deviation,) = registered.deviations
    assert (deviation["from"], deviation["to"]) == (before.hash, after)
    assert deviation["rows"] == 48
    assert registered.hash == after
    # and it stays on record
    run_suite(changed, quiet=True)
    assert read_manifest(summary.paths.log).preregistration.deviations == [deviation]


def test_a_plan_made_up_afterwards_is_refused(tmp_path):
    path = write_profile(tmp_path, MODELS, items=4, conditions=("C0", "C3"), regimes=("D0",))
    run_suite(load_suite(path), quiet=True)
    profile(tmp_path, {"primary": ["C3"]}, items=4, conditions=("C0", "C3"))
    with pytest.raises(ConfigError, match="registered was nothing"):
        run_suite(load_suite(path), quiet=True)


def test_another_part_of_the_same_plan_is_no_deviation(tmp_path):
    path = profile(tmp_path, {"primary": ["C3"]})
    run_suite(load_suite(path, {"selection.models": ["one"]}), quiet=True)
    summary = run_suite(load_suite(path), quiet=True)
    registered = read_manifest(summary.paths.log).preregistration
    assert {contrast[1] for contrast in registered.contrasts} == {"one", "two"}
    assert registered.deviations == []


def test_the_planner_corrects_over_the_registered_family(tmp_path):
    plan = build_plan(load_suite(profile(tmp_path, {"primary": ["C3"]})))
    assert {design.comparisons for design in plan_power(plan, PowerSettings())} == {2}


def test_the_planner_judges_registered_contrasts_as_the_report_does(tmp_path, capsys):
    path = profile(tmp_path, {"primary": ["C3"], "alpha": 0.01})
    assert main(["plan", "--config", str(path), "--power"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(Holm over the registered contrasts of a task, as in the report) below 0.01 where" in said
    assert "Benjamini" not in said


def test_the_planner_leaves_out_what_no_contrast_is_about(tmp_path):
    primary = [{"condition": "C3", "tasks": ["agnews_json"]}]
    path = profile(tmp_path, {"primary": primary}, tasks=("agnews_json", "gsm8k"))
    plan = build_plan(load_suite(path))
    assert {design.key[0] for design in plan_power(plan, PowerSettings())} == {"agnews_json"}


def test_the_plan_command_shows_it(tmp_path, capsys):
    path = profile(tmp_path, {"primary": ["C3"], "family": "all"})
    assert main(["plan", "--config", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert registered_plan(build_plan(load_suite(path))).hash[:12] in said
    assert "2 primary contrasts (C3 − C0), those of all tasks corrected together" in said
    assert "stops when all items are asked" in said


@pytest.mark.slow
def test_the_report_tells_planned_from_explored(tmp_path):
    path = profile(tmp_path, {"primary": ["C3"]}, items=20)
    run_suite(load_suite(path), quiet=True)
    assert main(["report", "--config", str(path), "--format", "md"]) == 0
    tables = tmp_path / "outputs" / "tables"
    assert "C3,C0" in (tables / "registration.csv").read_text()
    text = (tmp_path / "outputs" / "reports" / "report.md").read_text()
    assert "Planned: 2 primary contrasts" in text
    manifest = json.loads((tmp_path / "outputs" / "runs" / "t.manifest.json").read_text())
    assert manifest["preregistration"]["hash"][:12] in text


@pytest.mark.slow
def test_what_came_of_the_plan_is_the_same_everywhere(tmp_path, capsys):
    path = profile(tmp_path, {"primary": ["C3 - C2"]}, items=20)
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    ran = " ".join(capsys.readouterr().out.split())
    assert main(["report", "--config", str(path), "--format", "md", "--format", "latex"]) == 0
    reported = " ".join(capsys.readouterr().out.split())
    folder = tmp_path / "outputs"
    with (folder / "tables" / "t" / "registration.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["condition"], row["baseline"]) for row in rows] == [
        ("one", "C3", "C2"),
        ("two", "C3", "C2"),
    ]
    planned = json.loads((folder / "reports" / "t" / "result.json").read_text())["planned"]
    text = (folder / "reports" / "t" / "report.md").read_text().replace("\\", "")
    latex = (folder / "reports" / "t" / "latex" / "registration.tex").read_text().replace("$-$", "-")
    for row, entry in zip(rows, planned, strict=True):
        figures = {name: float(row[name]) for name in ("delta", "delta_low", "delta_high", "p_holm")}
        assert {name: pytest.approx(entry[name]) for name in figures} == figures
        change = f"{figures['delta']:+.2f} [{figures['delta_low']:+.2f}, {figures['delta_high']:+.2f}]"
        p = "< 0.001" if figures["p_holm"] < 0.001 else f"{figures['p_holm']:.3f}"
        line = f"C3 − C2 on agnews_json × {row['model']} × D0: {change.replace('-0.00', '0.00')}, 20 items, p (Holm) {p}"
        for told in (ran, reported, text):
            assert f"{line}: {row['outcome']}" in told
        shown = [
            cell.strip()
            for cell in next(one for one in latex.splitlines() if f"& {row['model']} &" in one).split("&")
        ]
        assert shown[3:6] == ["C3", "C2", "20"]
        assert shown[6].startswith(f"{figures['delta']:+.2f} [".replace("-0.00", "0.00"))
        assert shown[8].removesuffix(r"\\").strip() == row["outcome"]


def test_clusters_are_registered_where_looks_go_by_them(tmp_path):
    """Another order of items makes other looks; a run that asks all of them may be clustered by whoever reads it."""

    def hashes(section):
        plans = (build_plan(load_suite(profile(tmp_path, section, cluster=by))) for by in ([], ["label"]))
        return {registered_plan(plan).hash for plan in plans}

    assert len(hashes({"stopping": {"rule": "decided"}})) == 2
    assert len(hashes({"margin": 0.1})) == 1
