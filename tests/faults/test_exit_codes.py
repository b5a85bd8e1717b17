"""The exit status says how a command ended, and it ends in one line; nothing from outside acts on the terminal."""

import asyncio
import errno
import io
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
import yaml

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.limits import RetriesExhaustedError
from pcsuite.engines.session import Session
from pcsuite.errors import Exit
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile

RETRY = {"max_attempts": 1}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"


def server_profile(folder, server, *, items=2, conditions=("C0",), **sections):
    model = {"provider": "openai", "family": "f", "size": "1B", "base_url": server.base_url}
    limits = {"max_items_per_task": items, "retry": RETRY, "stop_on_error_rate": 1.0}
    sections["limits"] = limits | sections.get("limits", {})
    return write_profile(folder, {"m": model}, conditions=conditions, regimes=("D0",), **sections)


def test_the_documentation_lists_every_status():
    listed = {
        int(line.split("|")[1])
        for line in DOCS.read_text().splitlines()
        if line.startswith(("| 0", "| 1", "| 2", "| 3", "| 4", "| 5", "| 7"))
    }
    assert listed == {int(code) for code in Exit}


@pytest.mark.slow
@pytest.mark.parametrize(("faults", "failed"), [(["400", "400"], 2), (["400"], 1), ([], 0)])
def test_rows_that_failed(tmp_path, capsys, faults, failed):
    with LoopbackServer(faults, answer=lambda body: "Sports") as server:
        path = server_profile(tmp_path, server)
        assert main(["run", "--quiet", "--config", str(path)]) == (Exit.FAILED_ROWS if failed else Exit.DONE)
        assert (f"{failed} failed" in capsys.readouterr().out) == bool(failed)
        assert main(["run", "--quiet", "--config", str(path)]) == Exit.DONE


def test_an_error_rate_stops(tmp_path, capsys):
    with LoopbackServer(["400"] * 100) as server:
        path = server_profile(
            tmp_path, server, items=40, conditions=("C0", "C2"), limits={"stop_on_error_rate": 0.1}
        )
        status = main(["run", "--quiet", "--config", str(path)])
    assert status == Exit.STOPPED
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("tokenize", ["none", "vllm"])
@pytest.mark.parametrize("conditions", [("C0",), ("C6",)])
def test_a_server_that_is_down_ends_the_run_at_once(tmp_path, capsys, conditions, tokenize):
    """Before the first row, whatever is asked first: an answer, a proof of the constraint or a count of tokens."""
    server = LoopbackServer([])
    with server:
        pass  # its port is free again
    path = server_profile(
        tmp_path, server, items=40, conditions=conditions, limits={"retry": {"max_attempts": 6}}
    )
    models = yaml.safe_load((tmp_path / "models.yaml").read_text())
    models["models"]["m"] |= {"tokenize": tokenize, "structured": "response_format"}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
    assert main(["run", "--quiet", "--config", str(path)]) == Exit.UNREACHABLE
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "model 'm'" in said
    assert "cannot reach the server: no connection to 127.0.0.1:" in said
    assert "start it, or correct base_url" in said
    assert (tmp_path / "outputs" / "runs" / "t.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("401", "HTTP 401: fault 401 (this server wants a key"),
        ("404", "HTTP 404: fault 404 (check base_url and model)"),
        ("quota", "HTTP 429: You exceeded your current quota"),
    ],
)
def test_a_server_that_refuses_the_key_or_the_model_is_not_asked_fifty_times(tmp_path, capsys, fault, why):
    with LoopbackServer([fault] * 200) as server:
        path = server_profile(
            tmp_path, server, items=40, conditions=("C0", "C2"), limits={"stop_on_error_rate": 0.02}
        )
        status = main(["run", "--quiet", "--config", str(path)])
        asked = len(server.bodies)
    said = capsys.readouterr().err
    assert status == Exit.STOPPED
    assert said.count("\n") == 1
    assert "model 'm' refused its first 3 calls" in said
    assert why in said
    assert asked < 20  # those that were in flight with the third


@pytest.mark.slow
def test_a_first_refusal_alone_does_not_end_a_run(tmp_path):
    with LoopbackServer(["401", "404"], answer=lambda body: "Sports") as server:
        path = server_profile(
            tmp_path, server, items=4, conditions=("C0",), limits={"stop_on_error_rate": 0.9}
        )
        assert main(["run", "--quiet", "--config", str(path)]) == Exit.FAILED_ROWS


@pytest.mark.slow
def test_who_lets_every_call_fail_has_every_call_made(tmp_path):
    with LoopbackServer(["401"] * 200) as server:
        path = server_profile(
            tmp_path, server, items=6, conditions=("C0",), limits={"stop_on_error_rate": 1.0}
        )
        assert main(["run", "--quiet", "--config", str(path)]) == Exit.FAILED_ROWS
    assert len((tmp_path / "outputs" / "runs" / "t.jsonl").read_text().splitlines()) == 6


