"""From a user's table to what is said of it, where tables are as tables are: copies, customers, lost calls, half runs."""

import json
import re
from xml.etree import ElementTree

import pytest

import pcsuite as pcs
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.study import prepare
from pcsuite.cli import main
from pcsuite.logging.log import iter_rows
from support.rejecting_server import FILTERED, REJECTED, TOO_LONG, RejectingServer

PROMPT = "# Role\nYou sort tickets.\n\n# Rules\nRULES: answer with the queue.\n\n# Ticket\n{ticket}\n"


def number_in(prompt):
    return int(re.search(r"ticket number (\d+)", prompt)[1])


def queue_of(number):
    return ("billing", "delivery")[number % 2]


def write_table(folder, rows, *columns):
    """Tickets by the numbers of their texts, each with an id of its own and further columns."""
    lines = [",".join(["id", "text", "queue", *columns])]
    for position, (number, *more) in enumerate(rows):
        lines.append(
            ",".join([f"T-{position:04d}", f"ticket number {number}", queue_of(number), *map(str, more)])
        )
    (folder / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.md").write_text(PROMPT.format(ticket="{{ text }}"), encoding="utf-8")
    return tmp_path


def lenient(folder):
    """A profile under which no share of failed calls ends a run."""
    path = folder / "lenient.yaml"
    base = "version: '1.0'\nrun: {name: x, cache_dir: .cache}\nselection: {tasks: [agnews_json], models: [smollm2-135m],"
    path.write_text(
        base + " conditions: [C0], decoding_regimes: [D0]}\nlimits: {stop_on_error_rate: 1.0}\n",
        encoding="utf-8",
    )
    return str(path)


def ablate(server, *words):
    command = [
        "ablate",
        "prompt.md",
        "--data",
        "tickets.csv",
        "--answer",
        "queue",
        "--model",
        "openai/parrot",
    ]
    return main([*command, "--base-url", server.base_url, "--quiet", "--no-trim", "--margin", "0.1", *words])


def document(name="prompt"):
    with open(f"outputs/ablations/{name}/ablation.json", encoding="utf-8") as stream:
        return json.load(stream)


def verdict_of(found, block):
    return next(entry for entry in found["verdicts"] if entry["block"] == block)


# Line 1: repeated and related items.


def a_block_that_matters_to_some_texts(prompt):
    """Without the rules six of twenty texts go wrong and one comes right: seven texts, whatever their copies."""
    number = number_in(prompt)
    right = number != 19 if "RULES" in prompt else number >= 6
    return queue_of(number) if right else "neither"


@pytest.mark.parametrize("ticket", ["{{ text }}", "{{ id }}: {{ text }}"])
def test_copies_of_a_text_are_one_piece_of_evidence(folder, capsys, ticket):
    """20 texts five times each: 30 items lost and 5 gained would be p < 0.001, 6 clusters and 1 are p = 0.125."""
    (folder / "prompt.md").write_text(PROMPT.format(ticket=ticket), encoding="utf-8")
    write_table(folder, [(number,) for _ in range(5) for number in range(20)])
    with RejectingServer(a_block_that_matters_to_some_texts) as server:
        assert ablate(server) == 0
    out = " ".join(capsys.readouterr().out.split())
    aside = " (id left aside)" if "id" in ticket else ""
    assert f"20 texts stand 5 times each{aside}: 100 items in 20 clusters" in out
    found = document()
    assert (found["items"], found["clusters"]) == (100, 20)
    rules = verdict_of(found, "rules")
    assert rules["effect"] == pytest.approx(0.25)
    assert rules["verdict"] == "undecided"
    assert rules["p_holm"] >= 0.125
    page = (folder / "outputs/ablations/prompt/ablation.html").read_text(encoding="utf-8")
    assert "100 items in 20 clusters" in page


def test_white_space_and_case_make_no_other_text(folder, capsys):
    spellings = ("ticket number {}", "Ticket  number {}", " TICKET number {} ")
    lines = [f'"{spelling.format(n)}",{queue_of(n)}' for spelling in spellings for n in range(20)]
    (folder / "tickets.csv").write_text("\n".join(["text,queue", *lines]) + "\n", encoding="utf-8")
    command = ["ablate", "prompt.md", "--data", "tickets.csv", "--model", "simulated", "--answer", "queue"]
    assert main([*command, "--show"]) == 0
    assert "20 texts stand 3 times each: 60 items in 20 clusters" in " ".join(capsys.readouterr().out.split())


def test_customers_make_clusters_and_change_no_row(folder, capsys):
    write_table(folder, [(number, f"c{number % 8}") for number in range(96)], "customer")
    with RejectingServer(a_block_that_matters_to_some_texts) as server:
        assert ablate(server) == 0
        asked = server.asked
        first = {row.run_id for row in iter_rows(folder / "outputs/ablations/prompt/runs/prompt.jsonl")}
        assert document()["clusters"] == 96
        assert ablate(server, "--cluster", "customer") == 0
        assert server.asked == asked, "a cluster is no part of a row's id"
    assert "96 items in 8 clusters by customer" in capsys.readouterr().out
    assert document()["clusters"] == 8
    log = folder / "outputs/ablations/prompt/runs/prompt.jsonl"
    assert {row.run_id for row in iter_rows(log)} == first
    # The finished log by its items' columns, though its rows were made without them.
    assert main(["report", str(log), "--cluster", "customer", "--no-plots", "--quiet"][:-1]) == 0
    assert main(["report", str(log), "--cluster", "custmer", "--no-plots"]) == 2
    assert (
        "no column 'custmer' to cluster items by (--cluster) (did you mean 'customer'?)"
        in capsys.readouterr().err
    )
    assert ablate(server, "--cluster", "custmer") == 2
    assert "no column 'custmer' (--cluster) (did you mean 'customer'?)" in capsys.readouterr().err


def test_below_six_clusters_nothing_is_tested_and_the_reason_is_said(folder, capsys):
    write_table(folder, [(number, f"c{number % 5}") for number in range(60)], "customer")
    with RejectingServer(a_block_that_matters_to_some_texts) as server:
        assert ablate(server, "--cluster", "customer") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "5 clusters, at least 6 are needed" in out
    assert {entry["verdict"] for entry in document()["verdicts"]} == {"not tested"}


def test_no_cluster_stands_in_both_parts_of_the_items(folder):
    write_table(folder, [(number, f"c{number % 9}") for _ in range(4) for number in range(30)], "customer")
    request = AblationRequest(
        folder / "prompt.md", "tickets.csv", answer="queue", model="simulated", cluster=("customer",)
    )
    study = prepare(request)
    choosing = {item.cluster for item in study.items[: study.chosen_on]}
    confirming = {item.cluster for item in study.items[study.chosen_on :]}
    assert len(choosing | confirming) == 9
    assert not choosing & confirming
    assert 40 <= study.chosen_on <= 80
    # Without columns the copies stay together all the same.
    study = prepare(AblationRequest(folder / "prompt.md", "tickets.csv", answer="queue", model="simulated"))
    assert study.clusters == 30
    assert not (
        {item.cluster for item in study.items[: study.chosen_on]}
        & {item.cluster for item in study.items[study.chosen_on :]}
    )


# Line 3: calls that are lost, and outcomes that are the item's own.


def without_rules(reply, numbers):
    """All is answered rightly, but of prompts without the rules some tickets get another reply."""

    def answer(prompt):
        number = number_in(prompt)
        return reply if "RULES" not in prompt and number in numbers else queue_of(number)

    return answer


LOST = frozenset(range(0, 70, 2))
"""35 of the hundred tickets."""


def test_rejected_calls_are_counted_by_arm_and_undo_what_they_could(folder, capsys):
    """35 of 100 calls without the rules fail: the 65 others say nothing of them."""
    write_table(folder, [(number,) for number in range(100)])
    with RejectingServer(without_rules(REJECTED, LOST)) as server:
        assert ablate(server, "--config", lenient(folder)) == 4
        found, out = document(), " ".join(capsys.readouterr().out.split())
        assert ablate(server, "--config", lenient(folder), "--missing", "drop", "--name", "dropped") == 4
        dropped = document("dropped")
    rules = verdict_of(found, "rules")
    assert (rules["verdict"], rules["on_answered"], rules["missing"]) == (
        "undecided",
        "no worse without it",
        35,
    )
    assert (rules["effect_least"], rules["effect_most"]) == (0.0, pytest.approx(0.35))
    arms = {arm["id"]: arm for arm in found["arms"]}
    assert (arms["-rules"]["missing"], arms["-rules"]["outcomes"]) == (35, {"answered": 65, "failed": 35})
    assert (arms["full"]["missing"], arms["-role"]["missing"]) == (0, 0)
    assert "35 of 100 in arm -rules" in out
    assert "on the answered items “no worse without it”, but 35 items lack an answer" in out
    assert "-rules 100 35 failed" in out
    page = (folder / "outputs/ablations/prompt/ablation.html").read_text(encoding="utf-8")
    assert "35 failed" in page
    assert verdict_of(dropped, "rules")["verdict"] == "no worse without it"
    # Of the role nothing is missing, and its verdict has its margin beside it.
    assert verdict_of(found, "role")["verdict"] == "no worse without it"
    # Not one of the hundred differs: 1 - 0.05 ** (1 / 100) is 0.0295, rounded away from the claim.
    assert "no worse without it (loses less than 0.030, margin 0.1)" in out
    assert "role can go, losing less than 0.1" in out
    assert "One lost call would move a bound by 0.015" in out  # 65 items have every answer


def test_a_report_calls_no_difference_real_that_lost_calls_could_undo(folder, capsys):
    """Without the rules 20 of 65 answered tickets are wrong, and the 35 lost ones could all have been right with them."""
    write_table(folder, [(number,) for number in range(100)])

    def reply(prompt):
        number = number_in(prompt)
        if "RULES" in prompt:
            return "neither" if number in LOST else queue_of(number)
        return REJECTED if number in LOST else "neither" if number >= 80 else queue_of(number)

    with RejectingServer(reply) as server:
        assert ablate(server, "--config", lenient(folder), "--design", "leave-one-out") == 4
    log = "outputs/ablations/prompt/runs/prompt.jsonl"
    capsys.readouterr()
    verdicts = {}
    for policy in ("bound", "drop"):
        assert main(["report", log, "--missing", policy, "--no-plots", "--json", "--baseline", "full"]) == 0
        found = json.loads(capsys.readouterr().out)
        verdicts[policy] = next(row["verdict"] for row in found["results"] if row["condition"] == "-rules")
    assert verdicts == {"bound": "no reliable change", "drop": "worse"}


def test_a_run_that_too_many_failures_end_is_judged_by_what_it_has(folder, capsys):
    write_table(folder, [(number,) for number in range(100)])
    with RejectingServer(without_rules(REJECTED, frozenset(range(100)))) as server:
        assert ablate(server) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "Too many failures ended the calls" in out
    assert verdict_of(document(), "rules")["verdict"] == "undecided"


@pytest.mark.parametrize(("reply", "outcome"), [(FILTERED, "filtered"), (TOO_LONG, "too_long")])
def test_a_permanent_refusal_is_an_outcome_of_the_item_and_ends_no_run(folder, capsys, reply, outcome):
    """At the default limit of failed calls: 35 filtered prompts are 35 wrong answers, not 35 failures."""
    write_table(folder, [(number,) for number in range(100)])
    with RejectingServer(without_rules(reply, LOST)) as server:
        assert ablate(server) == 0
        asked = server.asked
        assert ablate(server) == 0
        assert server.asked == asked, "what became of an item is not asked again"
    found, out = document(), " ".join(capsys.readouterr().out.split())
    rules = verdict_of(found, "rules")
    assert (rules["verdict"], rules["missing"], rules["effect"]) == ("helps", 0, pytest.approx(0.35))
    arms = {arm["id"]: arm for arm in found["arms"]}
    assert arms["-rules"]["outcomes"] == {"answered": 65, outcome: 35}
    assert arms["-rules"]["missing"] == 0
    assert f"35 {outcome.replace('_', ' ')} in arm -rules" in out
    rows = [
        row
        for row in iter_rows(folder / "outputs/ablations/prompt/runs/prompt.jsonl")
        if row.outcome == outcome
    ]
    assert sum(row.condition.id == "-rules" for row in rows) == 35
    assert all(row.errors == [] and row.metrics["task_score"] == 0 for row in rows)


# Line 2: compare and its gate.


def run_prompt(folder, name, reply, **settings):
    with RejectingServer(reply) as server:
        profile = pcs.prompt(
            "prompt.md",
            "tickets.csv",
            answer="queue",
            model="openai/parrot",
            base_url=server.base_url,
            config=lenient(folder),
            name=name,
            **settings,
        )
        return str(pcs.run(profile, quiet=True).log)


def all_right(prompt):
    return queue_of(number_in(prompt))


@pytest.fixture
def runs(folder):
    """Two runs of 120 tickets: all right, and the same with thirty calls lost."""
    write_table(folder, [(number,) for number in range(120)])
    first = run_prompt(folder, "before", all_right)
    second = run_prompt(
        folder, "after", lambda prompt: REJECTED if number_in(prompt) < 30 else all_right(prompt)
    )
    return first, second


def test_thirty_lost_calls_do_not_pass_a_gate(runs, folder, capsys):
    gate = ["compare", *runs, "--fail-on-regression", "--margin", "0.05"]
    assert main(["compare", runs[0], runs[0], "--fail-on-regression", "--margin", "0.05"]) == 0
    capsys.readouterr()
    assert main([*gate, "--junit", "gate.xml"]) == 1
    text = capsys.readouterr().out
    assert "Missing in after: 30 scores of 30 planned items (30 failed): " in text
    assert "so a gate fails (--missing drop judges the scored items alone)" in text
    assert "neither worse nor shown to be no worse than before (margin 0.05); 30 scores are missing." in text
    (case,) = [
        case
        for case in ElementTree.parse("gate.xml").iter("testcase")
        if case.get("name").endswith(": score")
    ]
    assert case.find("failure").get("message") == "30 missing scores could hide a regression"
    assert main([*gate, "--format", "github"]) == 1
    github = capsys.readouterr().out
    assert "### :x: after is neither worse" in github
    assert "Missing in after: 30 scores" in github
    assert main([*gate, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["passes"], found["missing"]["second"], found["missing"]["first"]) == (False, 30, 0)
    assert {entry["why"] for entry in found["missing"]["items"]} == {"failed"}
    (score,) = [cell for cell in found["cells"] if cell["metric"] == "score"]
    assert (score["n_items"], score["missing_second"], score["delta_least"], score["delta_most"]) == (
        90,
        30,
        -0.25,
        0.0,
    )
    assert main([*gate, "--missing", "drop"]) == 0
    assert "left out (--missing drop)" in capsys.readouterr().out
    # Nor without a margin: with the lost ones at their worst it is reliably lower.
    assert main(["compare", *runs, "--fail-on-regression"]) == 1


def test_a_run_that_was_killed_half_way_lacks_its_other_half(runs, folder, capsys):
    path = folder / "outputs/prompts/after/runs/after.jsonl"
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if b'"errors":[]' in line]
    path.write_bytes(b"".join(lines[:60]))
    assert main(["compare", *runs, "--fail-on-regression", "--margin", "0.05"]) == 1
    assert "Missing in after: 60 scores of 60 planned items (60 not asked)" in capsys.readouterr().out


def test_a_run_of_half_the_items_is_refused_unless_it_is_allowed(runs, folder, capsys):
    half = run_prompt(folder, "half", all_right, limit=60)
    capsys.readouterr()
    assert main(["compare", runs[0], half, "--fail-on-regression", "--margin", "0.05"]) == 2
    problem = capsys.readouterr().err
    assert "the first has 120, the second 60, and 60 are in common (--allow-different-items" in problem
    gate = ["compare", runs[0], half, "--fail-on-regression", "--margin", "0.05", "--allow-different-items"]
    assert main(gate) == 0
    assert main(["compare", half, runs[0], "--margin", "0.05"]) == 2


def test_answers_without_a_score_are_missing_too(folder, capsys):
    """A scorer that gives no number for some answers: nothing failed, and nothing is known of them."""
    write_table(folder, [(number,) for number in range(120)])
    (folder / "scorer.py").write_text(
        "def score(answer, item):\n"
        "    return float('nan') if answer == 'unsure' else float(answer == item['queue'])\n",
        encoding="utf-8",
    )
    first = run_prompt(folder, "before", all_right, scorer="scorer.py:score")
    second = run_prompt(
        folder,
        "after",
        lambda prompt: "unsure" if number_in(prompt) < 30 else all_right(prompt),
        scorer="scorer.py:score",
    )
    capsys.readouterr()
    assert main(["compare", first, second, "--fail-on-regression", "--margin", "0.05"]) == 1
    assert "Missing in after: 30 scores of 30 planned items" in capsys.readouterr().out


def test_one_shared_item_is_said_to_be_one(folder, capsys):
    write_table(folder, [(number,) for number in range(120)])
    first = run_prompt(folder, "one", all_right, limit=1)
    second = run_prompt(folder, "two", all_right, limit=1)
    capsys.readouterr()
    assert main(["compare", first, second]) == 2
    assert "the runs have one item in common" in capsys.readouterr().err


def test_copies_are_no_further_evidence_between_runs_either(folder, capsys):
    """Six of twenty texts, five times each, go wrong: 30 losses of 100 items are six of 20 clusters, p = 0.03."""
    write_table(folder, [(number,) for _ in range(5) for number in range(20)])
    first = run_prompt(folder, "before", all_right)
    second = run_prompt(folder, "after", lambda prompt: "no" if number_in(prompt) < 4 else all_right(prompt))
    capsys.readouterr()
    assert main(["compare", first, second, "--json"]) == 0
    (score,) = [cell for cell in json.loads(capsys.readouterr().out)["cells"] if cell["metric"] == "score"]
    assert (score["n_items"], score["n_clusters"], score["delta"]) == (100, 20, -0.2)
    assert score["p_value"] >= 0.05  # four clusters of one sign: at least 2/16
    assert score["outcome"] == "no reliable change"
