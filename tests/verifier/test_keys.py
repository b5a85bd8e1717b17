"""Keys that are concluded from the truth, and kept."""

import pytest
import yaml

from pcsuite.errors import ConfigError
from pcsuite.verifier.keys import conclude_keys, keep_keys, with_keys
from pcsuite.verifier.mapping import load_mapping

TEXT = """# mine
tolerances: {default: {absolute: 0.005}}
tables:
  - path: jobs
    columns:
      - {path: title, type: text}
      - {path: employer, type: text}
      - {path: start, type: date}
      - {path: pay, type: number}
  - path: jobs[].tasks
    columns:
      - {path: task, type: text}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(TEXT)
    return file


def job(title, employer, start="2010-01", tasks=()):
    return {
        "title": title,
        "employer": employer,
        "start": start,
        "pay": 1.0,
        "tasks": [{"task": one} for one in tasks],
    }


@pytest.mark.parametrize(
    ("records", "keys"),
    [
        # The first text that tells items apart in every list.
        ([{"jobs": [job("Cook", "A"), job("Smith", "A")]}], {"jobs": ("title",)}),
        ([{"jobs": [job("Cook", "A"), job("Cook", "B")]}], {"jobs": ("employer",)}),
        ([{"jobs": [job("Cook", "A"), job("COOK ", "B")]}], {"jobs": ("employer",)}),
        # In one record the title does, in the other the employer: only both together do in both.
        ([{"jobs": [job("Cook", "A"), job("Cook", "B")]}, {"jobs": [job("Cook", "A"), job("Smith", "A")]}], {"jobs": ("title", "employer")}),
        ([{"jobs": [job("Cook", "A", "2010-01"), job("Cook", "A", "2011-01")]}], {"jobs": ("title", "start")}),
        # Nothing tells them apart, there is nothing to tell apart, or one has no title.
        ([{"jobs": [job("Cook", "A"), job("Cook", "A")]}], {}),
        ([{"jobs": [job("Cook", "A")]}], {}),
        ([{"jobs": [job(None, "A"), job("Cook", "B")]}], {"jobs": ("employer",)}),
        # Lists inside items.
        ([{"jobs": [job("Cook", "A", tasks=("stir", "taste"))]}], {"jobs[].tasks": ("task",)}),
    ],
)  # fmt: skip
def test_what_is_concluded(path, records, keys):
    assert {one.path: one.key for one in conclude_keys(load_mapping(path), records)} == keys


def test_a_concluded_key_is_in_the_rules_hash_and_stays_where_it_is_kept(path):
    mapping = load_mapping(path)
    concluded = conclude_keys(mapping, [{"jobs": [job("Cook", "A"), job("Smith", "A")]}])
    keyed = with_keys(mapping, concluded)
    assert keyed.rules_hash() != mapping.rules_hash()
    assert keep_keys(path, concluded, "truth.csv") is None
    assert path.read_text().startswith(TEXT.rstrip())
    kept = load_mapping(path)
    assert kept.rules_hash() == keyed.rules_hash()
    # Once concluded it is not concluded again, whatever the next truth says.
    assert conclude_keys(kept, [{"jobs": [job("Cook", "A"), job("Cook", "B")]}]) == []


def test_a_key_of_the_mapping_comes_before_a_concluded_one(path):
    path.write_text(
        TEXT.replace("  - path: jobs\n", "  - path: jobs\n    key: employer\n")
        + "concluded: {jobs: [title]}\n"
    )
    assert load_mapping(path).pairing_of("jobs[]").key == ("employer",)


def test_a_file_that_cannot_take_a_section_is_left_as_it_is(path):
    braces = yaml.safe_dump(yaml.safe_load(TEXT), default_flow_style=True)
    path.write_text(braces)
    concluded = conclude_keys(load_mapping(path), [{"jobs": [job("Cook", "A"), job("Smith", "A")]}])
    assert (
        keep_keys(path, concluded, "truth.csv")
        == 'to keep it, add to the mapping: concluded: {"jobs": ["title"]}'
    )
    assert path.read_text() == braces


def test_a_key_that_is_no_field_is_refused(path):
    path.write_text(TEXT.replace("  - path: jobs\n", "  - path: jobs\n    key: [firm]\n"))
    with pytest.raises(ConfigError, match=r"'jobs\[\]' has no compared field 'firm' to be its key"):
        load_mapping(path)
