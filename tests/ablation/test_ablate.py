"""Whole ablations on models with known effects: simulated, over a loopback server, killed and resumed, on Ray."""

import json
import os
import signal
import sys
import time
from dataclasses import replace

import pytest
import yaml

from pcsuite.ablation import ablate, preview
from pcsuite.ablation.study import FINGERPRINT
from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError, ErrorRateError
from pcsuite.logging.log import iter_rows
from pcsuite.logging.looks import read_looks
from pcsuite.logging.segments import read_log_lines
from pcsuite.runners.executors import ExecutorChoice
from support.ablating import PROMPT, QUEUES, request_in, words_of
from support.forked_cli import ForkedCli
from support.loopback import LoopbackServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return ablate(
        request_in(tmp_path_factory.mktemp("ablation"), items=300, design="one-at-a-time"), quiet=True
    )


def test_needed_and_harmful_blocks_are_told_and_the_control_has_no_effect(result):
    verdicts = {entry.block: entry for entry in result.verdicts}
    assert verdicts["rules"].verdict == "helps"
    assert verdicts["noise"].verdict == "hurts"
    assert {verdicts[name].verdict for name in ("role", "tone")} <= {"no worse without it", "undecided"}
    assert result.noise_p > 0.05
    assert result.items == 300


def test_shams_are_asked_only_of_blocks_that_help_or_hurt(result):
    asked = {row.condition.id for row in iter_rows(result.log)}
    assert {name for name in asked if name.startswith("~")} == {"~rules", "~noise"}
    against = {entry.block: entry.against_sham for entry in result.verdicts}
    assert against["rules"].value > 0
    assert (against["role"], against["tone"]) == (None, None)
    assert {arm.id for arm in result.arms} <= asked


def test_the_trimmed_prompt_drops_the_harmful_block_and_keeps_the_needed_one(result):
    assert "noise" in result.trim.dropped
    assert "rules" not in result.trim.dropped
    assert "Never answer directly." not in result.trimmed
    assert "Answer with the name of the queue." in result.trimmed
    assert result.saved_tokens > 0
    # Every set was confirmed on the half that did not choose it.
    assert all(step.difference.n == 150 for step in result.trim.steps)


def test_every_row_is_in_one_log_and_the_profile_there_is_an_ordinary_one(result):
    from pcsuite.runners.plan import build_plan

    rows = list(iter_rows(result.log))
    assert len({row.run_id for row in rows}) == len(rows)
    plan = build_plan(load_suite(result.study.folder / "profile.yaml"))
    logged = {row.run_id for row in rows}
    planned = {unit.run_id for unit in plan.units("simulated") if unit.cell.condition.id in
               {arm.id for arm in result.study.design.arms}}  # fmt: skip
    assert planned <= logged


def test_tokens_flips_and_measures_are_those_of_the_rows(result):
    assert result.block_tokens["rules"] == pytest.approx(
        len("# Rules\nAnswer with the name of the queue.\n\n") / 4, abs=1
    )
    gained, lost = result.flips["rules"]
    effect = next(entry.effect.value for entry in result.verdicts if entry.block == "rules")
    assert (len(gained) - len(lost)) / 300 == pytest.approx(effect)
    assert result.measures["rules"]["prompt_tokens"].value == pytest.approx(
        result.block_tokens["rules"], abs=0.6
    )


def test_asking_again_asks_nothing_and_says_the_same(result):
    again = ablate(result.study.request, quiet=True)
    assert again.asked == 0
    assert [entry.verdict for entry in again.verdicts] == [entry.verdict for entry in result.verdicts]
    assert again.trimmed == result.trimmed


def test_going_on_leaves_the_note_of_what_is_ablated_as_it_is(result):
    """Written anew at every start it would be empty for a moment: killed then, its rows were another prompt's."""
    note = result.log.parents[1] / FINGERPRINT
    before = note.stat()
    ablate(result.study.request, quiet=True)
    after = note.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_another_prompt_under_the_same_name_is_refused(result, tmp_path):
    request = result.study.request
    other = tmp_path / request.prompt.name
    other.write_text(request.prompt.read_text().replace("kind", "cold"))
    with pytest.raises(ConfigError, match=r"another prompt.*--name"):
        ablate(replace(request, prompt=other), quiet=True)


