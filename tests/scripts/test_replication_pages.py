"""The replications: what is registered is what is asked, rows come in pieces, and pages are what the rows say."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import recompute_replications as second_opinion
import replication_pages as pages
import replication_rows as published
import replication_verdicts as rules

from pcsuite.config.load import load_suite
from pcsuite.contrasts import Contrast as Difference
from pcsuite.contrasts import Family, judge, measure
from pcsuite.logging.log import iter_newest_rows
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite

LANDED = json.loads(published.REGISTERED.read_text(encoding="utf-8"))
MODEL = "qwen2.5-coder-0.5b"
CONDITIONS = {"prompt_twice": 6, "expert_roles": 8, "text_behind": 18, "reading_artefact": 12}
BUNDLED = {"draw.example_sets": 2, "limits.max_items_per_task": 3, "limits.per_task_max_items": {}}
"""So few items and pairs of examples as bundled tasks have."""


@pytest.mark.parametrize("name", published.NAMES)
def test_what_is_registered_is_what_is_asked(name):
    assert published.registration(name) == LANDED[name]["design"]
    assert set(LANDED[name]["prompts"]) == set(published.CHANCE)


@pytest.mark.parametrize("name", published.NAMES)
def test_a_profile_is_complete_and_of_the_size_that_its_page_says(name):
    suite = load_suite(f"replications/{name}")
    profile, selection = suite.profile, suite.profile.selection
    limits = [suite.item_limit(task) for task in selection.tasks]
    assert sorted(limits) == [180, 200, 200, 200, 200, 200]
    assert profile.draw is not None
    assert all(set(pair) <= set(selection.conditions) for pair in rules.contrasts_of(suite))
    assert len(selection.conditions) == CONDITIONS[name]
    rows = [CONDITIONS[name] * sum(min(items, limit) for limit in limits) for items, _ in published.LOOKS]
    text = (published.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert (
        f"{CONDITIONS[name]} conditions × 1,180 items of 6 tasks: {rows[2]:,} rows a model, {rows[0]:,} of them up to the"
        f" first look and {rows[1]:,} up to the second"
    ) in text
    assert f"{rows[2]:,} |" in (published.PAGES / "README.md").read_text(encoding="utf-8")


def test_the_looks_share_the_error_that_is_allowed():
    assert sum(alpha for _, alpha in published.LOOKS) == pytest.approx(0.05)
    suite = load_suite("replications/prompt_twice")
    assert published.LOOKS[-1][0] == suite.profile.limits.max_items_per_task
    assert suite.profile.preregistration.alpha == 0.05


def test_a_key_that_comes_later_and_is_not_used_changes_no_hash():
    suite = load_suite("replications/text_behind")
    told = published.design_of("text_behind", suite)["tasks"]["trec"][0]
    every = suite.tasks["trec"].model_dump(mode="json")
    assert set(told) < set(every)
    assert all(every[key] == value for key, value in told.items())


def small(overrides=()):
    """A profile's overrides for bundled items."""
    return {**BUNDLED, **dict(overrides)}


@pytest.mark.parametrize("name", published.NAMES)
def test_conditions_render_pairwise_distinct_and_shams_have_the_length_of_what_they_stand_for(name):
    suite = load_suite(f"replications/{name}", small({"limits.max_items_per_task": 2}))
    plan = build_plan(suite)
    assert not plan.not_applicable
    cells = [cell for cell in plan.cells if cell.model_id == MODEL]
    for task in plan.tasks.values():
        for item in task.items:
            text = {cell.condition.id: cell.tree(item).assemble() for cell in cells if cell.task is task}
            assert len(set(text.values())) == len(text)
            for full, sham in (
                ("zero_twice", "zero_filler"), ("few_twice", "few_filler"), ("expert", "role_filler"),
                ("checks_before", "sham_before"), ("checks_behind", "sham_behind"),
                ("checks_behind_turns", "sham_behind_turns"),
            ):  # fmt: skip
                if full in text:
                    assert len(text[full]) == len(text[sham])
                    assert text[full] != text[sham]
            if "few_filler" in text:
                assert text["few_filler"].count(item.input_text) == 1
                assert text["few_twice"].count(item.input_text) == 2


