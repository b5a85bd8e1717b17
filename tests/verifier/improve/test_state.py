import pytest

from pcsuite.errors import ConfigError
from pcsuite.verifier.improve.state import Failure, PromptRule, RuleCatalogue, RuleProposer, load_rules

CATALOGUE = RuleCatalogue(
    version="1.0",
    rules=(
        PromptRule(id="WINDOWS", error_types=("omission",), fields=("windows.*",), text="All windows."),
        PromptRule(id="PLAIN", error_types=("format_error",), text="Bare values."),
        PromptRule(id="FIELD", error_types=("omission", "wrong_value"), text='Mind "{field}".'),
    ),
)


def failure(field, error_type, count):
    return Failure(field, error_type, count, ())


def proposer(*tried):
    return RuleProposer(CATALOGUE, lambda: tried)


def test_the_rule_that_meets_most_failures_is_added():
    # Windows fail 3 + 2 times, the format 4 times, the city 4 times: "All windows." meets 5.
    failures = [
        failure("project.city", "omission", 4),
        failure("project.stories", "format_error", 4),
        failure("windows[].area", "omission", 3),
        failure("windows[].shgc", "omission", 2),
    ]
    first = proposer()(failures, "Extract.")
    assert first == "Extract.\n- All windows."
    # Next are "Bare values." and the city with 4 each: of equals the first of the catalogue.
    second = proposer("Extract.", first)(failures, first)
    assert second == "Extract.\n- All windows.\n- Bare values."
    # A rule that was tried and rolled back is not tried again.
    assert (
        proposer("Extract.", first, second)(failures, first)
        == 'Extract.\n- All windows.\n- Mind "project.city".'
    )


def test_no_rule_left_leaves_the_prompt_as_it_is():
    assert proposer()([failure("project.city", "hallucination", 9)], "Extract.") == "Extract."
    assert proposer()([], "Extract.") == "Extract."


def test_rules_are_recognised_in_a_prompt():
    assert CATALOGUE.in_prompt('Extract.\n- Mind "project.city".\n- All windows.') == ("WINDOWS", "FIELD")
    assert CATALOGUE.in_prompt("Extract. Mind the gap.") == ()


def test_the_bundled_catalogue_has_a_rule_for_every_kind_of_error_on_any_field():
    rules = load_rules().rules
    assert len({rule.id for rule in rules}) == len(rules)
    for kind in ("omission", "hallucination", "format_error", "wrong_value"):
        assert any(rule.meets(failure("anything.at[].all", kind, 1)) for rule in rules)
    windows = failure("windows[].u_factor", "omission", 1)
    assert next(rule.id for rule in rules if rule.meets(windows)) == "RULE_EVERY_WINDOW"


def test_a_mistake_in_a_catalogue_is_named(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("version: '1.0'\nrules:\n  - {id: A, error_types: [omision], text: x}\n")
    with pytest.raises(ConfigError, match="error_types"):
        load_rules(path)