def test_redundant_blocks_are_found_out_and_only_one_goes(tmp_path):
    effects = {"role": 2.2, "tone": 2.2, "role*tone": -2.2}
    made = ablate(request_in(tmp_path, items=400, effects=effects, design="one-at-a-time"), quiet=True)
    assert any(
        entry.words == "role and tone make up for each other: either can go, both cannot"
        for entry in made.interactions
    )
    assert len({"role", "tone"} & set(made.trim.dropped)) <= 1
    assert made.pairs_measured >= 1
    assert "-role-tone" in {arm.id for arm in made.arms}


def test_a_filler_is_told_from_what_a_block_says(tmp_path):
    effects = {"rules": 2.5, "SHAM_rules": 2.5, "tone": 2.5}
    made = ablate(
        request_in(tmp_path, items=500, effects=effects, design="leave-one-out", trim=False), quiet=True
    )
    verdicts = {entry.block: entry.verdict for entry in made.verdicts}
    assert verdicts["rules"] == "helps only as filler"
    assert verdicts["tone"] == "helps"
    assert made.trim is None


def test_a_budget_ends_the_calls_and_what_was_answered_is_judged(tmp_path):
    request = request_in(tmp_path, items=200, design="leave-one-out", budget_tokens=60_000)
    made = ablate(request, quiet=True)
    assert "token" in made.stopped
    assert 0 < made.items < 200
    assert made.trimmed == PROMPT
    assert {entry.block for entry in made.verdicts} == {"role", "rules", "tone", "noise"}


def test_a_prompt_that_scores_nothing_is_not_tested(tmp_path):
    with LoopbackServer(answer=lambda body: "no idea") as server:
        made = ablate(
            request_in(tmp_path, items=40, model="openai/parrot", base_url=server.base_url, effects={}),
            quiet=True,
        )
    assert {entry.verdict for entry in made.verdicts} == {"not tested"}
    assert made.trimmed == PROMPT
    assert made.alarms


def test_an_ablation_that_nobody_answered_does_not_stand_in_the_way(tmp_path):
    with LoopbackServer(faults=["401"] * 500) as server:
        request = request_in(
            tmp_path, items=40, model="openai/parrot", base_url=server.base_url, effects={}, name="mine"
        )
        with pytest.raises(ErrorRateError, match="api_key_env=VARIABLE"):
            ablate(request, quiet=True)
    with LoopbackServer(answer=lambda body: "no idea") as server:
        made = ablate(
            replace(request, base_url=server.base_url), quiet=True
        )  # the address was wrong: another model
    assert made.asked == len(list(iter_rows(made.log))) > 0
    assert not any(row.errors for row in iter_rows(made.log))
    assert list(made.log.parent.glob("mine.old-*")), "the failed rows are set aside, not lost"
    with pytest.raises(ConfigError, match=r"of another openai/parrot \(its address or its options\) \("):
        ablate(replace(request, base_url="http://127.0.0.1:9/v1"), quiet=True)


def test_the_budget_of_the_profile_holds_where_an_ablation_without_answers_is_set_aside(tmp_path):
    request = request_in(tmp_path, items=40, design="leave-one-out", trim=False)
    base = tmp_path / "base.yaml"
    base.write_text(base.read_text() + "limits: {max_tokens_overall: 900000}\n")
    folder = tmp_path / "outputs/ablations/prompt"
    folder.mkdir(parents=True)
    (folder / FINGERPRINT).write_text("of another prompt\n")
    ablate(request, quiet=True)
    assert yaml.safe_load((folder / "profile.yaml").read_text())["limits"]["max_tokens_overall"] == 900_000


