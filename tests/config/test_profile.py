"""The profile's sections: ranges of seeds, names of runs, integrations that are turned off."""

import pytest
from pydantic import ValidationError

from pcsuite.config.profile import IntegrationsSection, ReproSection, RunSection
from pcsuite.errors import ConfigError


def test_seed_ranges_expand():
    seeds = ReproSection.model_validate({"seeds": {"d0_greedy": [0], "d1_sampled": ["1..3", 7]}}).seeds
    assert seeds == {"d0_greedy": (0,), "d1_sampled": (1, 2, 3, 7)}


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