def test_a_server_that_goes_away_costs_rows_and_not_the_run(tmp_path):
    """Once it has answered, it may come back: the rows fail after their retries, as those of any other fault."""
    running = ExitStack()
    server = running.enter_context(LoopbackServer([], answer=lambda body: "Sports"))
    request = Request("Hello", Decoding("d0", 0.0, 1.0, 8))

    async def ask():
        session = Session(load_suite(server_profile(tmp_path, server, items=4)))
        client = session.add("m")
        await client.ask(request)
        running.close()
        for lost in ("Server disconnected", "no connection to"):  # the open connection first, then a new one
            with pytest.raises(RetriesExhaustedError, match=lost):
                await client.ask(replace(request, prompt=lost))
        await session.aclose()

    asyncio.run(ask())


@pytest.mark.slow
def test_a_run_that_has_everything_needs_no_server(tmp_path, capsys):
    with LoopbackServer([], answer=lambda body: "Sports") as server:
        path = server_profile(tmp_path, server)
        assert main(["run", "--quiet", "--config", str(path)]) == Exit.DONE
    assert main(["run", "--quiet", "--config", str(path)]) == Exit.DONE


def test_a_budget_stops(tmp_path, capsys):
    path = write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0",), limits={"max_tokens_overall": 900})
    assert main(["run", "--quiet", "--config", str(path)]) == Exit.STOPPED
    assert "budget is used up" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["verifier-pass"], ["promptbench", "--no-tables", "--attacks", "reorder", "--tasks", "agnews_json"]],
)
def test_other_commands_that_write_rows(tmp_path, command, capsys):
    with LoopbackServer(answer=lambda body: "Sports") as server:
        path = server_profile(tmp_path, server)
        assert main(["run", "--quiet", "--config", str(path)]) == Exit.DONE
        server.faults.extend(["400"])
        more = ["--conditions", "C0"] if command[0] == "promptbench" else []
        assert main([*command, *more, "--quiet", "--no-cache", "--config", str(path)]) == Exit.FAILED_ROWS
    assert "1 failed" in capsys.readouterr().out


def test_an_interrupt(tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pcsuite.api.runs.run_suite", interrupted)
    assert main(["run", "--config", str(write_profile(tmp_path))]) == Exit.INTERRUPTED
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "some/file"),
            Exit.BAD_INPUT,
            "some/file: No space left on device (once that is mended, the same command goes on; finished work is kept)",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "some/file"),
            Exit.BAD_INPUT,
            "Permission denied",
        ),
        (
            duckdb.IOException(
                'IO Error: Async write failed for range [offset=1026, size=42278]: {"exception_type":"IO",'
                '"exception_message":"Could not write file \\"runs.csv\\": No space left on device","errno":"28"}'
            ),
            Exit.BAD_INPUT,
            'pcsuite: Could not write file "runs.csv": No space left on device (see to space',
        ),
        (MemoryError(), Exit.BAD_INPUT, "memory"),
        (ZeroDivisionError("by zero"), Exit.FAULT, "a fault of pcsuite"),
    ],
)
def test_what_nobody_foresaw_is_one_line_too(tmp_path, monkeypatch, capsys, error, status, shown):
    def broken(*arguments, **options):
        raise error

    monkeypatch.setattr("pcsuite.api.runs.run_suite", broken)
    path = str(write_profile(tmp_path))
    assert main(["run", "--config", path]) == status
    told = capsys.readouterr().err
    assert shown in told
    assert told.count("\n") == 1
    with pytest.raises(type(error)):
        main(["run", "--config", path, "--debug"])


# Control characters from elsewhere.

EVIL = "\x1b[2J\x1b]0;owned\x07\r\u202egnp\x9b31m"


def assert_harmless(text):
    assert not set(text) & {"\x1b", "\x07", "\r", "\u202e", "\x9b"}, repr(text)


def test_a_servers_words_do_not_act(tmp_path, capsys):
    class Evil(LoopbackServer):
        async def _respond(self, request, body):
            from aiohttp import web

            return web.json_response({"error": {"message": EVIL, EVIL: 1, "type": EVIL}}, status=400)

    with Evil() as server:
        path = server_profile(
            tmp_path, server, items=40, conditions=("C0", "C2"), limits={"stop_on_error_rate": 0.0}
        )
        assert main(["run", "--config", str(path)]) == Exit.STOPPED
    shown = capsys.readouterr()
    assert "\\x1b[2J" in shown.err
    assert_harmless(shown.out + shown.err)


def test_ids_and_answers_do_not_act(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("")
    assert main(["config", "check", f"no{EVIL}where.yaml"]) == Exit.BAD_INPUT
    assert main(["run", "--config", str(write_profile(tmp_path)), "--tasks", f"a{EVIL}"]) == Exit.BAD_INPUT
    assert (
        main(["run", "--config", str(write_profile(tmp_path)), "--set", f"run.name={EVIL!r}"])
        == Exit.BAD_INPUT
    )
    with LoopbackServer(answer=lambda body: EVIL) as server:
        models = f"version: '1.0'\nmodels:\n  evil: {{provider: openai, family: f, size: 1B, base_url: '{server.base_url}'}}\n"
        (tmp_path / "m.yaml").write_text(models)
        assert main(["models", "check", "evil", "--models-file", "m.yaml"]) == Exit.DONE
    shown = capsys.readouterr()
    assert_harmless(shown.out + shown.err)
    assert "owned" in shown.out + shown.err


def test_a_line_break_forges_no_second_line(capsys):
    assert main(["run", "--config", "x\npcsuite: all is well"]) == Exit.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1


def test_streams_are_given_back(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    main(["rnu"])
    assert sys.stderr is stream
