"""What comes with the suite, and what logs and users call it."""

import pytest
import yaml

from pcsuite.config.bundled import (
    bundled_operators,
    operator_type,
    operator_work,
    searched_operators,
    with_bundled_parts,
)
from pcsuite.config.load import load_suite
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.errors import ConfigError
from support.profiles import write_profile


def test_every_bundled_task_has_a_domain_and_every_kind_two():
    domains: dict[str, set[str]] = {}
    for task in load_suite("quickstart").tasks.values():
        domains.setdefault(task.kind, set()).add(task.domain)
    assert all("" not in held and len(held) >= 2 for held in domains.values())


def test_unknown_bundled_profile():
    with pytest.raises(ConfigError, match="did you mean 'quickstart'"):
        load_suite("quickstrat")


def test_the_type_of_an_operator_that_a_log_names():
    own = {"LARK": bundled_operators()["CFG_CONSTRAIN"], "ROLE": bundled_operators()["REACT_LOOP"]}
    names = ("ROLE", "TYPE_CONSTRAIN", "RETRY_ON_FAIL", "MY_CONSTRAIN", "LARK")
    expected = ["prefix_block", "constraint", "program", "constraint", None]
    assert [operator_type(name) for name in names] == expected
    assert [operator_type(name, own) for name in ("LARK", "ROLE")] == ["constraint", "program"]


def test_what_an_operator_does_is_the_structure_it_gives_or_the_program_it_runs():
    names = (
        "SCHEMA",
        "CONSTRAINTS",
        "VERIFIER",
        "REACT_LOOP",
        "REVISE_LOOP",
        "RETRY_ON_FAIL",
        "ROLE",
        "MINE",
    )
    assert [operator_work(name) for name in names] == [
        "schema", "rules", "checklist", "react", "revise", "retry", None, None,
    ]  # fmt: skip
    assert operator_work("MINE", {"MINE": OperatorSpec(type="program", engine="react")}) == "react"


def test_what_an_entry_leaves_open_is_as_the_bundled_operator_of_its_name_has_it():
    bare = OperatorSpec(type="rule", template="Think.")
    filled = with_bundled_parts({"REASONING_MODE": bare, "MINE": bare}, {}, {})
    assert filled["REASONING_MODE"].modes == ("none", "brief", "full")
    assert (filled["MINE"].modes, filled["MINE"].searched) == (None, None)
    unsought = bare.model_copy(update={"searched": False})
    assert with_bundled_parts({"REASONING_MODE": unsought}, {}, {})["REASONING_MODE"].searched is False
    # What is filled in changes no prompt: it is in no dump, and so in no row's id.
    assert filled["REASONING_MODE"].model_dump() == bare.model_dump()


def test_the_search_goes_over_the_operators_that_say_so_or_that_the_profile_names(tmp_path):
    own = {
        "HOUSE": {"type": "rule", "template": "Be brief.", "searched": True},
        "ROLE": {"type": "rule", "template": "R."},
    }
    operators = yaml.safe_dump({"version": "1.0", "operators": own})
    (tmp_path / "operators.yaml").write_text(operators, encoding="utf-8")
    (tmp_path / "conditions.yaml").write_text(
        "version: '1.0'\nconditions: {C0: [], H: [HOUSE]}\n", encoding="utf-8"
    )
    refs = {"operators_ref": "operators.yaml", "conditions_ref": "conditions.yaml"}
    profile = write_profile(tmp_path, conditions=("C0", "H"), suite=refs)
    assert load_suite(profile).searched_operators() == ("ROLE", "HOUSE")
    named = {"optimization.dspy.operators": ["HOUSE"]}
    assert load_suite(profile, named).searched_operators() == ("HOUSE",)
    assert searched_operators() == load_suite("quickstart").profile.optimization.dspy.operators
