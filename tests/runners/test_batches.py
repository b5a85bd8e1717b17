"""Runs through batch APIs: every row once, whatever becomes of batches and of the process."""

import signal

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.logging.log import iter_rows
from support.batch_profiles import log_of, profile_in, rows_of, run
from support.batch_server import BatchServer
from support.forked_cli import ForkedCli

pytestmark = pytest.mark.slow

STEPS = [
    (step, moment)
    for step in ("upload", "create", "state", "results")
    for moment in ("before", "during", "after")
]


def batch_ids(folder):
    return {row.generation.batch for row in iter_rows(log_of(folder))}


def test_two_thousand_rows_through_every_trouble_and_a_kill_at_every_step(tmp_path):
    """Slow by its nature (2,000 rows, thirteen processes), and the issue's own measure."""
    behaviours = [
        "slow:4",
        "expire:0.4",
        "partial",
        "errors:5",
        "limited",
        "slow:2",
        "expire:0.9",
        "errors:2",
    ]
    with BatchServer(behaviours, STEPS) as server:
        sizes = {"seeds": 25, "items": 20, "max_requests": 300}
        profile = profile_in(tmp_path / "batched", server, **sizes)
        statuses = []
        with ForkedCli() as cli:
            while not statuses or statuses[-1] != 0:
                assert len(statuses) < 30, (tmp_path / "words.txt").read_text()
                words = ["run", "--quiet", "--no-cache", "--batch", "--config", str(profile)]
                server.client = None
                process = cli.start(tmp_path / "words.txt", *words)
                server.client = process
                statuses.append(cli.wait())
        assert statuses.count(-signal.SIGKILL) == len(STEPS)
        assert not server.kills
        assert not server.behaviours
        assert server.single == 0
        batched = rows_of(tmp_path / "batched")
        assert len(batched) == 2000
        # Each request was answered, and so paid for, exactly once.
        assert set(server.answered.values()) == {1}
        assert len(server.answered) == 2000
        assert run(profile_in(tmp_path / "plain", server, **sizes)) == 0
        assert rows_of(tmp_path / "plain") == batched
    assert batch_ids(tmp_path / "plain") == {None}
    assert all(name.startswith("batch_") for name in batch_ids(tmp_path / "batched"))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_kills_at_every_step_with_either_wire(tmp_path, provider):
    steps = [step for step in STEPS if provider == "openai" or step[0] != "upload"]
    with BatchServer(["slow:1", "errors:3"], steps, foreign=3) as server, ForkedCli() as cli:
        profile = profile_in(tmp_path, server, provider=provider, max_requests=20)
        status = None
        for _ in range(len(steps) + 4):
            words = ["run", "--quiet", "--no-cache", "--batch", "--config", str(profile)]
            server.client = None
            server.client = cli.start(tmp_path / "words.txt", *words)
            status = cli.wait()
            if status == 0:
                break
        assert status == 0, (tmp_path / "words.txt").read_text()
        assert not server.kills
        mine = {key: count for key, count in server.answered.items() if not key.startswith("someone")}
    assert len(rows_of(tmp_path)) == 6 * 4 * 2
    assert set(mine.values()) == {1}
    assert len(mine) == 6 * 4 * 2


def test_a_death_between_any_two_notes_files_and_rows_doubles_nothing(tmp_path):
    """Two processes for each of eighteen points take their time."""
    number, died = 0, True
    with ForkedCli() as cli:
        while died:
            number += 1
            with BatchServer() as server:
                profile = profile_in(tmp_path / str(number), server, items=1, seeds=2)
                words = [
                    "run",
                    "--quiet",
                    "--no-cache",
                    "--batch",
                    "--conditions",
                    "C0",
                    "--config",
                    str(profile),
                ]
                cli.start(tmp_path / "words.txt", f"@support.batch_kills:arm:{number}", *words)
                died = cli.wait() == -signal.SIGKILL
                if died:
                    cli.start(tmp_path / "words.txt", *words)
                    assert cli.wait() == 0, (tmp_path / "words.txt").read_text()
                assert len(rows_of(tmp_path / str(number))) == 2
                assert set(server.answered.values()) == {1}, number
    # Five notes, two files and two rows; each before and after.
    assert number - 1 == 2 * (5 + 2 + 2)


