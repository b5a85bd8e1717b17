"""Prompts in Python and TypeScript files: read without running them, written back with nothing else changed."""

import ast
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pcsuite.errors import PromptError
from pcsuite.prompts.blocks import split_source
from pcsuite.prompts.reading import source_of

PYTHON = '''"""The service."""
import textwrap

raise SystemExit("never run")
# Reviewed in May.
SYSTEM_PROMPT = """You are a clerk.

Be kind.  # no comment

Ticket: {ticket}
"""

INDENTED = textwrap.dedent(
    """\\
    You are a clerk.

      Be kind.

    Bye \\u2014 now.
    """
)
SUM = (
    "You are a clerk.\\n\\n"  # who
    'Be kind.\\n\\n'
    r"Match \\d+." + "\\n"
)


class Agent:
    PROMPT: str = f"You are {name}.\\n\\nSay {{x}}."

    def ask(self):
        local = """One.

Two."""
        return local


PROMPTS = {"triage": "One.\\n\\nTwo."}
MESSAGES = [
    {"role": "system", "content": SYSTEM_PROMPT},
    {"role": "user", "content": "a?"},
    {"role": "assistant", "content": "b."},
    ("human", "{ticket}"),
]
COMPUTED = "\\n".join(["a", "b"])
'''


def made(text, suffix, name):
    return split_source(source_of(text, suffix, name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SYSTEM_PROMPT", "You are a clerk.\n\nBe kind.  # no comment\n\nTicket: {ticket}\n"),
        ("INDENTED", "You are a clerk.\n\n  Be kind.\n\nBye — now.\n"),
        ("SUM", "You are a clerk.\n\nBe kind.\n\nMatch \\d+.\n"),
        ("Agent.PROMPT", "You are {name}.\n\nSay {x}."),
        ("Agent.ask.local", "One.\n\nTwo."),
        ("PROMPTS.triage", "One.\n\nTwo."),
    ],
)
def test_texts_of_a_python_file_by_their_names(name, text):
    prompt = made(PYTHON, ".py", name)
    assert prompt.sent() == text
    assert prompt.written() == PYTHON
    kept = [block.name for block in prompt.blocks][1:]
    again = source_of(prompt.written(kept), ".py", name)
    assert again.texts[0].text == prompt.sent(kept)
    ast.parse(prompt.written(kept))


def test_only_the_string_changes():
    prompt = made(PYTHON, ".py", "SYSTEM_PROMPT")
    assert prompt.written(["you_are_a", "ticket"]) == PYTHON.replace("Be kind.  # no comment\n\n", "", 1)
    indented = made(PYTHON, ".py", "INDENTED")
    assert indented.written(["you_are_a", "be_kind"]) == PYTHON.replace("    Bye \\u2014 now.\n", "")


def test_messages_of_a_python_file():
    prompt = made(PYTHON, ".py", "MESSAGES")
    assert [text.role for text in prompt.source.texts] == ["system", "user", "assistant", "user"]
    assert [block.name for block in prompt.blocks][-2:] == ["example_1", "user"]
    kept = [block.name for block in prompt.blocks if block.name not in ("example_1", "you_are_a")]
    written = prompt.written(kept)
    assert '{"role": "user", "content": "a?"}' not in written
    assert 'SYSTEM_PROMPT = """Be kind.' in written
    langchain = (
        'P = ChatPromptTemplate.from_messages([SystemMessage(content="Be kind."), ("human", "{x}")])\n'
    )
    assert [text.role for text in source_of(langchain, ".py", "P").texts] == ["system", "user"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "which of its texts is the prompt.*SYSTEM_PROMPT"),
        ("SYSTEM_PROMT", "there is no 'SYSTEM_PROMT' in it.*did you mean 'SYSTEM_PROMPT'"),
        ("COMPUTED", "'COMPUTED' is no plain text: it is computed when the program runs"),
        ("Agent.nothing", "there is no 'Agent.nothing'"),
    ],
)
def test_what_cannot_be_read_in_python_is_told(name, problem):
    with pytest.raises(PromptError, match=problem):
        source_of(PYTHON, ".py", name)
    with pytest.raises(PromptError, match="line 1: not valid Python"):
        source_of("def (", ".py", "X")