def test_the_profile_is_loaded_once_and_the_log_is_not_read_back(tmp_path, monkeypatch):
    loaded, read = [], []

    def load(path, *args, **options):
        loaded.append(path)
        return load_suite(path, *args, **options)

    def read_lines(path):
        lines = list(read_log_lines(path))
        read.append(len(lines))
        return lines

    monkeypatch.setattr("pcsuite.ablation.study.load_suite", load)
    monkeypatch.setattr("pcsuite.logging.segments.read_log_lines", read_lines)
    request = request_in(tmp_path, items=100, design="leave-one-out")
    first = ablate(request, quiet=True)
    assert {"~rules", "~noise"} < {arm.id for arm in first.arms}  # arms were added on the way
    assert loaded == [request.config, first.study.folder / "profile.yaml"]
    assert read == [0]
    again = ablate(request, quiet=True)
    assert read == [0, first.asked]  # what an earlier start answered is read once
    assert (again.asked, again.arms) == (0, first.arms)


def test_show_promises_by_the_models_own_settings_and_then_by_what_was_measured(tmp_path):
    request = request_in(tmp_path, items=60)
    before = preview(request)
    assert "own settings" in before.flips_from
    assert before.rows == 17 * 60  # 16 subsets and A/A; shams follow where a block moves the score
    ablate(request, quiet=True)
    after = preview(request)
    assert "measured" in after.flips_from
    assert after.done == after.rows


def test_until_decided_it_asks_fewer_items_and_confirms_on_items_never_looked_at(tmp_path):
    request = request_in(
        tmp_path, items=480, effects={"rules": 3.0, "noise": -3.0}, until="decided", margin=0.25
    )
    made = ablate(request, quiet=True)
    verdicts = {entry.block: entry for entry in made.verdicts}
    assert verdicts["rules"].verdict == "helps"
    assert verdicts["noise"].verdict in ("hurts", "no worse without it")
    assert verdicts["rules"].effect.method == "confidence sequence"
    assert made.items < 240  # decided before the first half was through
    rows = list(iter_rows(made.log))
    names = [item.item_id for item in sorted_items(made)]
    asked = {
        arm: [row.task.item_id for row in rows if row.condition.id == arm] for arm in ("-tone", "~rules")
    }
    assert set(asked["-tone"]) <= set(names[:240])
    assert asked["~rules"]  # its sham, because it helps
    assert all(step.difference.n == 240 for step in made.trim.steps)
    assert "noise" in made.trim.dropped
    again = ablate(request, quiet=True)
    assert again.asked == 0
    assert [entry.effect for entry in again.verdicts] == [entry.effect for entry in made.verdicts]


def sorted_items(made):
    from pcsuite.runners.plan import build_plan

    (task,) = build_plan(load_suite(made.study.folder / "profile.yaml")).tasks.values()
    return task.items


def clerk(body):
    """A server that knows the queue only where the rules are shown, and refuses where the noise is."""
    text = "\n".join(message["content"] for message in body["messages"])
    queue = text.rsplit("about ", 1)[1].strip()
    number = int(text.rsplit("ticket ", 1)[1].split()[0])
    wrong = QUEUES[(QUEUES.index(queue) + 1) % 3]
    if "Never answer directly" in text and number % 3 == 0:
        return "I would rather not say."
    return queue if "name of the queue" in text or number % 4 == 0 else wrong


def test_over_an_openai_compatible_server(tmp_path):
    with LoopbackServer(answer=clerk) as server:
        request = request_in(tmp_path, items=60, model="openai/clerk", base_url=server.base_url, effects={})
        made = ablate(request, quiet=True)
        bodies = list(server.bodies)
    assert all(body["model"] == "clerk" for body in bodies)
    assert {tuple(message["role"] for message in body["messages"]) for body in bodies} == {("user",)}
    assert PROMPT.replace("{{ text }}", "ticket 0 about ") in "".join(
        body["messages"][0]["content"].replace("billing", "").replace("delivery", "").replace("account", "")
        for body in bodies
    )
    verdicts = {entry.block: entry.verdict for entry in made.verdicts}
    assert verdicts == {
        "role": "no worse without it",
        "rules": "helps",
        "tone": "no worse without it",
        "noise": "hurts",
    }
    assert set(made.trim.dropped) == {"role", "tone", "noise"}
    assert made.noise.value == 0