def test_anthropics_rows_are_those_of_single_calls_and_no_address_of_the_server_is_asked(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_TEST_KEY", "sk-ant-0123456789abcdef")
    with BatchServer() as server:
        keys = {"provider": "anthropic", "api_key_env": "ANTHROPIC_TEST_KEY", "omit": ["top_p"]}
        batched = profile_in(tmp_path / "batched", server, **keys)
        assert run(batched, "--batch") == 0
        assert run(profile_in(tmp_path / "plain", server, **keys)) == 0
    # Its results_url names another host; had it been asked, the run would have failed there.
    assert rows_of(tmp_path / "batched") == rows_of(tmp_path / "plain")
    assert all(headers["x-api-key"] == "sk-ant-0123456789abcdef" for headers in server.headers)


def test_a_batch_costs_its_share_of_the_price(tmp_path):
    with BatchServer() as server:
        prices = {"price_in": 2.0, "price_out": 10.0}
        assert run(profile_in(tmp_path / "half", server, **prices, price_batch=0.5), "--batch") == 0
        assert run(profile_in(tmp_path / "whole", server, **prices)) == 0
    costs = {
        name: {row.metrics["cost_usd"] for row in iter_rows(tmp_path / name / "outputs" / "runs" / "t.jsonl")}
        for name in ("half", "whole")
    }
    # 20 prompt tokens at $2 and 5 of the answer at $10 a million.
    assert list(costs["whole"]) == [pytest.approx(90e-6)]
    assert list(costs["half"]) == [pytest.approx(45e-6)]


def test_a_refused_batch_fails_its_rows_and_the_next_run_sends_them_again(tmp_path, capsys):
    with BatchServer(["refused"]) as server:
        profile = profile_in(tmp_path, server)
        assert run(profile, "--batch", "--set", "limits.stop_on_error_rate=1") == 4
        failed = list(iter_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
        assert all("refused for a reason" in row.errors[0] for row in failed)
        assert run(profile, "--batch") == 0
    assert len({row.run_id for row in failed}) == 6 * 4 * 2


def test_a_run_without_batches_does_not_send_what_is_under_way(tmp_path, capsys):
    with BatchServer(["slow:1000"], [("state", "after")]) as server, ForkedCli() as cli:
        profile = profile_in(tmp_path, server)
        server.client = cli.start(
            tmp_path / "words.txt", "run", "--quiet", "--batch", "--config", str(profile)
        )
        assert cli.wait() == -signal.SIGKILL
        assert run(profile) == 2
        assert "48 requests of this run are in batches" in capsys.readouterr().err
        assert server.single == 0
        server.batches["batch_0"]["behaviour"] = "ok"
        assert run(profile, "--batch") == 0
    assert set(server.answered.values()) == {1}


def test_starting_anew_sets_old_batches_aside(tmp_path):
    with BatchServer() as server:
        profile = profile_in(tmp_path, server)
        assert run(profile, "--batch") == 0
        assert run(profile, "--batch", "--overwrite") == 0
        assert len(server.batches) == 2
    kept = sorted(path.name for path in (tmp_path / "outputs" / "runs").iterdir() if path.is_dir())
    assert kept == ["t.old-1~batches", "t~batches"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--batch", "--executor", "ray"], "sends from this process"),
        (["--batch", "--models", "mistral/some"], "mistral has no batch API"),
        (["--batch", "--config", "quickstart"], "cannot be asked in batches"),
    ],
)
def test_who_cannot_send_batches_is_told(tmp_path, words, said, capsys, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "sk-0123456789abcdef")
    with BatchServer() as server:
        profile = profile_in(tmp_path, server)
        assert (
            main(["run", "--quiet", "--config", str(profile), "--output-dir", str(tmp_path / "o"), *words])
            == 2
        )
    assert said in capsys.readouterr().err


def test_calls_of_programs_come_in_further_batches(tmp_path):
    """RETRY_ON_FAIL asks again where an answer cannot be read: a second question of the same row."""
    with BatchServer() as server:
        server.answer_text = lambda body: "hm"
        profile = profile_in(tmp_path, server)
        content = yaml.safe_load(profile.read_text())
        content["selection"]["conditions"] = ["C4R"]
        profile.write_text(yaml.safe_dump(content))
        assert run(profile, "--batch") == 0
        assert len(server.batches) == 3
        assert set(server.answered.values()) == {1}
    rows = list(iter_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    assert len(rows) == 12
    assert all(row.generation.batch and row.generation.attempts == 3 for row in rows)
