"""What comes with the suite, and what logs and users call it."""

import pytest

from pcsuite.config.bundled import bundled_operators, operator_type
from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError


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