def test_a_chat_over_a_server_keeps_its_messages(tmp_path):
    request = request_in(tmp_path, items=60, effects={})
    chat = [
        {"role": "system", "content": "# Rules\nSay the name of the queue.\n\n# Tone\nBe kind.\n"},
        {"role": "user", "content": "The parcel is lost."},
        {"role": "assistant", "content": "delivery"},
        {"role": "user", "content": "{{ text }}"},
    ]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(chat), encoding="utf-8")
    with LoopbackServer(answer=clerk) as server:
        made = ablate(
            replace(request, prompt=path, model="openai/clerk", base_url=server.base_url), quiet=True
        )
        shapes = {tuple(message["role"] for message in body["messages"]) for body in server.bodies}
    assert ("system", "user", "assistant", "user") in shapes
    assert ("system", "user") in shapes  # without the example
    assert ("user",) in shapes  # without system message and example
    assert {entry.block: entry.verdict for entry in made.verdicts}["rules"] == "helps"
    assert json.loads(made.trimmed)[0] == {
        "role": "system",
        "content": "# Rules\nSay the name of the queue.\n\n",
    }


def test_killed_and_resumed_it_ends_as_if_undisturbed(tmp_path):
    first, folder = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    folder.mkdir()
    undisturbed = ablate(request_in(first), quiet=True)
    request = request_in(folder)
    effects = [f"--effect={name}={effect}" for name, effect in request.effects.items()]
    words = words_of(request, *effects)
    log = folder / "outputs" / "ablations" / "prompt" / "runs" / "prompt.jsonl"
    total = sum(1 for _ in iter_rows(undisturbed.log))
    with ForkedCli() as cli:
        for moment in (200, 900, 1500):
            process = cli.start(folder / "output.txt", *words)
            deadline = time.monotonic() + 120
            while (log.read_bytes().count(b"\n") if log.exists() else 0) < moment:
                assert time.monotonic() < deadline, (folder / "output.txt").read_text()
                time.sleep(0.005)
            os.kill(process, signal.SIGKILL)
            cli.wait()
        assert 0 < log.read_bytes().count(b"\n") <= total
        cli.start(folder / "output.txt", *words)
        assert cli.wait() == 0, (folder / "output.txt").read_text()
    rows = list(iter_rows(log))
    assert len({row.run_id for row in rows}) == len(rows) == total
    resumed = json.loads((log.parent.parent / "ablation.json").read_text())
    assert resumed["trim"]["dropped"] == list(undisturbed.trim.dropped)
    assert [entry["verdict"] for entry in resumed["verdicts"]] == [
        entry.verdict for entry in undisturbed.verdicts
    ]
    assert [entry["effect"] for entry in resumed["verdicts"]] == [
        entry.effect.value for entry in undisturbed.verdicts
    ]


def test_on_a_ray_cluster_it_says_the_same(tmp_path):
    pytest.importorskip("ray")
    if sys.platform != "linux":
        pytest.skip("Ray's local cluster is tested on Linux")
    (tmp_path / "local").mkdir()
    (tmp_path / "ray").mkdir()
    request = request_in(tmp_path / "local", items=40, design="leave-one-out")
    here = ablate(request, quiet=True)
    there = ablate(
        request_in(tmp_path / "ray", items=40, design="leave-one-out"),
        quiet=True,
        executor=ExecutorChoice("ray", workers=1),
    )
    assert [entry.effect.value for entry in there.verdicts] == [entry.effect.value for entry in here.verdicts]
    assert there.trim.dropped == here.trim.dropped
    assert {row.run_id for row in iter_rows(there.log)} == {row.run_id for row in iter_rows(here.log)}


