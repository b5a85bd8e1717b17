"""Files with positions: an error names the line of the key that is wrong."""

import pytest

from pcsuite.config.load import load_suite
from pcsuite.config.profile import Profile
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError

TEXT = """version: "1.0"
run:
  name: x
selection:
  tasks: [a, b]
  models:
    - m
"""


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        load_suite(path)
    return str(caught.value)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return YamlSource.read(path)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["run", "name"], 3),
        (["selection", "tasks", 1], 5),
        (["selection", "models", 0], 7),
        (["selection", "models", 5], 6),
        (["selection", "nothing", "deeper"], 4),
        (["nothing"], None),
        ([], None),
    ],
)
def test_the_line_of_the_deepest_key_that_exists(source, keys, line):
    assert source.line_of(keys) == line


def test_a_problem_is_one_line_with_file_line_and_dotted_key(source):
    assert source.problem(["selection", "tasks", 1], "no") == f"{source.path}:5: selection.tasks[1]: no"
    assert source.problem(["nothing"], "no") == f"{source.path}: nothing: no"
    assert source.problem([], "no") == f"{source.path}: (top level): no"


def test_every_problem_is_a_line_and_only_ten_are_shown(source):
    unknown = {f"key{number}": 1 for number in range(12)}
    with pytest.raises(ConfigError) as caught:
        YamlSource(source.path, source.text, {**source.data, **unknown}).parse(Profile)
    lines = str(caught.value).splitlines()
    assert len(lines) == 11
    assert (
        lines[-1] == f"{source.path}: … and 4 more problems"
    )  # two required keys of the selection are missing


def test_duplicate_key_and_broken_yaml_are_one_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text('version: "1.0"\nversion: "1.0"\n', encoding="utf-8")
    assert refusal(path) == f"{path}:2: not valid YAML: key 'version' is given twice"
    path.write_text("run: [unclosed\n", encoding="utf-8")
    assert refusal(path).startswith(f"{path}:")
    path.write_text("just text\n", encoding="utf-8")
    assert "expected a mapping" in refusal(path)
