"""What careless users type, over all commands: one clear line that says what and what to do, and the right exit status."""

import io
import shlex
from pathlib import Path

import openpyxl
import pytest

from pcsuite.cli import COMMANDS, main
from pcsuite.errors import Exit

PROMPT = "You are a clerk.\n\nName the queue.\n\nAnswer with one word.\n\nTicket: {{ text }}\n"
DOWN = """version: "1.0"
models:
  down: {provider: openai, family: x, size: 1B, base_url: "http://127.0.0.1:9/v1", model: m}
"""
MISTAKES = """
rnu                                                       | unknown command 'rnu' | did you mean 'run'?
--verison                                                 | unknown flag '--verison' | did you mean '--version'?
run --tsks gsm8k                                          | unknown flag '--tsks' | did you mean '--tasks'? | pcsuite run --help
run gsm8k                                                 | one word too many: 'gsm8k'
run --limit many                                          | --limit | 'many'
run --limit 0                                             | --limit | a number above 0 is wanted
run --limit -3                                            | --limit | a number above 0 is wanted
run --tasks ''                                            | --tasks: no name is given
run --task ,                                              | --tasks: no name is given
run --models ''                                           | --models: no name is given
run --conditions ' '                                      | --conditions: no name is given
run --regimes ''                                          | --regimes: no name is given
run --name ''                                             | --name: it is empty
run --output-dir ''                                       | --output-dir: it is empty
run --config ''                                           | --config: it is empty
run --config .                                            | . is a folder
run --config quickstrat                                   | no profile 'quickstrat' | did you mean 'quickstart'?
run --config nowhere.yaml                                 | nowhere.yaml: no such file
run --config tickets.csv                                  | tickets.csv | not valid YAML
run --config list.yaml                                    | list.yaml: expected a mapping
run --tasks agnews                                        | --tasks: unknown task 'agnews' | did you mean 'agnews_json'?
run --task agnews_json,gsm9k                              | --tasks: unknown task 'gsm9k' | did you mean 'gsm8k'?
run --model smolm2-135m                                   | --models: unknown model 'smolm2-135m' | did you mean 'smollm2-135m'?
run --conditions C99                                      | --conditions: unknown condition 'C99'
run --conditions C4:all                                   | --conditions: unknown condition 'C4:all'
run --regimes D7                                          | --regimes: unknown regime 'D7'
run --name a/b                                            | --name | letters, digits
run --set limits                                          | --set limits: expected KEY=VALUE
run --set =3                                              | --set =3: expected KEY=VALUE
run --set limts.max_cost_usd=1                            | --set limts.max_cost_usd | did you mean 'limits'?
run --set limits.max_cost=1                               | --set limits.max_cost | did you mean 'max_cost_usd'?
run --set limits.max_cost_usd=-1                          | --set limits.max_cost_usd | a number above 0 is wanted
run --set limits.max_cost_usd=cheap                       | --set limits.max_cost_usd | a number is wanted (got 'cheap')
run --set 'limits.max_cost_usd=['                         | --set limits.max_cost_usd | not valid YAML
run --set run.name.x=1                                    | --set run.name.x | run.name has no keys below it
run --set length_control=padd                             | --set length_control | 'off', 'warn' or 'pad'
run --set 'repro.seeds={D0: []}'                          | --set repro.seeds | no seed is given
run --set 'selection.tasks=[]'                            | --set selection.tasks | nothing is selected
run --set suite.models_ref=nowhere.yaml                   | --set suite.models_ref | no file 'nowhere.yaml'
run --until decidd                                        | --until | invalid choice: 'decidd'
run --until no-worse --model simulated                    | --until | needs a margin
run --margin 0.1                                          | --margin goes with --until
run --executor rya --model simulated                      | --executor: unknown 'rya' | did you mean 'ray'?
run --workers 2 --model simulated                         | add --executor ray
run --model simulated --output-dir tickets.csv -q         | tickets.csv | Not a directory
run-task gsm9k                                            | unknown task 'gsm9k' | did you mean 'gsm8k'?
plan --power --assume alpha=2 --model simulated           | --assume alpha=2: it must lie between 0 and 1
plan --power --assume affected=0 --model simulated        | --assume affected=0: it must be at least 1
plan --power --assume accurcy=0.7 --model simulated       | --assume: unknown 'accurcy' | did you mean 'accuracy'?
plan --power --assume noise=loud --model simulated        | --assume noise=loud: a number is wanted
run-task gsm8k --batch                                    | --batch is taken by run alone | pcsuite run --tasks TASK --batch
plan --power --effect 0 --model simulated                 | --effect 0: it must lie between -1 and 1
plan --pilot nowhere                                      | nowhere: no file and no run in outputs/runs
rescore --name nothing                                    | nothing.jsonl: no such log
verifier-pass --name nothing --model simulated            | nothing.jsonl: no answers to judge
report                                                    | nothing to report on | --config PROFILE
report dnoe                                               | dnoe: no file and no run in outputs/runs | did you mean 'done'?
report outputs/runs                                       | outputs/runs is a folder | name a run: done
report tickets.csv                                        | tickets.csv: no readable row
report done --format pdf                                  | --format | invalid choice: 'pdf'
report done --baseline C99 --no-plots                     | C99 | choose from
report done --out tickets.csv --no-plots                  | tickets.csv | Not a directory
compare done                                              | done alone has nothing to be compared with | --arms A B
gate plan --margin 0.05                                   | how many items does the gate ask? | --items 40
gate plan --items 40 --margin 0.05 --loss 2               | --loss: losses above 0 and up to
compare done done --conditions ''                         | --conditions: no name is given
compare done done --conditions C99                        | --conditions: the first run has no condition 'C99'
compare done done --conditions C0=                        | --conditions C0=: expected A, or A=B
compare done done --conditions C0=C99                     | --conditions: the second run has no condition 'C99'
compare done done --conditions C0,C0                      | 'C0' is named twice
compare done done --format pdf                            | --format | invalid choice: 'pdf'
check                                                     | required: PROMPT
check prompt.md                                           | the table is not given | --data TABLE
check prompt.md tickets.csv                               | one word too many: 'tickets.csv'
check prompt.md --data tickets.csv                        | say what the prompt is held against | --baseline FILE|RUN|GIT-REF
check prompt.md --data tickets.csv --baseline done --save-baseline x.json | compare, or make a baseline
check prompt.md --data tickets.csv --baseline dnoe --model simulated | --baseline dnoe: no file, no run in outputs/runs | did you mean 'done'?
check prompt.md --data tickets.csv --baseline '' --model simulated | --baseline: it is empty
check prompt.md --data tickets.csv --baseline . --model simulated | --baseline .: no file, no run
check prompt.md --data tickets.csv --baseline tickets.csv --model simulated | tickets.csv: a table is no baseline
check prompt.md --data tickets.csv --baseline broken.json --model simulated | broken.json: line 1: not valid JSON
check prompt.md --data tickets.csv --baseline empty.md --model simulated | empty.md: the prompt is empty
check prompt.md --data tickets.csv --baseline list.yaml --model simulated | list.yaml: a chat prompt is a list of messages
check nothing.md --data tickets.csv --baseline prompt.md --model simulated | nothing.md: no such file
check . --data tickets.csv --baseline prompt.md --model simulated | . is a folder
check prompt.md --data nothing.csv --baseline old.md --model simulated | --data nothing.csv: neither a file nor a task
check prompt.md --data tickets.csv --baseline old.md --model smolm2-135m | no model 'smolm2-135m' | did you mean 'smollm2-135m'?
check prompt.md --data tickets.csv --baseline old.md --model simulated --limit 0 | --limit 0: give a number above 0
check prompt.md --data tickets.csv --baseline old.md --model simulated --limit 1 | --limit 1 | give 2 or more
check prompt.md --data tickets.csv --baseline old.md --model simulated --seeds 0 | --seeds 0: give a number above 0
check prompt.md --data tickets.csv --baseline old.md --model simulated --budget-usd nan | --budget-usd nan: give a number above 0
check prompt.md --data tickets.csv --baseline old.md --model simulated --margin 0 | margin 0.0: a share of the score between 0 and 1
check prompt.md --data tickets.csv --baseline old.md --model simulated --margin lots | --margin | 'lots' is not a number
check prompt.md --data tickets.csv --baseline old.md --model simulated --undecided maybe | --undecided | invalid choice: 'maybe'
check prompt.md --data tickets.csv --baseline old.md --model simulated --condition C3 | old.md, a prompt has one condition | leave it out
check prompt.md --data tickets.csv --baseline done --model simulated --condition C33 | run done has no condition 'C33' | did you mean 'C3'?
check prompt.md --data tickets.csv --baseline done --model simulated | conditions, and a prompt is held against one | --condition C0
check prompt.md --data tickets.csv --baseline old.md --model simulated --answer que | no column 'que' (--answer) | did you mean 'queue'?
check prompt.md --data tickets.csv --baseline old.md --model simulated --effect tone=1 | --effect: no block 'tone'
check prompt.md --data tickets.csv --baseline old.md --model simulated --regime D9 | --regime: unknown regime 'D9'
check prompt.md --data tickets.csv --baseline old.md --model simulated --name a/b | 'a/b' | letters, digits
check prompt.md --data tickets.csv --baseline old.md --model simulated --name '' | --name: it is empty
check prompt.md --data tickets.csv --baseline old.md --model simulated --junit outputs | outputs is a folder
check prompt.md --data tickets.csv --save-baseline outputs --model simulated | outputs: a baseline is a .json file
check prompt.md --data tickets.csv --baseline old.md --model simulated --config nothing | no profile 'nothing'
compare done typo                                         | typo: no file and no run in outputs/runs
compare done done --margin -1                             | --margin -1.0: a margin is not negative
view typo                                                 | there is no run 'typo' | done
view --output-dir nowhere                                 | there is no run in nowhere/runs
view done --port 99999 --no-open                          | 99999
view done --host 0.0.0.0 --no-open                        | --host 0.0.0.0 | --token
ablate nothing.md --data tickets.csv                      | nothing.md: no such file
ablate prompt.md                                          | the table is not given | --data TABLE
ablate prompt.md --data nothing.csv                       | --data nothing.csv: neither a file nor a task
ablate prompt.md --data tickets.csv --answer que          | no column 'que' (--answer) | did you mean 'queue'?
ablate prompt.md --data tickets.csv --margin 5            | --margin 5
ablate prompt.md --data tickets.csv --limit 0             | --limit 0: give a number above 0
ablate prompt.md --data tickets.csv --max-tokens 0        | --max-tokens 0: give a number above 0
ablate prompt.md --data tickets.csv --budget-usd -1       | --budget-usd -1: give a number above 0
ablate prompt.md --data tickets.csv --keep nothing        | no block 'nothing'
ablate prompt.md --data tickets.csv --effect x=1 --model simulated | --effect: no block 'x'
ablate empty.md --data tickets.csv                        | empty.md: the prompt is empty
import --from foo tickets.csv --name x                    | unknown log format 'foo' | inspect
import --from inspect nothing.eval --name x               | nothing.eval: no such file
import --from inspect tickets.csv --name x                | tickets.csv | is this a log?
promptbench --model simulated --attacks shuffle           | --attacks: unknown kind of perturbation 'shuffle'
promptbench --model simulated --task gsm9k                | --tasks: unknown task 'gsm9k'
promptbench --model simulated --set integrations.promptbench.variants=0 | --set integrations.promptbench.variants | a number above 0 is wanted
optimize --task agnews --model simulated --method ape     | --tasks: unknown task 'agnews' | did you mean 'agnews_json'?
optimize --method ap --model simulated                    | unknown method 'ap' | did you mean 'ape'?
optimize --candidates 0                                   | --candidates 0: give a number of 1 or more
helm --import-only nowhere                                | nowhere is not a folder
integrations install helmm                                | unknown integration 'helmm' | did you mean 'helm'?
judge sampl                                               | invalid choice: 'sampl'
judge sample --items 0                                    | --items 0: at least one item is drawn
judge sample --name nothing                               | nothing.jsonl: no run to draw from
judge sample --name done --tasks ''                       | --tasks: no name is given
log check dnoe                                            | dnoe: no file and no run | did you mean 'done'?
log chek done                                             | invalid choice: 'chek'
prompt agnews C0                                          | unknown task 'agnews' | did you mean 'agnews_json'?
prompt agnews_json C44                                    | unknown condition 'C44' | did you mean 'C4'?
prompt agnews_json C0 --item nothing                      | has no item 'nothing'
prompt agnews_json C0 --model nothing                     | --model: unknown model 'nothing'
config check nothing                                      | no profile 'nothing'
config schema profil                                      | invalid choice: 'profil'
constraint check nothing.json                             | nothing.json: no such file
constraint check '[a'                                     | the pattern '[a' | not closed
constraint check broken.json                              | broken.json: not JSON
constraint check x --backend nativ                        | --backend | invalid choice: 'nativ'
models pull smolm2-135m                                   | unknown model 'smolm2-135m' | did you mean 'smollm2-135m'?
models check smolm2-135m                                  | unknown model 'smolm2-135m' | did you mean 'smollm2-135m'?
models pull gpt-5.5                                       | 'gpt-5.5' | no file to pull
models list --models-file nothing.yaml                    | nothing.yaml: no such file
cache                                                     | required: stats|clear
export-datasets --from nowhere                            | nowhere is not a folder
export-datasets --from . --only gsm9k                     | unknown dataset 'gsm9k' | did you mean 'gsm8k'?
index build --pages nothing.jsonl                         | --pages nothing.jsonl: no such file
index search '  '                                         | the query is empty
index search x -k 0                                       | -k 0: at least 1 is needed
index search x --index nowhere                            | nowhere is not a search index
init-task mine                                            | required: --data
init-task Mine --data tickets.csv --kind classification --input text --answer queue | 'Mine' cannot name a task
init-task mine --data nothing.csv                         | nothing.csv does not exist
init-task mine --data prompt.md                           | cannot tell the kind of table
init-task mine --data tickets.csv --kind clasification --input text --answer queue | did you mean 'classification'?
init-task mine --data tickets.csv --kind classification --input txt --answer queue | no column 'txt' (--input) | did you mean 'text'?
init-task mine --data tickets.csv --kind number --input text --answer queue | column 'queue' holds no number
init-task mine --data tickets.csv --kind classification --input text --answer queue --model gtp | --model: unknown model 'gtp'
init-task mine --data tickets.csv --kind classification --input text --answer queue --model a,b | one model is taken here, not 2
init-task mine --data tickets.csv --kind classification --input text --answer queue --train-share 2 | --train-share 2
init-task mine --data torn.csv --kind classification --input a --answer b | torn.csv line 2: expected 2 columns, found 1
init-task mine --data twice.csv --kind classification --input text --answer queue | the same input as in line 2, but another answer
init-task mine --data tickets.csv                         | the kind of task is not given | --kind
ablate prompt.md --data torn.xlsx --answer queue          | torn.xlsx: no workbook that can be read | save it as .xlsx or CSV
ablate prompt.md --data sheets.xlsx                       | sheets.xlsx: there are 2 sheets: Sheet, More | a file of its own
ablate prompt.md --data prompt.md                         | prompt.md: cannot tell the kind of table | .xlsx
ablate chat.yaml --data tickets.csv                       | chat.yaml: line 3: message 2 has the unknown role 'usr' | did you mean 'user'?
ablate open.yaml --data tickets.csv                       | open.yaml: line 3: not valid YAML
ablate broken.json --data tickets.csv                     | broken.json: line 1: not valid JSON
ablate prompt.md --data tickets.csv --id quee             | no column 'quee' (--id) | did you mean 'queue'?
ablate prompt.md --data tickets.csv --answer queue --id queue | id 'billing' was already used
ablate prompt.md --data tickets.csv --config nothing      | no profile 'nothing'
ablate prompt.md --data tickets.csv --effects x=1 --model simulated | --effect: no block 'x'
init-task mine --data torn.xlsx --kind classification --input a --answer b | torn.xlsx: no workbook
init mine --data sheets.xlsx                              | sheets.xlsx: there are 2 sheets
init mine --data tickets.csv --prompt chat.yaml --answer queue | chat.yaml: line 3: message 2 has the unknown role 'usr'
init mine --data tickets.csv --prompt prompt.md --answer queue --limit 0 | --limit 0: give a number above 0
cache clean                                               | invalid choice: 'clean'
init mine                                                 | the table is not given | --data
init mine --data tickets.csv --prompt nothing.md          | --prompt nothing.md: no such file
init 'my study' --data tickets.csv --answer queue         | my study | letters, digits
list tsks                                                 | invalid choice: 'tsks' | 'tasks'
list runs --config nothing                                | no profile 'nothing'
completion powershell                                     | invalid choice: 'powershell'
status nosuch                                             | nosuch: no file and no run in outputs/runs
verify nothing.csv nothing.json                           | nothing.csv: no such file
verify - -                                                | cannot both come from standard input
verify tickets.csv broken.json --fail-under 90            | --fail-under 90 | 0.9 for 90 %
verify-all nowhere                                        | nowhere: no such folder
verify-diff a b                                           | a: no such file
verify-history nowhere                                    | nowhere/results: no saved iterations
improve . --iterations 0                                  | --iterations 0: it must be at least 1
improve nowhere                                           | nowhere: no such folder
"""
STATUS = {
    "run --set suite.models_ref=down.yaml --model down -q": (
        Exit.UNREACHABLE, "model 'down': cannot reach the server: no connection to 127.0.0.1:9",
    ),
    "run --model simulated --set limits.max_tokens_overall=300 --name poor -q": (Exit.STOPPED, "budget is used up"),
}  # fmt: skip
"""Mistakes that are no bad input, by what they end with."""


