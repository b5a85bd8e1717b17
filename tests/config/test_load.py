"""Profiles: what loads, and what each mistake is told."""

from pathlib import Path

import pytest
import yaml

from pcsuite.config.bundled import bundled_operators
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.errors import ConfigError

CONFIGS = bundled_configs()


def write_profile(folder: Path, **changes):
    data = yaml.safe_load((CONFIGS / "quickstart.yaml").read_text(encoding="utf-8"))
    data["suite"] = {}
    for dotted, value in changes.items():
        node = data
        *parents, last = dotted.split("__")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def message(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_suite(path)
    return str(caught.value)


@pytest.mark.parametrize("name", ["quickstart", "profile_A", "profile_B"])
def test_bundled_profiles_load(name):
    assert load_suite(name).profile.run.name == name


def test_profile_a_is_as_documented():
    suite = load_suite("profile_A")
    assert suite.item_limit("gsm8k") == 500
    assert [len(suite.seeds("D1", task)) for task in ("gsm8k", "truthfulqa_gen", "agnews_json")] == [
        10,
        10,
        3,
    ]
    assert suite.seeds("D0", "gsm8k") == (0,)
    assert suite.profile.length_control == "pad"
    assert suite.profile.limits.stop_on_error_rate == 0.02
    assert suite.regimes["D1"].temperature == 0.7
    assert suite.regimes["D1"].top_p == 0.95
    limits = {task: suite.tasks[task].max_tokens for task in suite.profile.selection.tasks}
    assert limits == {
        "conll03_ner_json": 220,
        "agnews_json": 120,
        "gsm8k": 320,
        "csqa_json": 140,
        "truthfulqa_gen": 180,
        "fever_json": 260,
    }


def test_profile_b_takes_every_item_and_ten_replicates():
    suite = load_suite("profile_B")
    assert suite.item_limit("gsm8k") is None
    assert suite.item_limit("fever_json") == 5000
    assert {len(suite.seeds("D1", task)) for task in suite.profile.selection.tasks} == {10}


def test_a_model_uses_no_more_seeds_than_the_profile_gives_it():
    changes = {"repro.seeds": {"D0": [0, 1], "D1": [1, 2, 3, 4]}, "repro.seeds_per_task": {"default": 3}}
    every = load_suite("quickstart", changes)
    suite = load_suite("quickstart", changes | {"repro.seeds_per_model": {"simulated": 1}})
    assert suite.seeds("D0", "agnews_json", "simulated") == (0,)
    assert suite.seeds("D1", "agnews_json", "simulated") == (1,)
    assert suite.seeds("D0", "agnews_json", "smollm2-135m") == suite.seeds("D0", "agnews_json") == (0, 1)
    assert suite.seeds("D1", "agnews_json", "smollm2-135m") == (1, 2, 3)
    models = ["simulated", "smollm2-135m"]
    assert suite.seeds_left_out(["agnews_json"], ["D0"], models) == [
        "D0: simulated: 1 of the 2 seeds listed (repro.seeds_per_model)"
    ]
    # It asks other rows, and a profile without the key is what it was.
    assert suite.config_hash != every.config_hash
    assert load_suite("quickstart", changes | {"repro.seeds_per_model": {}}).config_hash == every.config_hash


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"repro__seedz": {}}, "repro.seedz: unknown key (did you mean 'seeds'?)"),
        ({"limits__max_cost_us": 3}, "limits.max_cost_us: unknown key (did you mean 'max_cost_usd'?)"),
        ({"selection__tasks": ["agnews_jsn"]}, "unknown task 'agnews_jsn' (did you mean 'agnews_json'?)"),
        (
            {"selection__models": ["smollm2-135"]},
            "unknown model 'smollm2-135' (did you mean 'smollm2-135m'?)",
        ),
        ({"selection__conditions": ["c4"]}, "unknown condition 'c4' (did you mean 'C4'?)"),
        ({"selection__decoding_regimes": ["d0"]}, "unknown regime 'd0'"),
        ({"repro__seeds_per_task": {"gsm8": 2}}, "unknown task 'gsm8' (did you mean 'gsm8k'?)"),
        ({"repro__seeds_per_model": {"smollm": 1}}, "unknown model 'smollm'"),
        ({"repro__max_inflight": "many"}, "repro.max_inflight: a whole number is wanted (got 'many')"),
        ({"run__name": "a/b"}, "run.name: use letters, digits"),
        ({"version": "2.0"}, "profile format '2.0' is not '1.0'"),
    ],
)
def test_mistakes_name_file_line_key_and_remedy(tmp_path, changes, expected):
    text = message(write_profile(tmp_path, **changes))
    assert expected in text
    assert text.startswith(f"{tmp_path / 'mine.yaml'}:")
    assert text.split(":")[1].isdigit()


def test_several_mistakes_are_a_line_each(tmp_path):
    text = message(write_profile(tmp_path, repro__seedz={}, limits__maximum=1))
    assert len(text.splitlines()) == 2


