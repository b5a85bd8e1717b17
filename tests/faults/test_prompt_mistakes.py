"""What goes wrong with prompts as people have them: one clear line, with the place and the remedy, before any call."""

import shlex
from pathlib import Path

import pytest

from pcsuite.cli import main
from pcsuite.errors import Exit

QUEUES = ("billing", "login", "refund")
FILES = {
    "tickets.csv": "\n".join(
        ["text,plan,queue", *(f"Ticket {n} about {QUEUES[n % 3]},{'ab'[n % 2]},{QUEUES[n % 3]}" for n in range(60))]
    ),
    "other.csv": "words,queue\n" + "".join(f"w{n},{QUEUES[n % 3]}\n" for n in range(60)),
    "ok.md": "Be kind.\n\nBe brief.\n\n{text}\n",
    "typo.md": "Be kind.\n\nBe brief.\n\n{txet}\n\n{text}\n",
    "dollar.md": "Be kind.\n\nDear $customer, be brief.\n\n$text\n",
    "dollar_braces.md": "Be kind.\n\nBe ${adjective}.\n\n${text}\n",
    "angle.md": "Be kind.\n\n<<customer>>\n\n<<text>>\n",
    "percent.md": "Be kind.\n\n%(customer)s\n\n%(text)s\n",
    "positional.md": "Be kind.\n\n%s and %s\n",
    "mixed.md": "Be kind.\n\n{{ text }}\n\nFor {customer}.\n",
    "handlebars.md": "Be kind.\n\n{{#if vip}}Dear.{{/if}}\n\n{{text}}\n",
    "jinja.md": "Be kind.\n\n{% if vip %}Dear.{% endif %}\n\n{{ text }}\n",
    "open_jinja.md": "Be kind.\n\n{% if plan %}Dear.\n\n{{ text }}\n",
    "bad_jinja.md": "Be kind.\n\n{{ text | uper }}\n",
    "format.md": "Be kind.\n\n{text:>20}\n",
    "dotted.md": "Be kind.\n\n{{ ticket.text }}\n",
    "answer.md": "Be kind.\n\n{text}\n\nThe answer is {queue}.\n",
    "none.md": "Be kind.\n\nBe brief.\n",
    "one.md": "{text}\n",
    "two.md": "Be kind.\n\n{text}\n",
    "front.md": "---\nowner: me\n---\n",
    "mark.md": "<!-- block: -->\nBe kind.\n\n{text}\n",
    "empty_mark.md": "<!-- block: tone -->\n\n<!-- block: rules -->\nNever.\n\n{text}\n",
    "app.py": (
        "SYSTEM_PROMPT = 'Be kind.\\n\\nBe brief.\\n\\n{text}'\nUSER_PROMPT = 'x'\nJOINED = ' '.join(['a'])\n"
        "NUMBER = 3\nEMPTY = ' '\nMESSAGES = [{'role': 'sytem', 'content': 'x'}]\nPAIRS = [{'role': 'user'}]\n"
        "DATED = f'Today is {today()}.\\n\\nBe kind.\\n\\n{text}'\nTWICE = SYSTEM_PROMPT + SYSTEM_PROMPT\n"
    ),
    "broken.py": "SYSTEM_PROMPT = 'Be kind\n",
    "nothing.py": "x = 1\n",
    "app.ts": "export const SYSTEM = `Be kind.\n\nBe brief.\n\n${text}`;\nconst made = make(`x`);\nconst t = `${name} and ${text}`;\n",
    "broken.ts": "const SYSTEM = `Be kind\n",
    "chat.yaml": "- role: system\n  content: Be kind.\n- role: user\n  content: '{{ txt }}'\n",
    "role.yaml": "- role: sistem\n  content: Be kind.\n- role: user\n  content: '{{ text }}'\n",
    "content.yaml": "- role: system\n- role: user\n  content: '{{ text }}'\n",
    "torn.yaml": "- role: system\n  content: |\n    Be kind.\n - role: user\n",
    "tab.yaml": "a:\n\t- b\n",
    "torn.json": '[{"role": "system",\n "content": "Be kind."',
    "image.json": '[{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "{{ text }}"}]}]',
    "empty.json": '[{"role": "system", "content": " "}, {"role": "user", "content": "{{ text }}"}]',
    "number.json": "42",
    "strings.json": '["a", "b"]',
    "two_prompts.yaml": "prompts:\n  - 'One. {{text}}'\n  - 'Two. {{text}}'\n",
    "missing_file.yaml": "prompts: ['file://nowhere.md']\n",
    "function.yaml": "prompts: ['file://app.py:make_prompt']\n",
    "settings.yaml": "service:\n  text: 3\n  long: |\n    Be kind.\n\n    Be brief.\n",
    "few_shot.yaml": "_type: few_shot\nprefix: Be kind.\nexamples: [{a: b}]\n",
    "history.json": '{"type": "chat", "prompt": [{"type": "placeholder", "name": "history"}, {"role": "user", "content": "x"}]}',
    "langchain.json": '{"lc": 1, "id": ["ChatPromptTemplate"], "kwargs": {"messages": [{"lc": 1, "id": ["MessagesPlaceholder"]}]}}',
    "format.json": '{"_type": "prompt", "template": "Be kind. { text }\\n\\n{text}"}',
    "latin.md": "Gr\u00fc\u00dfe",
}  # fmt: skip
MISTAKES = """
typo.md                        | typo.md: line 5: no column for the variable {txet} | did you mean 'text'? | --literal txet
dollar.md                      | line 3: no column for the variable $customer
dollar_braces.md               | line 3: no column for the variable ${adjective}
angle.md                       | line 3: no column for the variable <<customer>>
percent.md                     | line 3: no column for the variable %(customer)s
positional.md                  | 2 times %s: which column goes where? | %(column)s
mixed.md                       | line 5: no column for the variable {customer}
handlebars.md                  | line 3: {{#if vip}} is a control of Mustache or Handlebars | {% if column %}
jinja.md                       | line 3: no column for the variable vip
open_jinja.md                  | the template cannot be read
bad_jinja.md                   | the template cannot be read | uper
format.md                      | line 3: {text:>20} formats a value | write {text}
dotted.md                      | line 3: no column for the variable {{ ticket.text }}
answer.md                      | line 5: {{ queue }} is the column of the right answer
none.md                        | no placeholder for the item | --append-input
one.md                         | there are no blocks that could be left out
two.md                         | there is one block that could be left out | --split
front.md                       | front.md
mark.md                        | line 1: a mark without a name
empty_mark.md                  | block 'tone' is empty
ok.md:NAME                     | 'NAME' names a prompt inside a file, and this is one text
ok.md --literal nothing        | --literal nothing: the prompt has no such variable | text
ok.md --literal text           | no placeholder for the item
ok.md --keep nothing           | no block 'nothing'
ok.md --keep 9                 | no block '9'
ok.md --into be_kind           | block 'be_kind' cannot be split further
ok.md --into nothing           | no block 'nothing'
ok.md --rename x=y             | no block 'x'
ok.md --rename be_kind=be_brief | two blocks would be called 'be_brief'
ok.md --rename be_kind         | --rename be_kind: expected 3=tone
ok.md --split words            | --split | invalid choice: 'words'
ok.md --input txt              | no column 'txt' (--input) | did you mean 'text'?
chat.yaml --system             | --system is for a prompt of one text
app.py                         | app.py: which of its texts is the prompt? | SYSTEM_PROMPT
app.py:SYSTEM_PROMT            | there is no 'SYSTEM_PROMT' in it | did you mean 'SYSTEM_PROMPT'?
app.py:JOINED                  | line 3: 'JOINED' is no plain text: it is computed
app.py:NUMBER                  | line 4: 'NUMBER' is no plain text
app.py:EMPTY                   | 'EMPTY' is empty
app.py:MESSAGES                | message 1 has the unknown role 'sytem' | did you mean 'system'?
app.py:PAIRS                   | line 7: message 1 needs 'role' and 'content'
app.py:DATED                   | no column for the variable {today()}
app.py:TWICE                   | 'TWICE' cannot be written with a part left out
broken.py:SYSTEM_PROMPT        | broken.py: line 1: not valid Python
nothing.py                     | nothing.py: it has no text that could be a prompt
app.ts                         | which of its texts is the prompt? | SYSTEM
app.ts:SYSTM                   | did you mean 'SYSTEM'?
app.ts:made                    | 'made' is no plain text
app.ts:t                       | no column for the variable ${name}
broken.ts:SYSTEM               | line 1: a string is not closed
chat.yaml                      | chat.yaml: line 4: no column for the variable {{ txt }} | did you mean 'text'?
role.yaml                      | message 1 has the unknown role 'sistem' | did you mean 'system'?
content.yaml                   | message 1 needs 'role' and 'content'
torn.yaml                      | torn.yaml: line 4: not valid YAML
tab.yaml                       | tab.yaml: line 2: not valid YAML
torn.json                      | torn.json: line 2: not valid JSON
image.json                     | the content of message 1 is no text
empty.json                     | message 1 (system) is empty
number.json                    | a list of messages
strings.json                   | a list of messages
two_prompts.yaml               | it has 2 prompts | 1, 2
two_prompts.yaml:3             | there is no '3' in it
missing_file.yaml              | nowhere.md: no such file
function.yaml                  | there is no 'make_prompt' in it
settings.yaml                  | name a text of it after a colon: service.long
settings.yaml:service.lnog     | there is no 'service.lnog' in it | did you mean 'long'?
settings.yaml:service.text     | a list of messages
few_shot.yaml                  | a few-shot template builds its text from a list
history.json                   | message 1 is a placeholder for further messages ('history')
langchain.json                 | message 1 is a MessagesPlaceholder of LangChain
format.json                    | no column for the variable { text }
latin.md                       | latin.md | UTF-8
ok.md --models ''              | --models: no name is given
ok.md --models simulated/a,simulated/a | --models: 'simulated/a' is named twice
ok.md --models simulated/a,gtp | no model 'gtp'
ok.md --models simulated/a,simulated/b --until decided | --until stops by one model and one table
ok.md --models simulated/a,simulated/b --effect simulated/c:be_kind=1 | no model 'simulated/c' | did you mean
ok.md --models simulated/a,simulated/b --limit 10 | 10 items are too few for 2 blocks on 2 models and tables
ok.md --data tickets.csv       | --data: 'tickets.csv' is named twice
ok.md --data nothing.csv       | --data nothing.csv: neither a file nor a task
ok.md --data other.csv         | no column for the variable {text}
nowhere.py:PROMPT              | nowhere.py: no such file
"""


def table():
    for line in MISTAKES.strip().splitlines():
        words, *expected = (part.strip() for part in line.split(" | "))
        yield words, expected


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    for name, text in FILES.items():
        (folder / name).write_bytes(text.encode("latin-1" if name == "latin.md" else "utf-8"))
    return folder


@pytest.mark.parametrize(("words", "expected"), list(table()), ids=[words for words, _ in table()])
def test_a_mistake_in_a_prompt_is_one_clear_line(words, expected, desk, monkeypatch, capsys):
    monkeypatch.chdir(desk)
    command = ["ablate", *shlex.split(words), "--data", "tickets.csv", "--answer", "queue"]
    command += [] if "--models" in words else ["--model", "simulated"]
    try:
        status = main(command)
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr().err
    assert status == Exit.BAD_INPUT, said
    assert said.count("\n") == 1, said
    assert said.startswith("pcsuite: ")
    assert "a fault of pcsuite" not in said
    for word in expected:
        assert word in said
    assert sorted(path.name for path in Path().iterdir()) == sorted(FILES)


def test_there_are_many():
    assert len(list(table())) >= 70