def test_pages_say_what_the_published_rows_say():
    assert pages.main(["--check"]) == 0


@pytest.mark.parametrize("name", published.NAMES)
def test_a_page_without_rows_says_that_nothing_was_run(name):
    told = pages.results(name, [])
    assert told.startswith(f"**Not yet run.** Registered as `{LANDED[name]['design'][:12]}`")
    assert pages.overview({name: []}) == "No result is here yet."


def test_a_smaller_run_asks_the_first_of_the_same_prompts():
    plans = [
        build_plan(load_suite("replications/prompt_twice", small({"limits.max_items_per_task": count})))
        for count in (2, 4)
    ]
    less, more = map(published.prompts_of, plans)
    assert less.items() < more.items()
    for task in plans[1].tasks.values():
        ranked = published._by_rank(plans[1].suite, task)
        assert {item.item_id for item in ranked[:2]} == {
            item.item_id for item in plans[0].tasks[task.id].items
        }


# With rows of a simulated model.


def simulated(folder, name="prompt_twice", **overrides):
    """A replication on a simulated model that answers half the bundled items rightly."""
    models = folder / "models.yaml"
    models.write_text(
        "models: {sim: {provider: simulated, family: s, size: 1B, base_accuracy: 0.5, json_validity: 0.99}}",
        encoding="utf-8",
    )
    keys = {
        "selection.models": ["sim"],
        "selection.tasks": ["trec", "svamp"],
        "suite.models_ref": str(models),
        "run.output_dir": str(folder / "outputs"),
        "run.cache_dir": str(folder / "cache"),
    }
    return load_suite(f"replications/{name}", small({**keys, **overrides}))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twice")
    suite = simulated(folder)
    run_suite(suite, quiet=True)
    return suite, published.rows_of_log(folder / "outputs" / "runs" / "replication_prompt_twice.jsonl", suite)


def test_rows_are_published_in_pieces_and_read_back_as_they_were(ran, tmp_path):
    suite, rows = ran
    plan = build_plan(suite)
    assert len(rows) == plan.calls == 2 * 3 * 6
    drawn = {item.item_id: task.drawn(item) for task in plan.tasks.values() for item in task.items}
    assert all((row.examples, row.wording) == tuple(map(str, drawn[row.item])) for row in rows)
    assert {row.place for row in rows} == {0, 1, 2}
    early = [row for row in rows if row.place == 0]
    (first,) = published.publish(early, tmp_path)
    before = first.read_bytes()
    (second,) = published.publish(rows, tmp_path)
    assert (first.name, second.name) == ("sim.001.csv.gz", "sim.002.csv.gz")
    assert first.read_bytes() == before
    assert published.read_rows(tmp_path) == rows
    assert published.publish(rows, tmp_path) == []
    assert gzip.decompress(before).decode().splitlines()[0] == ",".join(published.Answer._fields)
    changed = [rows[0]._replace(score=1 - rows[0].score), *rows[1:]]
    with pytest.raises(SystemExit, match="was published with another answer"):
        published.publish(changed, tmp_path)
    other = [rows[0]._replace(engine="hf", item="another")]
    with pytest.raises(SystemExit, match="asked on hf and simulated"):
        published.publish(other, tmp_path)