def test_a_text_that_is_used_twice_cannot_be_shortened_in_one_place():
    prompt = made('A = "One.\\n\\n"\nB = A + "Two.\\n\\n" + A\n', ".py", "B")
    with pytest.raises(PromptError, match="'B' cannot be written with a part left out"):
        prompt.written([block.name for block in prompt.blocks][1:])


SCRIPT = """import { x } from "y";
/* const SYSTEM = `no`; */
const pattern = /`['"]/g; // const SYSTEM = "no"
export const TONE: string = 'Be kind.\\n\\n';
export const SYSTEM: string = `You are a clerk of ${company.name}.

Use \\`code\\`.

` + TONE + "Bye.";
const prompts = {
  "triage": `One.\\n\\n${items.map((i) => `<${i}>`).join("}")}`,
};
class Agent { static readonly prompt = dedent`
    One.

    Two.
  `; }
const messages: Message[] = [
  { role: "system", content: SYSTEM },
  { role: "user", content: `${ticket}` },
];
const late = build("x").trim();
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SYSTEM", "You are a clerk of ${company.name}.\n\nUse `code`.\n\nBe kind.\n\nBye."),
        ("prompts.triage", 'One.\n\n${items.map((i) => `<${i}>`).join("}")}'),
        ("Agent.prompt", "One.\n\nTwo."),
    ],
)
def test_texts_of_a_typescript_file_by_their_names(name, text):
    prompt = made(SCRIPT, ".ts", name)
    assert prompt.sent() == text
    kept = [block.name for block in prompt.blocks][1:]
    assert source_of(prompt.written(kept), ".ts", name).texts[0].text == prompt.sent(kept)


def test_messages_and_mistakes_in_typescript():
    prompt = made(SCRIPT, ".ts", "messages")
    assert [text.role for text in prompt.source.texts] == ["system", "user"]
    assert prompt.written([block.name for block in prompt.blocks]) == SCRIPT
    for name, problem in (
        ("", "which of its texts is the prompt"),
        ("SYTEM", "did you mean 'SYSTEM'"),
        ("late", "line 22: 'late' is no plain text"),
    ):
        with pytest.raises(PromptError, match=problem):
            source_of(SCRIPT, ".ts", name)
    with pytest.raises(PromptError, match="line 1: a string is not closed"):
        source_of("const X = `a", ".ts", "X")


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40)
LINES = st.lists(
    ANY_TEXT | st.sampled_from(["Be kind.", "# A", "", "- a", "{ticket}", "'''", '"""', "\\n"]), max_size=6
)


