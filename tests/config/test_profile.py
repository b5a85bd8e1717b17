"""The profile's sections: ranges of seeds, names of runs, integrations that are turned off."""

import pytest
from pydantic import ValidationError

from pcsuite.config.profile import AnalysisSection, IntegrationsSection, Profile, ReproSection, RunSection
from pcsuite.errors import ConfigError


def test_seed_ranges_expand():
    seeds = ReproSection.model_validate({"seeds": {"D0": [0], "D1": ["1..3", 7]}}).seeds
    assert seeds == {"D0": (0,), "D1": (1, 2, 3, 7)}


@pytest.mark.parametrize("name", ["a/b", "", "-x", "a b"])
def test_a_run_is_named_as_a_file_can_be(name):
    with pytest.raises(ValidationError, match="letters, digits"):
        RunSection(name=name)


@pytest.mark.parametrize("name", ["helm", "promptbench"])
def test_only_an_explicit_false_turns_an_integration_off(name):
    IntegrationsSection().check_allowed(name)
    IntegrationsSection.model_validate({name: {"enabled": True}}).check_allowed(name)
    with pytest.raises(ConfigError, match=rf"integrations\.{name}\.enabled is false"):
        IntegrationsSection.model_validate({name: {"enabled": False}}).check_allowed(name)


@pytest.mark.parametrize(
    "classes",
    [{}, {"S": [0, 10], "M": [5, 40]}, {"S": [0, 0]}, {"S": [10, 5]}, {"S": [0, None], "L": [40, None]}],
)
def test_size_classes_follow_each_other(classes):
    with pytest.raises(ValidationError, match="class"):
        AnalysisSection.model_validate({"size_classes": classes})


def test_what_verdicts_are_held_against_changes_no_row():
    """Neither enters the hashes by which rows are known."""
    chosen = AnalysisSection(size_classes={"small": (0, 3), "large": (3, None)}, scale_bound=0.02)
    selection = dict.fromkeys(("tasks", "models", "conditions", "decoding_regimes"), ("a",))
    given = {"version": "1.0", "run": {"name": "a"}, "selection": selection}
    profile = Profile.model_validate({**given, "analysis": chosen.model_dump()})
    assert profile.analysis == chosen
    assert profile.model_dump() == Profile.model_validate(given).model_dump()
