"""A key of ours turns up nowhere: not in rows, prompts, caches, manifests, tables or on the terminal."""

import base64
import json
from urllib.parse import quote

import pytest
import yaml
from aiohttp import web

import pcsuite as pcs
from pcsuite.cli import main
from pcsuite.errors import ConfigError, Exit
from support.loopback import LoopbackServer, completion
from support.profiles import write_profile

KEY = "sk-faults-0123456789abcdefXYZ+/="
IN_BODY = "tenant-Q7w8E9r0T1y2U3i4O5p6"
IN_PATH = "pAtH5eCr3tV4lu3W1th0utAnyPrefix"


def forms(secret):
    data = secret.encode()
    return [
        secret,
        quote(secret),
        quote(secret, safe=""),
        base64.b64encode(data).decode(),
        base64.b64encode(b"Bearer " + data).decode(),
        base64.b64encode(b"user:" + data).decode(),
        data.hex(),
    ]


class Echoing(LoopbackServer):
    """Sends every form of the key back, in errors (cut in its middle, too), answers and odd places."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    async def _serve(self):
        real = web.Application

        def with_path(*arguments, **options):
            app = real(*arguments, **options)
            app.router.add_post(f"/{IN_PATH}/v1/chat/completions", self._handle)
            return app

        web.Application = with_path
        try:
            await super()._serve()
        finally:
            web.Application = real

    async def _respond(self, request, body):
        told = [*forms(KEY), *forms(IN_BODY), *forms(IN_PATH)]
        number = len(self.bodies) % len(told)
        if self.mode == "answer":
            return web.json_response(completion(f"Sports {told[number]} {json.dumps(dict(request.headers))}"))
        pad = "x" * (290 - number)  # the cut at 300 characters falls into the secret
        message = f"{pad} {told[number]} {request.path} {dict(request.headers)}"
        return web.json_response({"error": {"message": message, told[number]: 1}}, status=400)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["answer", "error"])
def test_no_secret_anywhere(tmp_path, monkeypatch, capsys, mode):
    monkeypatch.setenv("PCS_FAULTS_KEY", KEY)
    with Echoing(mode) as server:
        model = {
            "provider": "openai",
            "family": "f",
            "size": "1B",
            "base_url": server.base_url.replace("/v1", f"/{IN_PATH}/v1"),
            "api_key_env": "PCS_FAULTS_KEY",
            "extra_body": {"api_key": IN_BODY, "metadata": {"token": IN_BODY}},
        }
        path = write_profile(
            tmp_path,
            {"m": model},
            conditions=("C0",),
            regimes=("D0",),
            items=24,
            limits={"max_items_per_task": 24, "stop_on_error_rate": 1.0, "retry": {"max_attempts": 1}},
        )
        status = main(["run", "--config", str(path)])
        assert status == (Exit.DONE if mode == "answer" else Exit.FAILED_ROWS)
        main(["models", "list", "--models-file", str(tmp_path / "models.yaml")])
        main(["models", "check", "m", "--models-file", str(tmp_path / "models.yaml")])
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert server.bodies[0]["api_key"] == IN_BODY
    if mode == "answer":
        main(["report", "--config", str(path)])
    shown = capsys.readouterr()
    found = {"terminal": shown.out + shown.err}
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "models.yaml":
            found[file.name] = file.read_bytes().decode("latin-1")
    assert len(found) >= 4
    for name, content in found.items():
        for secret in (KEY, IN_BODY, IN_PATH):
            for form in (*forms(secret), secret[3:15], secret[-14:-2]):
                assert form not in content, (name, form)
    assert "***" in found["t.jsonl"]


@pytest.mark.parametrize(
    "value",
    [
        KEY,
        "hf_AbCdEfGh0123456789",
        "AIzaSyD0123456789abcdef",
        "some key",
        "x" * 8 + "Q7w8E9r0T1y2U3i4",
        "Bearer abc",
    ],
)
def test_a_key_pasted_where_a_name_belongs(tmp_path, capsys, value):
    model = {
        "provider": "openai",
        "family": "f",
        "size": "1B",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": value,
    }
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"version": "1.0", "models": {"m": model}}))
    assert main(["models", "check", "m", "--models-file", str(tmp_path / "models.yaml")]) == Exit.BELOW_GATE
    path = write_profile(tmp_path, {"m": model}, items=1)
    assert main(["run", "--config", str(path)]) == Exit.BAD_INPUT
    assert main(["plan", "--config", str(path)]) == Exit.BAD_INPUT
    shown = capsys.readouterr()
    assert value not in shown.out + shown.err
    assert "name the environment variable" in shown.out + shown.err


def test_a_key_with_a_line_break_is_told_without_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PCS_FAULTS_KEY", "sk-first-half-01234\nX-Injected: 1")
    model = {
        "provider": "openai",
        "family": "f",
        "size": "1B",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": "PCS_FAULTS_KEY",
    }
    path = write_profile(tmp_path, {"m": model}, items=1)
    assert main(["run", "--config", str(path)]) == Exit.BAD_INPUT
    shown = capsys.readouterr().err
    assert "PCS_FAULTS_KEY has characters that no header can hold" in shown
    assert "first-half" not in shown


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        ("http://me:S3cretPassw0rd@127.0.0.1:9/v1", "S3cretPassw0rd"),
        ("http://me:pw/with@slash@127.0.0.1:9/v1", "with@slash"),
        ("http://127.0.0.1:9/v1?key=s3cret-in-query", "s3cret-in-query"),
        ("http://127.0.0.1:9/v1?api-version=1&sig=s3cret-in-query", "s3cret-in-query"),
        ("ftp://me:S3cretPassw0rd@127.0.0.1/v1", "S3cretPassw0rd"),
        ("me:S3cretPassw0rd@127.0.0.1:9/v1", "S3cretPassw0rd"),
        ("http://me:S3cretPassw0rd@bad host/v1", "S3cretPassw0rd"),
        ("http://me:S3cretPassw0rd@127.0.0.1:99999/v1", "S3cretPassw0rd"),
    ],
)
def test_a_password_in_the_address_is_refused_without_it(tmp_path, capsys, address, secret):
    model = {"provider": "openai", "family": "f", "size": "1B", "base_url": address}
    path = write_profile(tmp_path, {"m": model}, items=1)
    models = str(tmp_path / "models.yaml")
    assert main(["run", "--config", str(path)]) == Exit.BAD_INPUT
    assert main(["plan", "--config", str(path)]) in (Exit.BAD_INPUT, Exit.DONE)
    main(["models", "check", "m", "--models-file", models])
    main(["models", "list", "--models-file", models])
    main(["models", "list", "--models-file", models, "--json"])
    good = write_profile(tmp_path, items=1)
    main(["run", "--config", str(good), "--base-url", address])
    shown = capsys.readouterr()
    shown_words = "".join((shown.out + shown.err).split())  # a table breaks lines anywhere
    assert secret not in shown_words
    with pytest.raises(ConfigError) as refused:
        pcs.plan(profile=str(write_profile(tmp_path, {"m": model}, items=1)))
        pcs.run(profile=str(tmp_path / "profile.yaml"))
    assert secret not in str(refused.value)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name not in ("models.yaml", "profile.yaml"):
            assert secret not in file.read_text(errors="replace"), file