def table() -> list[tuple[str, Exit, list[str]]]:
    return list(_table())


def _table():
    for line in MISTAKES.strip().splitlines():
        command, *words = (part.strip() for part in line.split(" | "))
        yield command, Exit.BAD_INPUT, words
    for command, (status, *words) in STATUS.items():
        yield command, status, words


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder as careless users have it: a table, a prompt, files that are broken, and one run."""
    folder = tmp_path_factory.mktemp("desk")
    queues = ("billing", "login", "refund")
    rows = [f'"Ticket {n}: about {queues[n % 3]}",{queues[n % 3]}' for n in range(40)]
    contents = {
        "tickets.csv": "\n".join(["text,queue", *rows]) + "\n",
        "prompt.md": PROMPT,
        "old.md": PROMPT.replace("one word", "a word"),
        "empty.md": "",
        "torn.csv": "a,b\n1\n",
        "twice.csv": "\n".join(
            [
                "text,queue",
                *rows,
                rows[0].replace("billing", "login", 2).replace("about login", "about billing"),
            ]
        )
        + "\n",
        "broken.json": '{"x":',
        "list.yaml": "- 1\n",
        "chat.yaml": "- role: system\n  content: Be brief.\n- role: usr\n  content: '{{ text }}'\n",
        "open.yaml": "- role: system\n  content: 'Be brief.\n",
        "torn.xlsx": "text,queue\n",
        "down.yaml": DOWN,
    }
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("More")):
        sheet.append(["text", "queue"])
    book.save(folder / "sheets.xlsx")
    assert (
        main(["run", "--model", "simulated", "--name", "done", "--output-dir", str(folder / "outputs"), "-q"])
        == 0
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("command", "status", "words"), table(), ids=[command for command, *_ in table()])
def test_a_mistake_is_one_clear_line(command, status, words, desk, monkeypatch, capsys):
    monkeypatch.chdir(desk)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    before = {path: path.stat().st_mtime_ns for path in desk.rglob("*") if path.is_file()}
    try:
        ended = main(shlex.split(command))
    except SystemExit as error:
        ended = error.code
    said = capsys.readouterr().err
    assert ended == status, said
    assert said.count("\n") == 1, said
    assert said.startswith("pcsuite: ")
    assert "Traceback" not in said
    for word in words:
        assert word in said
    written = {path for path in desk.rglob("*") if path.is_file() and path not in before}
    caches = ("outputs/runs/", "/.cache/", "/.parts/")  # of logs and rows that were read on the way
    assert all(any(place in str(path) for place in caches) for path in written), written


def test_there_are_many_and_every_command_is_among_them():
    commands = [shlex.split(command)[0] for command, *_ in table()]
    assert len(commands) >= 150
    assert {command.name for command in COMMANDS} - set(commands) == set(), "a command nobody gets wrong"
    assert len({command for command, *_ in table()}) == len(table())


def test_the_desk_is_as_it_was(desk):
    assert not [path for path in desk.iterdir() if path.name in ("mine", "my study", "nowhere")]
    assert Path(desk / "outputs" / "runs" / "done.jsonl").is_file()
