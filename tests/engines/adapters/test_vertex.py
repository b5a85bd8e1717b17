"""Vertex on loopback: google-auth signs for a service account, the server checks the assertion and its own tokens."""

import asyncio
import json

import pytest
from aiohttp import web

from pcsuite._util.secrets import redact
from pcsuite.config.model_names import NamedModels
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.vertex import VertexClaudeAdapter, VertexGeminiAdapter, VertexOpenAIAdapter
from pcsuite.engines.session import build_adapter
from pcsuite.errors import ConfigError, EngineError
from support.threaded_server import ThreadedServer

jwt = pytest.importorskip("google.auth.jwt")
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: E402

GREEDY = Decoding("D0", 0.0, 1.0, 64)
ASKED = Request("Capital of France?", GREEDY, 3)
ACCOUNT = "pcsuite@a-project.iam.gserviceaccount.com"
GEMINI, CLAUDE, LLAMA = "gemini-2.5-flash", "claude-sonnet-4-5@20250929", "meta/llama-3.3-70b-instruct-maas"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class VertexServer(ThreadedServer):
    """Gives a service account tokens that hold for ``lifetime_s``, and answers who has the newest."""

    def __init__(self, public_key: bytes, lifetime_s: int = 3600) -> None:
        super().__init__()
        self.public_key, self.lifetime_s = public_key, lifetime_s
        self.given: list[str] = []
        self.seen: list[tuple[str, dict, dict]] = []
        self.refusals = 0
        self.broken = False

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/token", self._token)
        app.router.add_post("/{path:.*}", self._answer)
        return app

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self.broken:
            error = {"error": "invalid_grant", "error_description": "Invalid JWT: account disabled"}
            return web.json_response(error, status=400)
        claims = jwt.decode(
            str(form["assertion"]), certs=self.public_key, audience="https://oauth2.googleapis.com/token"
        )
        assert claims["iss"] == ACCOUNT
        assert "https://www.googleapis.com/auth/cloud-platform" in claims["scope"]
        self.given.append(f"ya29.token-{len(self.given)}-0123456789abcdef")
        return web.json_response(
            {"access_token": self.given[-1], "expires_in": self.lifetime_s, "token_type": "Bearer"}
        )

    async def _answer(self, request: web.Request) -> web.Response:
        self.seen.append((request.raw_path, dict(request.headers), await request.json()))
        if not self.given or request.headers.get("Authorization") != f"Bearer {self.given[-1]}":
            self.refusals += 1
            error = {
                "code": 401,
                "message": f"invalid: {request.headers.get('Authorization')}",
                "status": "UNAUTHENTICATED",
            }
            return web.json_response({"error": error}, status=401)
        if request.path.endswith(":generateContent"):
            content = {"role": "model", "parts": [{"text": "Paris"}]}
            usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
            return web.json_response(
                {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
            )
        if request.path.endswith(":rawPredict"):
            usage = {"input_tokens": 9, "output_tokens": 2}
            return web.json_response(
                {"content": [{"type": "text", "text": "Paris"}], "stop_reason": "end_turn", "usage": usage}
            )
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        return web.json_response(
            {"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}], "usage": usage}
        )


@pytest.fixture
def server(key, monkeypatch, tmp_path):
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for name in (
        "GOOGLE_CLOUD_PROJECT",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "CLOUD_ML_REGION",
        "GOOGLE_CLOUD_LOCATION",
    ):
        monkeypatch.delenv(name, raising=False)
    with VertexServer(public) as server:
        account = {
            "type": "service_account", "project_id": "a-project", "private_key_id": "k1", "private_key": private.decode(),
            "client_email": ACCOUNT, "client_id": "1", "token_uri": f"{server.origin}/token",
        }  # fmt: skip
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", f"{server.origin}/v1")
        yield server


def named(model, **options):
    name = f"vertex/{model}"
    return build_adapter(name, NamedModels({}, {"*": options})[name])


@pytest.mark.parametrize(
    ("model", "kind", "path"),
    [
        (GEMINI, VertexGeminiAdapter, f"/publishers/google/models/{GEMINI}:generateContent"),
        (CLAUDE, VertexClaudeAdapter, f"/publishers/anthropic/models/{CLAUDE}:rawPredict"),
        (LLAMA, VertexOpenAIAdapter, "/endpoints/openapi/chat/completions"),
    ],
)
def test_each_kind_of_model_is_asked_by_its_own_wire_with_a_google_token(server, model, kind, path):
    adapter = named(model, location="us-east5")
    assert type(adapter) is kind
    assert adapter.batches() is None
    answer = adapter.generate("Capital of France?", GREEDY, 0)
    assert (answer["text"], answer["usage"]["total_tokens"]) == ("Paris", 11)
    ((seen, _, body),) = server.seen
    assert seen == f"/v1/projects/a-project/locations/us-east5{path}"
    assert body.get("model") == (LLAMA if model == LLAMA else None)
    assert adapter.identity()["location"] == "us-east5"


@pytest.mark.slow
def test_claude_is_asked_as_the_vendors_client_asks(server):
    anthropic = pytest.importorskip("anthropic")
    ours = named(CLAUDE, location="us-east5", omit=["temperature", "top_p"])
    ours.generate("Capital of France?", GREEDY, 0)
    sent = {name: value for name, value in ours.wire(ASKED).body.items() if name != "anthropic_version"}
    with anthropic.AnthropicVertex(
        project_id="a-project",
        region="us-east5",
        access_token=server.given[-1],
        base_url=f"{server.origin}/v1",
        max_retries=0,
    ) as client:
        theirs = client.messages.create(model=CLAUDE, **sent)
    assert theirs.content[0].text == "Paris"
    (path, headers, body), (their_path, their_headers, their_body) = server.seen
    # The newest version takes no temperature, which is why the one before is spoken here.
    assert (body.pop("anthropic_version"), their_body.pop("anthropic_version")) == (
        "vertex-2023-10-16",
        "2026-10-21",
    )
    assert (path, body) == (their_path, their_body)
    assert headers["Authorization"] == their_headers["Authorization"]


@pytest.mark.slow
def test_gemini_is_asked_as_the_vendors_client_asks(server):
    genai = pytest.importorskip("google.genai")
    credentials = pytest.importorskip("google.oauth2.credentials")
    ours = named("gemini-2.5-pro", location="europe-west4", seed_supported=True)
    ours._blocking(ASKED)
    client = genai.Client(
        vertexai=True,
        project="a-project",
        location="europe-west4",
        credentials=credentials.Credentials(server.given[-1]),
        http_options={"base_url": server.origin, "api_version": "v1"},
    )
    config = {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 64, "seed": 3}
    theirs = client.models.generate_content(model="gemini-2.5-pro", contents=ASKED.prompt, config=config)
    assert theirs.text == "Paris"
    (path, headers, body), (their_path, their_headers, their_body) = server.seen
    assert (path, body) == (their_path, their_body)
    assert headers["Authorization"] == their_headers.get("Authorization", their_headers.get("authorization"))


def test_many_calls_share_one_token_which_is_renewed_when_it_ends(server):
    adapter = named(GEMINI)

    async def ask(count):
        try:
            return await asyncio.gather(*(adapter.agenerate(ASKED) for _ in range(count)))
        finally:
            await adapter.aclose()

    assert len(asyncio.run(ask(10))) == 10
    assert len(server.given) == 1
    credentials = adapter.credentials._credentials
    credentials.expiry = credentials.expiry.replace(year=2020)
    asyncio.run(ask(10))
    assert (len(server.given), server.refusals) == (2, 0)


def test_a_token_that_is_revoked_is_replaced_after_the_refusal(server):
    adapter = named(GEMINI)
    adapter.generate("Hi", GREEDY, 0)
    server.given.append("ya29.somebody-else-0123456789")
    assert adapter.generate("Hi", GREEDY, 0)["text"] == "Paris"
    assert server.refusals == 1


def test_an_account_that_gets_no_token_is_one_clear_line_without_secrets(server):
    server.broken = True
    with pytest.raises(EngineError, match="Google gives no token: .*account disabled") as caught:
        named(GEMINI).generate("Hi", GREEDY, 0)
    assert caught.value.refuses_all
    assert "PRIVATE KEY" not in str(caught.value)


def test_tokens_are_known_as_secrets(server):
    named(GEMINI).generate("Hi", GREEDY, 0)
    assert redact(f"echo {server.given[-1]}", guess=False) == "echo ***"


def test_without_credentials_or_project_the_line_says_what_to_do(server, monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    with pytest.raises(ConfigError, match="no Google credentials: .*gcloud auth application-default login"):
        named(GEMINI)
    with pytest.raises(ConfigError, match="project must be known.*GOOGLE_CLOUD_PROJECT"):
        named(GEMINI, api_key_command="echo token")


@pytest.mark.subprocess
def test_a_command_gives_the_token_without_google_auth(server, tmp_path):
    (tmp_path / "token").write_text("ya29.by-command-0123456789")
    server.given.append("ya29.by-command-0123456789")
    adapter = named(CLAUDE, api_key_command=f"cat {tmp_path / 'token'}", project="another-project")
    assert adapter.generate("Hi", GREEDY, 0)["text"] == "Paris"
    assert server.seen[0][0].startswith("/v1/projects/another-project/locations/global/")


def test_a_token_in_a_variable_that_the_entry_names_goes_before_google_auth(server, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "ya29.by-variable-0123456789")
    server.given.append("ya29.by-variable-0123456789")
    adapter = named(GEMINI, api_key_env="MY_TOKEN", project="p")
    assert adapter.generate("Hi", GREEDY, 0)["text"] == "Paris"


def test_no_google_token_goes_to_an_address_of_ones_own(server):
    adapter = named(GEMINI, base_url=f"{server.origin}/proxy", project="p")
    assert adapter.credentials is None
    with pytest.raises(EngineError, match="HTTP 401"):
        adapter.generate("Hi", GREEDY, 0)
    assert "Authorization" not in server.seen[0][1]


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_the_location_names_the_host(server, monkeypatch, location, host):
    monkeypatch.delenv("GOOGLE_VERTEX_BASE_URL")
    if location:
        monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)
    assert (
        named(GEMINI).url("/x") == f"https://{host}/v1/projects/a-project/locations/{location or 'global'}/x"
    )


@pytest.mark.parametrize("location", ["evil.example/x", "a b", "x#", "../.."])
def test_a_location_cannot_name_another_host(server, monkeypatch, location):
    monkeypatch.delenv("GOOGLE_VERTEX_BASE_URL")
    with pytest.raises(ConfigError, match="part of a host's name"):
        named(GEMINI, location=location)


def test_constraints_are_those_of_the_wire(server):
    constraint = Constraint("json_schema", json.dumps(SCHEMA))
    request = Request("Hi", GREEDY, 0, constraint)
    assert named(GEMINI).wire(request).body["generationConfig"]["responseJsonSchema"] == SCHEMA
    assert named(CLAUDE).wire(request).body["output_config"]["format"]["schema"] == SCHEMA
