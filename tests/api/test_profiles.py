"""Profiles in every form, and what is said of a wrong one."""

import pytest
import yaml

import pcsuite as pcs
from pcsuite.errors import ConfigError


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
