"""Several files as one prompt, and files at their places: what is placed is what is left, to the byte."""

import pytest

from pcsuite.errors import PromptError
from pcsuite.prompts.prompt_files import read_prompt_files
from pcsuite.prompts.verbatim import decode_chat, decode_files, readable, without_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "AGENTS.md").write_bytes(
        "---\nglobs: **/*.py\n---\r\n# Stil\r\n- Sei höflich.\r\n- Nutze {{ x }}.\r\n".encode()
    )
    (tmp_path / "docs" / "AGENTS.md").write_text("# Tests\n- Run them.\n- Add one.\n\x1e odd\n")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"url": "y"}}}')
    skill = tmp_path / "skills" / "Grüße"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Say hello\n---\nSay it.\n", encoding="utf-8"
    )
    (skill / "icon.png").write_bytes(b"\x89PNG\xff\0")
    (skill / "empty.py").touch()
    return tmp_path


ALL = ["AGENTS.md", "docs", "mcp.json", "skills"]


def test_what_is_sent_is_what_is_written_whatever_is_left_out(folder):
    prompt = read_prompt_files(ALL, folder=folder)
    assert list(prompt.files()) == [
        "AGENTS.md",
        "docs/AGENTS.md",
        "mcp.json",
        "skills/Grüße/SKILL.md",
        "skills/Grüße/icon.png",
    ]
    for path, content in prompt.files().items():
        assert content == (folder / path).read_bytes(), path
    everything = [block.name for block in prompt.blocks]
    for gone in [[], *([block.name] for block in prompt.free), [block.name for block in prompt.free]]:
        kept = [name for name in everything if name not in gone]
        assert decode_files(prompt.sent(kept)) == prompt.files(kept)
    nothing = prompt.files([block.name for block in prompt.blocks if block.pinned])
    assert nothing["skills/Grüße/SKILL.md"] is None
    assert nothing["AGENTS.md"].startswith(b"---\nglobs")


def test_blocks_are_named_by_their_files(folder):
    prompt = read_prompt_files(ALL, folder=folder)
    free = [block.name for block in prompt.free]
    assert free[:2] == ["AGENTS.md:sei_höflich", "AGENTS.md:nutze"]
    assert "docs/AGENTS.md:run_them" in free
    assert free[-3:] == ["mcp.json:a", "mcp.json:b", "Grüße"]
    assert prompt.block("Grüße").kind == "skill"
    sham = decode_files(prompt.sent(["SKILL.md:place"]) + prompt.block("Grüße").sham)["skills/Grüße/SKILL.md"]
    assert sham.decode() == "---\nname: greet\ndescription: Sit magna\n---\nSit in.\n"
    assert without_files(prompt.sent()) == "{{ input }}"
    assert readable(prompt.sent()).startswith("[AGENTS.md]\n---")


def test_each_file_may_be_a_block(folder):
    prompt = read_prompt_files(["AGENTS.md", "mcp.json"], "files", folder=folder)
    assert [block.name for block in prompt.free] == ["AGENTS.md", "mcp.json"]
    kept = [block.name for block in prompt.blocks if block.name != "AGENTS.md"]
    assert prompt.files(kept)["AGENTS.md"] is None
    servers = prompt.block("mcp.json")
    assert servers.sham == servers.text  # no words could take its place: it gets no sham arm


def test_without_a_folder_they_are_messages(folder):
    prompt = read_prompt_files(["AGENTS.md", "docs/AGENTS.md"])
    assert [message["role"] for message in decode_chat(prompt.sent())] == ["system", "system", "user"]
    assert prompt.block("AGENTS.md:front_matter").text == ""


def test_one_file_is_itself(folder):
    prompt = read_prompt_files(["docs/AGENTS.md"], folder=folder)
    assert prompt.written() == (folder / "docs" / "AGENTS.md").read_text()
    assert [block.name for block in prompt.free] == ["run_them", "add_one_odd"]
    assert prompt.files([block.name for block in prompt.blocks if block.pinned]) == {
        "docs/AGENTS.md": b"# Tests\n"
    }


@pytest.mark.parametrize(
    ("references", "in_folder", "problem"),
    [
        (["AGENTS.md", "AGENTS.md"], True, "two of the files would have the place AGENTS.md"),
        (["mcp.json", "AGENTS.md"], False, "servers act where a system starts them"),
        (["nowhere.md"], True, "no such file"),
        (["chat.yaml"], True, "cannot stand in a folder"),
        (["empty"], True, "no prompt is in there"),
    ],
)
def test_mistakes_are_told_in_a_line(folder, references, in_folder, problem):
    (folder / "chat.yaml").write_text("- {role: system, content: Hi}\n- {role: user, content: '{{ x }}'}\n")
    (folder / "empty").mkdir()
    with pytest.raises(PromptError, match=problem) as raised:
        read_prompt_files(references, folder=folder if in_folder else None)
    assert "\n" not in str(raised.value)


def test_a_link_in_a_folder_of_prompts_is_no_second_prompt(folder):
    """Placed twice, what the one arm leaves out the other name's text would put back."""
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    (folder / "docs" / "GEMINI.md").symlink_to("../AGENTS.md")
    (folder / "docs" / "old.md").symlink_to("nowhere.md")
    assert list(read_prompt_files(["."], folder=folder).files())[:2] == ["AGENTS.md", "docs/AGENTS.md"]
    assert list(read_prompt_files(["CLAUDE.md"], folder=folder).files()) == ["CLAUDE.md"]
    with pytest.raises(PromptError, match=r"AGENTS.md and CLAUDE.md are one file by a link \(name it once"):
        read_prompt_files(["AGENTS.md", "CLAUDE.md"], folder=folder)
