"""Several models and tables in one ablation: where verdicts hold, what a successor needs, and what is safe for all."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pcsuite as pcs
from pcsuite.ablation import ablate, preview
from pcsuite.ablation.across import change_of, holds_words, model_differences, where_verdicts_hold
from pcsuite.ablation.across_picture import differences_records, headline, migration_lines, sentences
from pcsuite.ablation.study import prepare
from pcsuite.ablation.trim import choose_drops, confirm_drops
from pcsuite.cli import main
from pcsuite.contrasts import ArmScores
from pcsuite.errors import ConfigError
from pcsuite.logging.log import iter_rows
from support.ablating import request_in, words_of

OLD, NEW = "simulated/old", "simulated/new"
EFFECTS = {"rules": 2.0, f"{OLD}:tone": 2.2, f"{NEW}:role": 2.4}


def several(folder, items=400, **changes):
    settings = {"models": (OLD, NEW), "effects": EFFECTS, "design": "leave-one-out"}
    return request_in(folder, items=items, **(settings | changes))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return ablate(several(tmp_path_factory.mktemp("models")), quiet=True)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("helps", "helps", "still needed"),
        ("helps", "no worse without it", "no longer needed"),
        ("no worse without it", "helps only as filler", "newly needed"),
        ("no worse without it", "no worse without it", "needed by neither"),
        ("helps", "hurts", "newly hurts"),
        ("hurts", "no worse without it", "no longer hurts"),
        ("hurts", "helps", "newly needed"),
        ("helps", "undecided", "not known"),
        ("undecided", "helps", "not known"),
        ("not tested", "not tested", "not known"),
    ],
)
def test_what_becomes_of_a_block_is_said_only_where_both_verdicts_are(old, new, change):
    assert change_of(old, new) == change


def test_a_difference_of_effects_is_paired_by_item(tmp_path):
    """Worked by hand: the effect is 1 on the new model in every second of 40 items and 0 on the old one."""
    study = prepare(several(tmp_path, items=40, trim=False))
    ones, half = np.ones(40), np.arange(40) % 2.0
    blocks = study.free
    old = {"full": ones} | {f"-{name}": ones for name in blocks}
    new = {"full": ones} | {f"-{name}": half if name == "role" else ones for name in blocks}
    arms = [
        {name: ArmScores(values, bounds=(0.0, 1.0)) for name, values in one.items()} for one in (old, new)
    ]
    entries = {entry.block: entry for entry in model_differences(study.each, arms)}
    assert list(entries) == list(blocks)
    assert entries["role"].estimate.value == 0.5
    assert (entries["role"].old, entries["role"].new, entries["role"].differs) == (OLD, NEW, True)
    # 20 items to one side, none to the other: 2 · 2^-20, and Holm over four blocks.
    assert entries["role"].p_value == pytest.approx(4 * 2 * 0.5**20, rel=1e-6)
    assert (entries["tone"].estimate.value, entries["tone"].differs) == (0.0, False)


@pytest.mark.slow
def test_verdicts_are_said_by_model_and_where_they_hold(result):
    assert [one.study.model_id for one in result.each] == [OLD, NEW]
    holding = where_verdicts_hold(result.each)
    assert holding["rules"] == {"helps": [OLD, NEW]}
    assert holding["tone"]["helps"] == [OLD]
    assert holding["role"]["helps"] == [NEW]
    assert holds_words(holding["rules"]) == "all: helps"
    assert "helps: rules" in headline(result)
    # One log of one profile: every model was asked the same arms on the same items.
    rows = list(iter_rows(result.log))
    first = {arm.id for arm in result.study.design.first}
    asked = {(row.model.id, row.condition.id) for row in rows}
    assert {(model, arm) for model in (OLD, NEW) for arm in first} <= asked


@pytest.mark.slow
def test_what_the_successor_needs_comes_with_its_interval(result):
    records = {record["block"]: record for record in differences_records(result)}
    assert records["tone"]["change"] == "no longer needed"
    assert records["role"]["change"] == "newly needed"
    assert records["rules"]["change"] == "still needed"
    assert records["tone"]["difference_high"] < 0 < records["role"]["difference_low"]
    for name, record in records.items():
        by_model = [next(e.effect.value for e in one.verdicts if e.block == name) for one in result.each]
        assert record["difference"] == pytest.approx(by_model[1] - by_model[0])
    (line, *_) = migration_lines(result)
    assert f"{NEW} no longer needs tone; {NEW} newly needs role; {NEW} still needs rules" in line


@pytest.mark.slow
def test_the_trimmed_prompt_drops_nothing_that_one_model_needs(result):
    assert result.trim.dropped == ("noise",)
    assert [one.trim.dropped for one in result.beside] == [("noise",)]
    assert "Safe for all: without noise the score changes by simulated/old" in sentences(result)[-3]
    assert "Never answer directly." not in result.trimmed


@pytest.mark.slow
def test_the_command_writes_one_table_and_a_page_for_each_and_goes_on(tmp_path, capsys):
    request = several(tmp_path, items=120)
    models = ["--models", f"{OLD},{NEW}", "--design", "leave-one-out", "--no-trim"]
    words = words_of(request)
    words[words.index("--model") : words.index("--model") + 2] = models
    assert main([*words, "--show"]) == 0
    shown = capsys.readouterr().out
    assert "beside: simulated/new (simulated)" in shown
    assert "rows: 1,440 (6 arms × 120 items + 120 items)" in shown
    assert main(words) == 0
    folder = tmp_path / "outputs/ablations/prompt"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"models.md", "models.csv", "models.json", "differences.csv", "trimmed.md"} <= names
    assert {f"simulated-{name}/ablation.html" for name in ("old", "new")} <= names
    assert "holds on" in capsys.readouterr().out
    document = json.loads((folder / "models.json").read_text())
    assert set(document["each"]) == {OLD, NEW}
    rows = len((folder / "runs/prompt.jsonl").read_text().splitlines())
    assert main(words) == 0
    assert len((folder / "runs/prompt.jsonl").read_text().splitlines()) == rows


@pytest.mark.slow
def test_several_tables_and_models_from_python(tmp_path):
    request = several(tmp_path, items=90)
    second = tmp_path / "more.csv"
    lines = (tmp_path / "tickets.csv").read_text().splitlines()
    second.write_text("\n".join([lines[0], *(f"again {line}" for line in lines[1:71])]) + "\n")
    settings = {"config": request.config, "output_dir": request.output_dir, "answer": "queue", "margin": 0.1}
    made = pcs.ablate(
        request.prompt, [request.data, second], models=[OLD, NEW], effects=EFFECTS, design="leave-one-out",
        quiet=True, **settings,
    )  # fmt: skip
    assert list(made.each) == [f"{model} on {table}" for table in ("tickets", "more") for model in (OLD, NEW)]
    assert len(made.models()) == 4 * 4
    assert len(made.differences()) == 2 * 4
    items = {label: one.result.study.count for label, one in made.each.items()}
    assert items[f"{NEW} on more"] == 70
    assert made.result.each[2].trim is None or all(
        step.difference.n == 35 for step in made.result.each[2].trim.steps
    )
    assert "models and tables" in made.sentence
    assert "Ablation(" in repr(made)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"models": (OLD, OLD)}, "--models: 'simulated/old' is named twice"),
        ({"models": (OLD, "nothing"), "effects": {}}, "no model 'nothing'"),
        ({"until": "decided"}, "--until stops by one model and one table"),
        ({"effects": {"simulated/x:tone": 1.0}}, "--effect simulated/x:tone: no model 'simulated/x'"),
        ({"effects": {f"{OLD}:nothing": 1.0}}, "--effect: no block 'nothing'"),
    ],
)
def test_mistakes_with_several_models_are_told(tmp_path, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        prepare(several(tmp_path, **changes))


def test_tables_must_differ_in_name_and_all_must_fill_the_prompt(tmp_path):
    request = several(tmp_path, models=(), effects={})
    with pytest.raises(ConfigError, match="is named twice"):
        prepare(replace(request, more_data=(request.data,)))
    other = tmp_path / "other"
    other.mkdir()
    (other / "tickets.csv").write_bytes((tmp_path / "tickets.csv").read_bytes())
    with pytest.raises(ConfigError, match="are both called 'tickets'"):
        prepare(replace(request, more_data=(str(other / "tickets.csv"),)))
    (tmp_path / "lacking.csv").write_text(
        "words,queue\n" + "".join(f"w{n},{'ab'[n % 2]}\n" for n in range(60))
    )
    with pytest.raises(pcs.PcsuiteError, match=r"no column for the variable \{\{ text \}\}"):
        prepare(replace(request, more_data=(str(tmp_path / "lacking.csv"),)))


def test_more_comparisons_reach_less(tmp_path):
    one = preview(several(tmp_path, models=(), model="simulated", effects={})).forecast
    two = preview(several(tmp_path, effects={})).forecast
    assert two.blocks == 2 * one.blocks
    assert two.detectable > one.detectable


def searched(search, answers):
    """What a search on several models ends with, and what it asked."""
    asked = []
    try:
        dropped = next(search)
        while True:
            asked.append(dropped)
            dropped = search.send([ArmScores(values, bounds=(0.0, 1.0)) for values in answers(dropped)])
    except StopIteration as end:
        return end.value, asked


def right(count, n=200):
    return (np.arange(n) < count).astype(float)


def test_a_block_that_one_model_needs_is_not_chosen():
    cells = [
        (right(150), {"a": right(150), "b": right(150), "c": right(149)}),
        (right(150), {"a": right(90), "b": right(150), "c": right(150)}),
    ]
    chosen, asked = searched(choose_drops(cells, margin=0.05), lambda dropped: [right(149), right(150)])
    assert set(chosen) == {"b", "c"}
    assert asked == [frozenset({"b", "c"})]


def test_a_set_is_confirmed_only_where_every_model_confirms_it():
    fulls = [ArmScores(right(150), bounds=(0.0, 1.0))] * 2
    rng = np.random.default_rng(0)
    answers = {3: [right(150), right(100)], 2: [right(150), right(100)], 1: [right(150), right(149)]}
    trims, asked = searched(
        confirm_drops("abc", fulls, margin=0.05, rng=rng), lambda dropped: answers[len(dropped)]
    )
    assert [len(dropped) for dropped in asked] == [3, 2, 1]
    assert [trim.dropped for trim in trims] == [("a",), ("a",)]
    assert [step.confirmed_here for step in trims[0].steps] == [True, True, True]
    assert [step.confirmed_here for step in trims[1].steps] == [False, False, True]
    assert [step.confirmed for step in trims[0].steps] == [False, False, True]


@pytest.mark.slow
def test_a_prompt_that_loses_the_margin_on_one_model_is_rarely_called_safe_for_all():
    """400 worlds: nothing changes on the first model, and the second loses exactly the margin, 0.1."""
    rng = np.random.default_rng(5)
    confirmed = 0
    for _ in range(400):
        full = [ArmScores((rng.random(80) < 0.8).astype(float), bounds=(0.0, 1.0)) for _ in range(2)]
        lost = np.where(rng.random(80) < 0.125, 0.0, full[1].values)  # 0.8 · 0.125 = 0.1
        search = confirm_drops("abc", full, margin=0.1, rng=rng)
        trims, _ = searched(search, lambda dropped, kept=full[0].values, less=lost: [kept, less])
        confirmed += bool(trims[0].dropped)
    # 5 % of 400 is 20; 30 or more would be seen in fewer than 2 of 100 such simulations.
    assert confirmed < 30
