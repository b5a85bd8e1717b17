"""Configurations of MCP servers: each server with its entry or without it, valid whatever goes."""

import itertools
import json
import sys

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import split_source
from pcsuite.prompts.reading import source_of

JSON = '{\n  "mcpServers": {\n    "a": {"command": "x,]"},\n    "b": {"url": "http://b"},\n    "c": {"command": "z", "args": [1]}\n  },\n  "inputs": []\n}\n'
TOML = 'model = "m"\n\n[mcp_servers.a]\ncommand = "x"\n\n[mcp_servers.a.env]\nKEY = "1"\n\n[mcp_servers."b c"]\nurl = "http://b"\n\n[other]\nx = 1\n'


def test_any_set_of_servers_can_go_and_what_is_left_is_json():
    prompt = split_source(source_of(JSON, ".json"))
    assert [block.name for block in prompt.free] == ["a", "b", "c"]
    whole = json.loads(JSON)
    for count in range(4):
        for gone in itertools.combinations("abc", count):
            written = prompt.written([block.name for block in prompt.blocks if block.name not in gone])
            left = {name: entry for name, entry in whole["mcpServers"].items() if name not in gone}
            assert json.loads(written) == {"mcpServers": left, "inputs": []}
    assert prompt.written() == JSON


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"a": {"command": "x"}}}',
        '{"mcp": {"servers": {"a": {"url": "x"}}}}',
        '{"context_servers": {"a": {"command": "x"}}}',
    ],
)
def test_other_clients_call_them_otherwise(text):
    assert [block.name for block in split_source(source_of(text, ".json")).free] == ["a"]


def test_a_sham_is_an_entry_of_the_same_kind_that_nothing_can_start():
    prompt = split_source(
        source_of(
            '{"mcpServers": {"git": {"type": "stdio", "command": "uvx", "args": ["mcp-git"]}, "b": {"url": "u"}}}',
            ".json",
        )
    )
    sham = prompt.block("git").sham
    (entry,) = json.loads("{" + sham.partition("\n")[2].rstrip().rstrip(",") + "}").values()
    assert list(entry) == ["type", "command", "args"]
    assert entry["type"] == "stdio"
    assert entry["command"] != "uvx"
    assert len(sham) == len(prompt.block("git").text)


def test_tables_of_toml():
    prompt = split_source(source_of(TOML, ".toml"))
    assert [block.name for block in prompt.free] == ["a", "b_c"]
    without = prompt.written([block.name for block in prompt.blocks if block.name != "a"])
    assert without == 'model = "m"\n\n[mcp_servers."b c"]\nurl = "http://b"\n\n[other]\nx = 1\n'


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is there from Python 3.11 on")
def test_toml_that_is_none_is_told():
    with pytest.raises(PromptError, match="not valid TOML"):
        source_of("[mcp_servers.a]\ncommand = x\n", ".toml")
    with pytest.raises(PromptError, match="do not stand together"):
        source_of("[mcp_servers.a]\nx = 1\n[b]\ny = 1\n[mcp_servers.a.env]\nz = 1\n", ".toml")