def test_missing_reference_lists_the_places_tried(tmp_path):
    text = message(write_profile(tmp_path, suite__tasks_ref="nowhere.yaml"))
    assert str(tmp_path / "nowhere.yaml") in text
    assert str(tmp_path.parent / "nowhere.yaml") in text


def test_references_resolve_beside_the_profile_then_in_its_parent(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("tasks_v1.yaml",):
        (tmp_path / name).write_text((CONFIGS / name).read_text(encoding="utf-8"), encoding="utf-8")
    path = write_profile(inner, suite__tasks_ref="tasks_v1.yaml")
    assert load_suite(path).sources["tasks_ref"].path == (tmp_path / "tasks_v1.yaml").resolve()


def test_unknown_operator_in_a_condition(tmp_path):
    conditions = tmp_path / "mine_conditions.yaml"
    conditions.write_text('version: "1.0"\nconditions:\n  X: [ROEL]\n', encoding="utf-8")
    path = write_profile(tmp_path, suite__conditions_ref="mine_conditions.yaml", selection__conditions=["X"])
    assert "unknown operator 'ROEL' (did you mean 'ROLE'?)" in message(path)


def test_config_hash_ignores_formatting_and_sees_content(tmp_path):
    first = load_suite(write_profile(tmp_path)).config_hash
    path = tmp_path / "mine.yaml"
    path.write_text("# a comment\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert load_suite(path).config_hash == first
    assert load_suite(path, {"repro.global_seed": 1}).config_hash != first


TONE = {
    "type": "rule",
    "template": "Tone:\n- Write as for a colleague.",
    "paraphrases": ["Manner:\n- As to a colleague.", "Voice:\n- Collegial.", "Style:\n- Among colleagues."],
    "cues": [r"\bcolleagues?\b"],
    "simulated": {"effect": 0.6, "json_effect": -0.2, "sentence": "Write as for a colleague."},
}


def profile_with_tone(folder, **changes):
    operators = yaml.safe_load((CONFIGS / "operators_v1.yaml").read_text(encoding="utf-8"))
    operators["operators"]["TONE"] = TONE | changes
    (folder / "operators.yaml").write_text(yaml.safe_dump(operators, sort_keys=False), encoding="utf-8")
    own = {"provider": "simulated", "family": "sim", "size": "1B", "operator_effects": {"ROLE": 0.1}}
    models = {
        "sim": own,
        "contrary": own | {"operator_effects": {"TONE": -1.0}},
        "other": own | {"provider": "openai"},
    }
    (folder / "models.yaml").write_text(
        yaml.safe_dump({"version": "1.0", "models": models}), encoding="utf-8"
    )
    return write_profile(
        folder,
        suite={"operators_ref": "operators.yaml", "models_ref": "models.yaml"},
        selection__models=["sim"],
    )


def test_an_operator_says_what_simulated_models_make_of_it(tmp_path):
    models = load_suite(profile_with_tone(tmp_path)).models
    assert models["sim"].provider_options() == {
        "operator_effects": {"TONE": 0.6, "ROLE": 0.1},
        "json_effects": {"TONE": -0.2},
        "operator_sentences": {"TONE": "Write as for a colleague."},
    }
    assert models["contrary"].provider_options()["operator_effects"] == {"TONE": -1.0}
    assert models["other"].provider_options() == {"operator_effects": {"ROLE": 0.1}}


def test_what_a_clean_prompt_does_not_show_is_no_part_of_an_operators_dump():
    for spec in bundled_operators().values():
        assert not {"paraphrases", "cues", "simulated"} & spec.model_dump().keys()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cues": ["(open"]}, "operators.TONE: the cue '(open' is no regular expression"),
        (
            {"paraphrases": ["one", "two"]},
            "operators.TONE.paraphrases: a list of 3 or more entries is wanted",
        ),
        ({"template": None, "type": "program"}, "operators.TONE: 'paraphrases' reword a 'template'"),
        (
            {"simulated": {"effects": 1}},
            "operators.TONE.simulated.effects: unknown key (did you mean 'effect'?)",
        ),
    ],
)
def test_mistakes_in_an_operator_are_told(tmp_path, changes, expected):
    assert expected in message(profile_with_tone(tmp_path, **changes))


def test_seed_ranges_of_a_profile_expand(tmp_path):
    path = write_profile(tmp_path, repro__seeds={"D0": [0], "D1": ["1..3", 7]})
    assert load_suite(path).profile.repro.seeds["D1"] == (1, 2, 3, 7)


def test_a_copied_profile_finds_the_bundled_files(tmp_path):
    copied = tmp_path / "mine.yaml"
    copied.write_text((CONFIGS / "quickstart.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    suite = load_suite(copied)
    assert {source.path.parent for key, source in suite.sources.items() if key != "profile"} == {CONFIGS}
    assert suite.config_hash == load_suite("quickstart").config_hash


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["tasks_v1.yaml", "configs/tasks_v1.yaml"])
def test_a_file_beside_the_profile_goes_before_the_bundled_one(tmp_path, reference):
    path = write_profile(tmp_path, suite__tasks_ref=reference)
    assert load_suite(path).sources["tasks_ref"].path == CONFIGS / "tasks_v1.yaml"
    own = tmp_path / reference
    own.parent.mkdir(exist_ok=True)
    own.write_text((CONFIGS / "tasks_v1.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert load_suite(path).sources["tasks_ref"].path == own


def test_a_file_of_ones_own_that_is_missing_is_not_replaced(tmp_path):
    assert "suite.tasks_ref: no file 'task_v1.yaml'" in message(
        write_profile(tmp_path, suite__tasks_ref="task_v1.yaml")
    )
    assert "did you mean 'tasks_v1.yaml'?" in message(
        write_profile(tmp_path, suite__tasks_ref="task_v1.yaml")
    )


def test_a_file_named_on_the_command_line_lies_in_the_working_folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    models = (CONFIGS / "models_v1.yaml").read_text(encoding="utf-8")
    (here / "own.yaml").write_text(models, encoding="utf-8")
    monkeypatch.chdir(here)
    suite = load_suite("quickstart", {"suite.models_ref": "own.yaml"})
    assert suite.sources["models_ref"].path.resolve() == here / "own.yaml"
    beside = write_profile(tmp_path)
    (tmp_path / "other.yaml").write_text(models, encoding="utf-8")
    assert (
        load_suite(beside, {"suite.models_ref": "other.yaml"}).sources["models_ref"].path
        == tmp_path / "other.yaml"
    )


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            {"selection.tasks": ["gsm8k", "agnews"]},
            "--tasks: unknown task 'agnews' (did you mean 'agnews_json'?)",
        ),
        ({"limits.max_items_per_task": 0}, "--limit: a number above 0 is wanted (got 0)"),
        ({"run.name": "a b"}, "--name: use letters, digits"),
        ({"limts.max_cost_usd": 1}, "limts.max_cost_usd: limts: unknown key (did you mean 'limits'?)"),
        ({"limits.max_cost": 1}, "limits.max_cost: unknown key (did you mean 'max_cost_usd'?)"),
        ({"run.name.x": 1}, "run.name.x: run.name has no keys below it"),
        ({"limits..x": 1}, "limits..x: 'limits..x' names no key of the profile"),
        ({"limits": {"max_cost_usd": "much"}}, "limits: max_cost_usd: a number is wanted (got 'much')"),
    ],
)
def test_an_error_of_an_override_names_where_it_came_from(overrides, said):
    flags = {"selection.tasks": "--tasks", "limits.max_items_per_task": "--limit", "run.name": "--name"}
    with pytest.raises(ConfigError) as caught:
        load_suite("quickstart", overrides, flags)
    assert str(caught.value).startswith(said)


def test_an_error_of_the_file_itself_still_names_its_line(tmp_path):
    path = write_profile(tmp_path, selection__models=["smolm"])
    with pytest.raises(ConfigError, match=r"mine\.yaml:\d+: selection\.models\[0\]: unknown model"):
        load_suite(path, {"selection.tasks": ["gsm8k"]}, {"selection.tasks": "--tasks"})


def test_folders_of_a_profile_that_says_so_lie_beside_it(tmp_path, monkeypatch):
    path = write_profile(
        tmp_path, run__relative_to="profile", run__output_dir="results", run__cache_dir="../c"
    )
    monkeypatch.chdir(tmp_path.parent)
    run = load_suite(path).profile.run
    assert (Path(run.output_dir), Path(run.cache_dir)) == (tmp_path / "results", tmp_path.parent / "c")
    given = load_suite(path, {"run.output_dir": "here"}).profile.run
    assert given.output_dir == "here"  # words of the command line mean the working folder
    assert Path(given.cache_dir) == tmp_path.parent / "c"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"selection__tasks": []}, "selection.tasks: nothing is selected"),
        ({"selection__models": [""]}, "selection.models: nothing is selected"),
        ({"repro__seeds": {"d0_greedy": []}}, "D0: no seed is given"),
        ({"repro__seeds": {"d0_greedy": ["5..1"]}}, "D0: no seed is given"),
        ({"repro__seeds": {"d0_greedy": [1, 2, 1]}}, "seed 1 is given twice"),
        (
            {"repro__seeds_per_task": {"default": 0}},
            "seeds_per_task.default: a number above 0 is wanted (got 0)",
        ),
        ({"limits__per_task_max_items": {"gsm8k": 0}}, "gsm8k: a number above 0 is wanted (got 0)"),
        ({"limits__per_task_max_items": {"gsm9k": 5}}, "per_task_max_items.gsm9k: unknown task 'gsm9k'"),
    ],
)
def test_what_would_run_nothing_is_refused(tmp_path, changes, said):
    assert said in message(write_profile(tmp_path, **changes))


def test_a_name_that_is_selected_twice_counts_once(tmp_path):
    path = write_profile(tmp_path, selection__conditions=["C0", "C3", "C0"])
    assert load_suite(path).profile.selection.conditions == ("C0", "C3")
