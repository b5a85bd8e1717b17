"""Profiles: what loads, and what each mistake is told."""

from pathlib import Path

import pytest
import yaml

from pcsuite.config.load import (
    bundled_configs,
    bundled_operators,
    load_suite,
    operator_type,
)
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


def test_every_bundled_task_has_a_domain_and_every_kind_two():
    domains: dict[str, set[str]] = {}
    for task in load_suite("quickstart").tasks.values():
        domains.setdefault(task.kind, set()).add(task.domain)
    assert all("" not in held and len(held) >= 2 for held in domains.values())


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
        ({"repro__max_inflight": "many"}, "repro.max_inflight: Input should be a valid integer"),
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


def test_unknown_bundled_profile():
    with pytest.raises(ConfigError, match="did you mean 'quickstart'"):
        load_suite("quickstrat")


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
        ({"paraphrases": ["one", "two"]}, "operators.TONE.paraphrases: Tuple should have at least 3 items"),
        ({"template": None, "type": "program"}, "operators.TONE: 'paraphrases' reword a 'template'"),
        (
            {"simulated": {"effects": 1}},
            "operators.TONE.simulated.effects: unknown key (did you mean 'effect'?)",
        ),
    ],
)
def test_mistakes_in_an_operator_are_told(tmp_path, changes, expected):
    assert expected in message(profile_with_tone(tmp_path, **changes))


def test_the_type_of_an_operator_that_a_log_names():
    own = {"LARK": bundled_operators()["CFG_CONSTRAIN"], "ROLE": bundled_operators()["REACT_LOOP"]}
    names = ("ROLE", "TYPE_CONSTRAIN", "RETRY_ON_FAIL", "MY_CONSTRAIN", "LARK")
    expected = ["prefix_block", "constraint", "program", "constraint", None]
    assert [operator_type(name) for name in names] == expected
    assert [operator_type(name, own) for name in ("LARK", "ROLE")] == ["constraint", "program"]


def test_seed_ranges_of_a_profile_expand(tmp_path):
    path = write_profile(tmp_path, repro__seeds={"D0": [0], "D1": ["1..3", 7]})
    assert load_suite(path).profile.repro.seeds["D1"] == (1, 2, 3, 7)