def test_planned_looks_decide_what_is_clear_and_give_up_what_is_not(tmp_path):
    made = ablate(
        request_in(
            tmp_path,
            items=480,
            effects={"rules": 3.0, "noise": -3.0},
            until="decided",
            looks=4,
            margin=0.25,
        ),
        quiet=True,
    )
    verdicts = {entry.block: entry for entry in made.verdicts}
    assert (verdicts["rules"].verdict, verdicts["noise"].verdict) == ("helps", "hurts")
    assert verdicts["rules"].effect.method == "planned looks"
    assert verdicts["rules"].effect.low > 0
    looks = read_looks(made.log)
    assert {look.visited for look in looks} <= {60, 120, 180, 240}
    assert {look.planned for look in looks} == {4}
    assert made.items < 240


@pytest.mark.parametrize(
    ("given", "said"), [({"looks": 4}, "--until decided"), ({"looks": 1, "until": "decided"}, "from 2 to")]
)
def test_looks_that_cannot_be_planned_are_refused(tmp_path, given, said):
    with pytest.raises(ConfigError, match="--looks") as error:
        ablate(request_in(tmp_path, **given), quiet=True)
    assert said in str(error.value)


def test_noise_is_asked_first_and_the_rest_forecast_before_it_is_paid(tmp_path):
    request = request_in(tmp_path, items=120, design="leave-one-out", noise_first=30, trim=False)
    told = []
    made = ablate(request, quiet=True, tell=told.append)
    (found,) = told
    assert found.asked == 30
    assert found.rows_left == 6 * 120 - 2 * 30  # full, four blocks, A/A
    order = [row.condition.id for row in iter_rows(made.log)]
    assert set(order[:60]) == {"full", "again"}
    both = {arm: {} for arm in ("full", "again")}
    for row in list(iter_rows(made.log))[:60]:
        both[row.condition.id][row.task.item_id] = row.metrics["task_score"]
    flips = sum(both["full"][item] != both["again"][item] for item in both["full"])
    assert found.noise == pytest.approx(flips / 30)
    assert 0 < found.detectable < 1
    assert found.another_replicate is None  # greedy answers would be the same again
    again = []
    ablate(request, quiet=True, tell=again.append)
    assert again[0].rows_left == 0


def test_nothing_is_asked_first_without_a_budget(tmp_path):
    told = []
    ablate(request_in(tmp_path, items=40, trim=False), quiet=True, tell=told.append)
    assert told == []


@pytest.mark.parametrize("more", [{"until": "decided", "looks": 3}, {"design": "leave-one-out"}])
def test_an_ablation_that_its_budget_ended_goes_on_and_says_what_a_whole_one_says(tmp_path, more):
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    priced = {"model_options": {"price_in": 1000.0, "price_out": 1000.0}}
    whole = ablate(request_in(tmp_path / "whole", items=120, name="priced", **more, **priced), quiet=True)
    request = request_in(tmp_path / "cut", items=120, name="priced", budget_usd=9.0, **more, **priced)
    first = ablate(request, quiet=True)
    assert "budget" in first.stopped
    rows = len(list(iter_rows(first.log)))
    second = ablate(replace(request, budget_usd=15.0), quiet=True)
    assert second.stopped
    assert len(list(iter_rows(second.log))) > rows
    last = ablate(replace(request, budget_usd=500.0), quiet=True)
    assert not last.stopped
    assert [(entry.block, entry.verdict, entry.effect) for entry in last.verdicts] == [
        (entry.block, entry.verdict, entry.effect) for entry in whole.verdicts
    ]


def test_hours_end_an_ablation_and_more_of_them_go_on(tmp_path):
    slow = {"model_options": {"latency_ms": 30}}
    request = request_in(tmp_path, items=40, trim=False, budget_hours=0.5 / 3600, noise_first=0, **slow)
    first = ablate(request, quiet=True)
    assert "time is used up" in first.stopped
    last = ablate(replace(request, budget_hours=1.0), quiet=True)
    assert not last.stopped
    assert last.asked > 0
    assert last.items == 40