def test_rows_that_are_too_large_are_not_published(ran, tmp_path, monkeypatch):
    monkeypatch.setattr(published, "LARGEST", 100)
    with pytest.raises(SystemExit, match="take more than 100 bytes"):
        published.publish(ran[1], tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_a_run_goes_on_from_published_rows(ran, tmp_path):
    rows = ran[1]
    suite = simulated(tmp_path)
    published.publish([row for row in rows if row.place < 2], tmp_path / "rows")
    assert published.restore(published.read_rows(tmp_path / "rows"), suite) == 2 * 2 * 6
    assert published.restore(published.read_rows(tmp_path / "rows"), suite) == 0
    for row, remark in (
        (
            rows[0]._replace(engine="hf+bfloat16"),
            r"rows are of hf\+bfloat16, and this run asks it on simulated",
        ),
        (rows[0]._replace(item="another"), "of item another .sim. is not asked"),
    ):
        with pytest.raises(SystemExit, match=remark):
            published.restore([row], suite)
    asked = run_suite(suite, quiet=True)
    log = tmp_path / "outputs" / "runs" / "replication_prompt_twice.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 * 3 * 6
    assert sum('"restored"' in line for line in lines) == 2 * 2 * 6
    assert published.rows_of_log(log, suite) == rows
    assert asked is not None


@pytest.mark.parametrize(
    ("facts", "engine"),
    [
        ({}, "simulated"),
        ({"dtype": "bfloat16", "device": "cpu"}, "simulated+bfloat16"),
        ({"built_for": "AVX512 AVX512_VNNI"}, "simulated+AVX512+AVX512_VNNI"),
        ({"restored": "published rows", "asked_on": "simulated+float32"}, "simulated+float32"),
    ],
)
def test_an_engine_is_told_with_what_may_change_its_answers(ran, facts, engine):
    log = Path(ran[0].profile.run.output_dir) / "runs" / "replication_prompt_twice.jsonl"
    row = next(iter_newest_rows(log))
    assert published.engine_of(msgspec.structs.replace(row, engine=facts)) == engine


def test_rows_of_another_prompt_are_refused(ran, tmp_path):
    suite = simulated(tmp_path, **{"repro.deterministic_hash_seed": "another"})
    log = Path(ran[0].profile.run.output_dir) / "runs" / "replication_prompt_twice.jsonl"
    with pytest.raises(SystemExit, match="its prompt is not the one that is asked"):
        published.rows_of_log(log, suite)


# Verdicts.


def made(
    name,
    table,
    *,
    items=200,
    models=("m",),
    tasks=("trec", "boolq", "svamp", "agnews_json", "csqa_json", "strategyqa"),
):
    """Rows with these scores: by condition a function of (item, task) to the strict and the lenient score."""
    rows = []
    for model in models:
        for task in tasks:
            for item in range(items):
                for condition, score in table.items():
                    strict, lenient = score(item, task)
                    answer = f"a{item % 4}"
                    rows.append(
                        published.Answer(model, "sim", task, item, f"i{item:03}", str(item % 20), "0", condition, strict, lenient, answer, False, "answered")
                    )  # fmt: skip
    return rules.Cells(name, load_suite(f"replications/{name}"), rows)


def half(item, task):
    return (float(item % 2),) * 2


def most(item, task):
    return (float(item % 2 or item % 10 < 6),) * 2


def none(item, task):
    return 0.0, 0.0


WINS = dict.fromkeys(("zero", "zero_filler", "few", "few_filler"), half) | dict.fromkeys(
    ("zero_twice", "few_twice"), most
)
"""The prompt twice is right where once is, and elsewhere too."""


def said(name, table, **more):
    found = rules.ended(made(name, table, **more))
    return found.verdict, found.items


def test_the_verdict_on_the_prompt_twice_asks_for_wins_beyond_length():
    conditions = dict.fromkeys(("zero", "zero_filler", "few", "few_filler"), half)
    assert said("prompt_twice", WINS) == ("supported", 60)
    # That filler does as well rests on nothing being shown, so it is said at the last look only.
    as_long = {**WINS, "zero_filler": most, "few_filler": most}
    assert said("prompt_twice", as_long) == ("supported, and not shown beyond length", 200)
    nothing = {**conditions, "zero_twice": half, "few_twice": half}
    assert said("prompt_twice", nothing) == ("contradicted: no difference of the margin", 60)
    losses = {**dict.fromkeys(conditions, most), "zero_twice": half, "few_twice": half}
    assert said("prompt_twice", losses) == ("contradicted", 60)
    assert said("prompt_twice", {**losses, "few": half, "few_twice": most}) == ("mixed", 60)


def test_the_verdict_on_expert_roles_needs_equivalence_shown():
    roles = load_suite("replications/expert_roles").profile.selection.conditions
    same = dict.fromkeys(roles, half)
    assert said("expert_roles", same) == ("supported", 60)
    # A child's role that does harm takes nothing back; an expert's that helps does.
    assert said("expert_roles", {**same, "child": none})[0] == "supported"
    assert said("expert_roles", {**same, "expert": most}) == ("contradicted", 60)

    # Not significant is not equivalent: what changes as often one way as the other is not settled by a few items.
    assert said("expert_roles", {**same, "expert": lambda item, _: (float(item // 2 % 2),) * 2})[1] > 60


def test_the_verdict_on_text_behind_tells_any_text_from_the_checklist():
    names = load_suite("replications/text_behind").profile.selection.conditions
    good = dict.fromkeys(names, most)
    behind = {name: half for name in names if name.endswith("_behind")}
    assert said("text_behind", good | behind) == ("any text behind the question costs score", 60)
    assert said("text_behind", good | {"checks_behind": half}) == ("the checklist's words cost score", 60)
    assert said("text_behind", good) == ("text behind the question does not cost the margin", 60)
    assert said("text_behind", good | {"line_behind": half}) == ("inconclusive", 200)


def test_the_verdict_on_reading_compares_the_spreads_over_templates():
    names = load_suite("replications/reading_artefact").profile.selection.conditions

    def spread_out(number, *, lenient_too):
        def score(item, task):
            strict = float((item * 7 + 3) % 12 < number)
            return strict, strict if lenient_too else float(item % 2)

        return score

    artefact = {name: spread_out(n, lenient_too=False) for n, name in enumerate(names)} | {"bare_0": half}
    assert said("reading_artefact", artefact) == ("supported", 60)
    ((model, strict, lenient, _, low, high),) = rules.spreads(made("reading_artefact", artefact))
    assert (model, lenient) == ("m", pytest.approx(0.0, abs=1e-6))
    assert strict > 0.2
    assert low < high < 0
    real = {name: spread_out(n, lenient_too=True) for n, name in enumerate(names)} | {"bare_0": half}
    assert said("reading_artefact", real) == ("inconclusive", 200)


def test_a_look_without_all_its_rows_is_not_taken_and_none_after_it():
    table = dict.fromkeys(("zero", "zero_twice", "zero_filler", "few", "few_twice", "few_filler"), half)
    table["zero_twice"] = lambda item, task: (float((item + (item % 7 == 0)) % 2),) * 2
    whole = made("prompt_twice", table)
    kept = [
        row for row in whole.rows if not (row.task == "boolq" and row.condition == "few" and row.place == 70)
    ]
    kept = [
        row for row in kept if not (row.task == "boolq" and row.condition == "few" and 60 <= row.place < 66)
    ]
    found = rules.ended(rules.Cells("prompt_twice", whole.suite, kept))
    assert (found.verdict, found.items) == ("", 60)
    assert found.missing == ["few on boolq (113 of 120)"]
    text = pages.results("prompt_twice", kept)
    assert "### m: no verdict yet" in text
    assert "The look after 60 items settled nothing" in text
    assert "The look after 120 items a task lacks few on boolq (113 of 120)" in text


def test_rows_after_the_look_that_ended_a_study_change_nothing():
    table = dict.fromkeys(("zero", "zero_filler", "few", "few_filler"), half)
    table |= dict.fromkeys(("zero_twice", "few_twice"), lambda i, t: most(i, t) if i < 60 else none(i, t))
    found = rules.ended(made("prompt_twice", table))
    assert (found.verdict, found.items) == ("supported", 60)
    text = pages.results("prompt_twice", made("prompt_twice", table, items=80).rows)
    assert "rows were asked after that look; they change nothing" in text


def test_every_model_has_its_own_verdict():
    rows = made("prompt_twice", WINS, items=60, models=(MODEL, "mine")).rows
    text = pages.results("prompt_twice", rows)
    assert f"### {MODEL}: supported\n" in text
    assert "### mine: supported\n" in text
    assert text.count("not registered by name") == 1


def test_a_contrast_is_that_of_the_items_clustered_by_example_set():
    table = dict.fromkeys(("zero", "zero_filler", "few", "few_filler", "few_twice"), half)
    cells = made("prompt_twice", {**table, "zero_twice": most}, tasks=("trec",), items=60)
    found = cells.judged(rules.STRICT, ["trec"])["zero_twice", "zero"]
    assert found.estimate.value == pytest.approx(
        np.mean([most(i, "")[0] - half(i, "")[0] for i in range(60)])
    )
    shown, bare = (
        cells.arms("m", ["trec"], rules.STRICT, pair)
        for pair in (("few_twice", "few"), ("zero_twice", "zero"))
    )
    assert list(shown["few"].clusters) == [f"trec {i % 20}" for i in range(60)]
    assert bare["zero"].clusters is None
    (alone,) = judge(
        measure(bare, [Difference.of("zero_twice", "zero")], rng=np.random.default_rng(0)), Family("holm")
    )
    assert found.p_adjusted >= alone.p_adjusted


def test_dead_cells_are_shown_and_not_counted():
    table = dict.fromkeys(("zero", "zero_twice", "zero_filler", "few", "few_twice", "few_filler"), half)

    def floor(item, task):
        return none(item, task) if task == "boolq" else half(item, task)

    cells = made("prompt_twice", dict.fromkeys(table, floor), items=60)
    assert "boolq" not in cells.live
    assert "trec" in cells.live
    assert cells.dead("m", "boolq") == "over all conditions 0.00 read leniently, with 0.50 by chance"
    constant = made("prompt_twice", dict.fromkeys(table, half), tasks=("trec",))
    constant = rules.Cells("prompt_twice", cells.suite, [row._replace(answer="LOC") for row in constant.rows])
    assert constant.dead("m", "trec") == "100% of all readable answers are one"
    text = pages.results("prompt_twice", cells.rows)
    assert re.search(r"Not counted: .*boolq \(over all conditions 0\.00", text)


def pages_before_any_row(folder):
    """The pages as they are where nothing is published yet."""
    for name in (*published.NAMES, "README"):
        text = (published.PAGES / f"{name}.md").read_text(encoding="utf-8")
        (folder / f"{name}.md").write_text(text, "utf-8")
    assert pages.main(["--to", str(folder)]) == 0
    assert "**Not yet run.**" in (folder / "prompt_twice.md").read_text(encoding="utf-8")


def test_a_page_is_written_from_its_rows(tmp_path):
    pages_before_any_row(tmp_path)
    folder = tmp_path / "rows" / "prompt_twice"
    for piece in published.publish(made("prompt_twice", WINS, items=20).rows, folder):
        assert pages.main(["prompt_twice", "--to", str(tmp_path)]) == 0
        assert ".png" not in (tmp_path / "prompt_twice.md").read_text(encoding="utf-8")  # nothing to draw yet
        front = (tmp_path / "README.md").read_text(encoding="utf-8")
        assert "| [The prompt twice](prompt_twice.md) | m | `sim` | none yet | – | – | 720 |" in front
        piece.unlink()
    published.publish(made("prompt_twice", WINS, items=60).rows, folder)
    assert pages.main(["prompt_twice", "--to", str(tmp_path)]) == 0
    text = (tmp_path / "prompt_twice.md").read_text(encoding="utf-8")
    assert "### m: supported\n" in text
    front = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "(prompt_twice.md) | m | `sim` | **supported** | supported | 60 | 2,160 |" in front
    assert "commonest answer | abstained |" in text
    assert "12 wins and 0 losses in 12" in text
    assert (tmp_path / "prompt_twice.png").stat().st_size > 5000
    assert pages.main(["--check", "--to", str(tmp_path)]) == 0
    (tmp_path / "rows" / "prompt_twice" / "m.001.csv.gz").unlink()
    assert pages.main(["--check", "--to", str(tmp_path)]) == 1


def test_every_line_of_the_pages_is_computed_again_with_nothing_of_the_package():
    assert second_opinion.differences() == []
    source = Path(second_opinion.__file__).read_text(encoding="utf-8")
    assert not re.search(r"^(import|from) (pcsuite|numpy|scipy|replication_)", source, re.MULTILINE)


@pytest.mark.parametrize(("name", "items", "seed"), [("prompt_twice", 60, 1), ("reading_artefact", 60, 2)])
def test_the_second_opinion_agrees_on_rows_of_any_kind_and_sees_a_wrong_number(tmp_path, name, items, seed):
    """Random effects, hidden answers, dead tasks, a model that is not registered, and a look that is not complete."""
    rng = np.random.default_rng(seed)
    conditions = second_opinion.conditions_of(name)
    effect = dict(zip(conditions, rng.normal(0, 0.1, len(conditions)), strict=True))
    rows = []
    for model, count in ((MODEL, items), ("other", items // 2)):
        for task in second_opinion.TASKS:
            base = rng.choice([0.02, 0.4, 0.7])
            for place in range(count):
                luck, examples = rng.random(), str(rng.integers(20))
                for condition in conditions:
                    right = float((luck if rng.random() < 0.8 else rng.random()) < base + effect[condition])
                    hidden = rng.random() < 0.1
                    rows.append(
                        published.Answer(
                            model, "sim", task, place, f"i{place:03}", examples, str(place % 3), condition,
                            0.0 if hidden else right, right, "" if hidden else str(rng.choice(list("AABC"))),
                            bool(rng.random() < 0.1), "cut" if hidden else "answered",
                        )
                    )  # fmt: skip
    pages_before_any_row(tmp_path)
    published.publish(rows, tmp_path / "rows" / name)
    pages.main([name, "--to", str(tmp_path)])
    assert second_opinion.differences(tmp_path) == []
    path = tmp_path / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    figure = re.search(r"\d\.\d\d(?= /)", text.split(pages.BEGIN)[1])
    path.write_text(text.replace(f"{figure[0]} /", "9.99 /", 1), "utf-8")
    assert len(second_opinion.differences(tmp_path)) == 1


def test_a_log_of_ones_own_is_judged_without_being_published(ran, capsys):
    suite = ran[0]
    log = Path(suite.profile.run.output_dir) / "runs" / "replication_prompt_twice.jsonl"
    before = {path: path.read_bytes() for path in published.PAGES.glob("*.md")}
    keys = small({"draw.example_sets": 2}) | {"run.cache_dir": suite.profile.run.cache_dir}
    words = [f"--set={key}={json.dumps(value)}" for key, value in keys.items()]
    assert pages.main(["prompt_twice", "--log", str(log), *words]) == 0
    told = capsys.readouterr().out
    assert told.startswith("36 rows, registered as `")
    assert "### sim: no verdict yet" in told
    assert "The look after 60 items a task lacks" in told
    assert ".png" not in told
    assert before == {path: path.read_bytes() for path in published.PAGES.glob("*.md")}
    with pytest.raises(SystemExit):
        pages.main(["--log", str(log)])


def test_every_condition_has_its_title():
    suite = load_suite("replications/text_behind")
    bundles = expand_conditions(suite.profile.selection.conditions, suite.conditions, suite.operators)
    assert all(bundle.title for bundle in bundles)