def literal(text, form):
    """The text as a program has it."""
    if form == "repr":
        return repr(text)
    if form == "json":
        return json.dumps(text, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    escaped = text.replace("\\", "\\\\").replace("\r", "\\r").replace("\0", "\\0")
    if form == "template":
        return "`" + escaped.replace("`", "\\`").replace("${", "\\${").replace("\\0", "\\x00") + "`"
    return '"""' + escaped.replace('"', '\\"').replace("\\0", "\\x00") + '"""'


@pytest.mark.slow
@given(LINES, st.sampled_from(["repr", "triple", "json", "template"]), st.randoms())
@example(["a", "", "\U0001f389b", "", "c"], "json", __import__("random").Random(0))
@settings(max_examples=200)
def test_any_part_can_be_left_out_of_any_program_and_reading_it_gives_the_rest(lines, form, rng):
    text = "\n".join(lines)
    suffix = ".ts" if form in ("json", "template") else ".py"
    word = "const " if suffix == ".ts" else ""
    before, after = f"{word}A = 1\n{word}PROMPT = ", f"\n{word}B = 'x'\n"
    file = before + literal(text, form) + after
    if not text.strip():
        with pytest.raises(PromptError, match="is empty"):
            source_of(file, suffix, "PROMPT")
        return
    prompt = made(file, suffix, "PROMPT")
    assert prompt.source.texts[0].text == text
    assert "".join(block.source for block in prompt.blocks) == text
    kept = [block.name for block in prompt.blocks if rng.random() < 0.6]
    wanted = "".join(block.source for block in prompt.blocks if block.name in kept)
    if not wanted.strip():
        return
    written = prompt.written(kept)
    assert written.startswith(before)
    assert written.endswith(after)
    assert source_of(written, suffix, "PROMPT").texts[0].text == wanted


@pytest.mark.parametrize(
    ("file", "suffix", "hole"),
    [
        (
            "P = f'Be kind.\\n\\n{a[\"k\"]} {text}'\n",
            ".py",
            r"line 3: no column for the variable \{a\[\"k\"\]\}",
        ),
        ("P = f'Be {x if y else z}.\\n\\n{text}'\n", ".py", r"line 1: .* \{x if y else z\}"),
        (
            "const P = `Be kind. ${items.map((i) => ({ i })).join()} ${text}`;",
            ".ts",
            r"\$\{items.map\(\(i\) => ",
        ),
    ],
)
def test_what_a_program_would_put_in_is_never_sent_as_it_is_written(file, suffix, hole):
    prompt = made(file, suffix, "P")
    with pytest.raises(PromptError, match=hole):
        prompt.check_placeholders(["text"])


def test_a_hole_that_is_meant_to_the_letter_can_be_said():
    prompt = made("P = f'Be {x if y else z}. {text}'\n", ".py", "P")
    assert (
        prompt.check_placeholders(["text"], literal=["x if y else z"]).sent()
        == "Be {x if y else z}. {{ text }}"
    )


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("type P = 'a' | 'b';", "there is no 'P'|no text that could be"),
        ("const P = 'a' | 'b';", "no plain text"),
        ("const P = String.raw`a`;", "no plain text"),
        ("const P = flag ? `a` : `b`;", "no plain text"),
    ],
)
def test_what_is_no_literal_of_typescript_is_refused(file, problem):
    with pytest.raises(PromptError, match=problem):
        source_of(file, ".ts", "P")


def test_members_of_enums_and_statements_on_the_next_line():
    assert source_of("enum E { P = 'x y' }", ".ts", "E.P").texts[0].text == "x y"
    assert source_of("const P = `x`\n@decorated\nclass A {}\n", ".ts", "P").texts[0].text == "x"


@pytest.mark.parametrize(
    ("file", "suffix", "name", "text"),
    [
        ('def build(ticket):\n    """Doc."""\n    return f"Be kind.\\n\\n{ticket}"\n', ".py", "build", "Be kind.\n\n{ticket}"),
        ("class A:\n    def p(self):\n        text = 'Be kind.'\n        return text\n", ".py", "A.p", "Be kind."),
        ("export const build = (ticket: string): string => `Be kind.\n\n${ticket}`;", ".ts", "build", "Be kind.\n\n${ticket}"),
        ("export async function build(t: T) {\n  const x = 1;\n  return `Be kind. ${t}`;\n}", ".ts", "build", "Be kind. ${t}"),
        ("const build = async (t) => { return 'Be kind.' + `${t}`; };", ".js", "build", "Be kind.${t}"),
    ],
)  # fmt: skip
def test_a_function_that_returns_a_text_in_one_place_is_that_text(file, suffix, name, text):
    prompt = made(file, suffix, name)
    assert prompt.source.texts[0].text == text
    if len(prompt.blocks) > 1:
        kept = [block.name for block in prompt.blocks][1:]
        assert (
            source_of(prompt.written(kept), suffix, name).texts[0].text
            == prompt.source.remaining({0: [prompt.blocks[1].spans[0][1:]]})[0]
        )


@pytest.mark.parametrize(
    ("file", "suffix"),
    [
        ("def build(t):\n    if t:\n        return 'a'\n    return 'b'\n", ".py"),
        ("const build = (t) => { if (t) { return `a`; } return `b`; };", ".ts"),
        ("const build = (a + b).trim();", ".ts"),
    ],
)
def test_a_function_that_returns_in_several_places_is_computed(file, suffix):
    with pytest.raises(PromptError):
        source_of(file, suffix, "build")
