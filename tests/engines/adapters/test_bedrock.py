"""Bedrock on loopback: a server that verifies signatures as AWS does, and botocore's own client beside ours."""

import asyncio
import json
from datetime import datetime, timedelta, timezone
from urllib.parse import unquote

import pytest
from aiohttp import web

from pcsuite.config.model_names import NamedModels, model_by_name
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.bedrock import BedrockAdapter, BedrockClaudeAdapter, ConverseOptions
from pcsuite.engines.session import build_adapter
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError
from support.threaded_server import ThreadedServer

auth = pytest.importorskip("botocore.auth")
from botocore.awsrequest import AWSRequest  # noqa: E402
from botocore.credentials import Credentials  # noqa: E402
from botocore.session import Session  # noqa: E402

NOVA = "us.amazon.nova-lite-v1:0"
PROFILE_ARN = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3"
SECRETS = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
GREEDY, SAMPLED = Decoding("D0", 0.0, 1.0, 64), Decoding("D1", 0.7, 0.9, 64)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED = Request("Capital of France?", SAMPLED, 3)


class SigningServer(ThreadedServer):
    """Answers requests whose SigV4 signature holds for the secret of its key, the date of today and the body as it came."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets = dict(SECRETS)
        self.tokens: dict[str, str] = {}
        self.bearer = ""
        self.region = "eu-west-1"
        self.replies: list[tuple[int, dict, str]] = []
        self.seen: list[tuple[str, dict, dict]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.seen.append((request.raw_path, dict(request.headers), json.loads(body)))
        refusal = self._refusal(request, body)
        if refusal:
            headers = {"x-amzn-ErrorType": refusal}
            return web.json_response({"message": f"refused: {refusal}"}, status=403, headers=headers)
        if self.replies:
            status, answer, kind = self.replies.pop(0)
            headers = {"x-amzn-ErrorType": f"{kind}:http://internal.amazon.com/"} if kind else {}
            return web.json_response(answer, status=status, headers=headers)
        if request.path.endswith("/invoke"):
            content = [{"type": "text", "text": "Paris"}]
            usage = {"input_tokens": 9, "output_tokens": 2}
            return web.json_response({"content": content, "stop_reason": "end_turn", "usage": usage})
        return web.json_response(converse_answer({"text": "Paris"}))

    def _refusal(self, request: web.Request, body: bytes) -> str:
        sent = request.headers.get("Authorization", "")
        if self.bearer:
            return "" if sent == f"Bearer {self.bearer}" else "AccessDeniedException"
        if not sent.startswith("AWS4-HMAC-SHA256 "):
            return "MissingAuthenticationToken"
        parts = dict(part.strip().split("=", 1) for part in sent.partition(" ")[2].split(","))
        key, day, region, service, _ = parts["Credential"].split("/")
        moment = request.headers["X-Amz-Date"]
        age = datetime.now(timezone.utc) - datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(
            tzinfo=timezone.utc
        )
        if key not in self.secrets or (region, service) != (self.region, "bedrock"):
            return "UnrecognizedClientException"
        if abs(age) > timedelta(minutes=5) or not moment.startswith(day):
            return "InvalidSignatureException"
        token = request.headers.get("X-Amz-Security-Token")
        if token != self.tokens.get(key):
            return "ExpiredTokenException"
        signed = parts["SignedHeaders"].split(";")
        if not {"host", "x-amz-date", "content-type"} <= set(signed) or (
            token and "x-amz-security-token" not in signed
        ):
            return "InvalidSignatureException"
        headers = {name: request.headers[name] for name in signed if name != "host"}
        again = AWSRequest("POST", f"http://{request.host}{request.raw_path}", headers=headers, data=body)
        again.context["timestamp"] = moment
        signer = auth.SigV4Auth(Credentials(key, self.secrets[key], token), "bedrock", region)
        signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
        return "" if signature == parts["Signature"] else "InvalidSignatureException"


def converse_answer(*blocks, stop="end_turn", **usage):
    counts = {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11, **usage}
    message = {"role": "assistant", "content": list(blocks)}
    return {"output": {"message": message}, "stopReason": stop, "usage": counts, "metrics": {"latencyMs": 7}}


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRETS["AKIDEXAMPLE"],
        "AWS_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    with SigningServer() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.origin)
        yield server


def named(model, **options):
    name = f"bedrock/{model}"
    return build_adapter(name, NamedModels({}, {"*": options})[name])


@pytest.mark.parametrize("model", [NOVA, PROFILE_ARN, "anthropic.claude-3-haiku-20240307-v1:0"])
def test_a_signed_request_is_let_in_whatever_the_models_id_holds(server, model):
    adapter = named(model)
    answer = adapter.generate("Capital of France? \N{SNOWMAN} \ud800", SAMPLED, 0)
    assert answer["text"] == "Paris"
    assert answer["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    ((path, headers, _),) = server.seen
    assert unquote(path) == f"/model/{model}/converse"
    assert path.count("/") == 3, "slashes of an id are encoded"
    assert SECRETS["AKIDEXAMPLE"] not in str(headers)


@pytest.mark.slow
def test_a_request_is_the_one_that_botocores_own_client_sends(server):
    adapter = named(NOVA)
    schema = Constraint("json_schema", json.dumps(SCHEMA))
    asked = [ASKED, Request("Which?", GREEDY, 0, schema)]
    for request in asked:
        adapter._blocking(request)
    client = Session().create_client("bedrock-runtime", "eu-west-1", endpoint_url=server.origin)
    for request in asked:
        client.converse(modelId=NOVA, **adapter.wire(request).body)
    assert len(server.seen) == 4
    for (path, headers, body), (their_path, their_headers, their_body) in zip(
        server.seen[:2], server.seen[2:], strict=True
    ):
        assert (path, body) == (their_path, their_body)
        for name in ("Content-Type",):
            assert headers[name] == their_headers[name]
        scope = [
            each["Authorization"].partition("Credential=")[2].partition(",")[0]
            for each in (headers, their_headers)
        ]
        assert scope[0] == scope[1]


def test_a_wrong_secret_another_region_and_no_right_are_one_clear_line_each(server, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-0123456789")
    with pytest.raises(EngineError, match="HTTP 403: refused: InvalidSignatureException") as caught:
        named(NOVA).generate("Hi", GREEDY, 0)
    assert caught.value.refuses_all
    assert "AWS credentials" in caught.value.hint
    assert "another-secret" not in str(caught.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["AKIDEXAMPLE"])
    with pytest.raises(EngineError, match="UnrecognizedClientException"):
        named(NOVA, region="us-west-2").generate("Hi", GREEDY, 0)
    assert named(NOVA).generate("Hi", GREEDY, 0)["text"] == "Paris"


def test_an_expired_session_is_told_with_the_remedy(server, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token-0123456789")
    with pytest.raises(EngineError, match="ExpiredTokenException") as caught:
        named(NOVA).generate("Hi", GREEDY, 0)
    assert caught.value.hint == "the AWS credentials have expired: aws sso login, or renew them"
    server.tokens["AKIDEXAMPLE"] = "session-token-0123456789"
    assert named(NOVA).generate("Hi", GREEDY, 0)["text"] == "Paris"


@pytest.mark.subprocess
def test_credentials_of_a_process_are_renewed_before_they_end(server, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    script = tmp_path / "print.sh"
    soon = (datetime.now(timezone.utc) + timedelta(seconds=30)).isoformat()
    script.write_text(
        f'n=$(cat "{tmp_path}/n" 2>/dev/null || echo 0); n=$((n+1)); echo $n > "{tmp_path}/n"\n'
        f'echo "{{\\"Version\\": 1, \\"AccessKeyId\\": \\"AKID$n\\", \\"SecretAccessKey\\": \\"secret-$n-0123456789\\",'
        f' \\"SessionToken\\": \\"session-$n-0123456789\\", \\"Expiration\\": \\"{soon}\\"}}"\n'
    )
    (tmp_path / "config").write_text(f"[profile lab]\ncredential_process = sh {script}\n")
    for number in range(1, 9):
        server.secrets[f"AKID{number}"] = f"secret-{number}-0123456789"
        server.tokens[f"AKID{number}"] = f"session-{number}-0123456789"
    adapter = named(NOVA, aws_profile="lab")

    async def twice():
        answers = [await adapter.agenerate(ASKED) for _ in range(2)]
        await adapter.aclose()
        return answers

    assert [answer["text"] for answer in asyncio.run(twice())] == ["Paris"] * 2
    keys = [
        headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        for _, headers, _ in server.seen
    ]
    assert keys[0] != keys[1], "what ends within minutes is renewed for the next call"


def test_a_bedrock_key_is_a_bearers_and_nothing_is_signed(server, monkeypatch):
    server.bearer = "bedrock-key-0123456789"
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", server.bearer)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert named(NOVA).generate("Hi", GREEDY, 0)["text"] == "Paris"
    assert "X-Amz-Date" not in server.seen[0][1]


def test_without_credentials_or_region_the_line_says_what_to_set(server, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match="no AWS credentials are found.*aws configure"):
        named(NOVA)
    with pytest.raises(ConfigError, match="no AWS credentials: .*no-such-profile"):
        named(NOVA, aws_profile="no-such-profile")
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME")
    with pytest.raises(ConfigError, match="the AWS region must be known: set AWS_REGION"):
        named(NOVA)
    for region in ("eu west", "evil.example/", "x@y", "-a"):
        with pytest.raises(ConfigError, match="region: a part of a host's name is needed"):
            named(NOVA, region=region)


def test_nothing_is_signed_for_an_address_of_ones_own(server):
    adapter = named(NOVA, base_url=server.origin + "/proxy")
    with pytest.raises(EngineError, match="MissingAuthenticationToken"):
        adapter.generate("Hi", GREEDY, 0)
    signed = named(NOVA, base_url=server.origin + "/proxy", credentials="aws")
    assert signed.generate("Hi", GREEDY, 0)["text"] == "Paris"


def test_claude_can_be_asked_by_anthropics_messages(server):
    adapter = named("anthropic.claude-3-haiku-20240307-v1:0", wire="bedrock-anthropic")
    assert isinstance(adapter, BedrockClaudeAdapter)
    assert adapter.batches() is None
    assert adapter.generate("Hi", GREEDY, 0)["text"] == "Paris"
    ((path, headers, body),) = server.seen
    assert path.endswith("/invoke")
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert "model" not in body
    assert "x-api-key" not in {name.casefold() for name in headers}


@pytest.mark.slow
def test_claude_is_asked_as_the_vendors_client_asks(server, monkeypatch):
    anthropic = pytest.importorskip("anthropic")
    server.bearer = "bedrock-key-0123456789"
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", server.bearer)
    model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    ours = named(model, wire="bedrock-anthropic", omit=["temperature", "top_p"])
    ours.generate("Capital of France?", SAMPLED, 3)
    sent = {name: value for name, value in ours.wire(ASKED).body.items() if name != "anthropic_version"}
    with anthropic.AnthropicBedrock(
        api_key=server.bearer, aws_region="eu-west-1", base_url=server.origin, max_retries=0
    ) as client:
        assert client.messages.create(model=model, **sent).content[0].text == "Paris"
    (path, headers, body), (their_path, their_headers, their_body) = server.seen
    # The newest version takes no temperature, which is why the one before is spoken here.
    assert (body.pop("anthropic_version"), their_body.pop("anthropic_version")) == (
        "bedrock-2023-05-31",
        "2026-10-21",
    )
    assert (unquote(path), body) == (unquote(their_path), their_body)
    assert headers["Authorization"] == their_headers["Authorization"]


@pytest.mark.parametrize(
    ("status", "kind", "retryable", "refuses_all"),
    [
        (429, "ThrottlingException", True, False),
        (424, "ModelErrorException", True, False),
        (408, "ModelTimeoutException", True, False),
        (503, "ServiceUnavailableException", True, False),
        (400, "ValidationException", False, False),
        (403, "AccessDeniedException", False, True),
        (404, "ResourceNotFoundException", False, True),
    ],
)
def test_the_services_errors_have_their_kind(server, status, kind, retryable, refuses_all):
    server.replies = [(status, {"message": "why not"}, kind)]
    with pytest.raises(EngineError, match=f"HTTP {status}: why not") as caught:
        named(NOVA).generate("Hi", GREEDY, 0)
    assert (caught.value.retryable, caught.value.refuses_all) == (retryable, refuses_all)


def converse(**options) -> BedrockAdapter:
    return BedrockAdapter("m", ConverseOptions(base_url="http://127.0.0.1:9", model="m", **options))


def test_what_is_sent_follows_decoding_and_omitted_fields():
    assert converse().wire(ASKED).body["inferenceConfig"] == {
        "maxTokens": 64,
        "temperature": 0.7,
        "topP": 0.9,
    }
    greedy = Request("Hi", GREEDY)
    assert converse().wire(greedy).body["inferenceConfig"] == {"maxTokens": 64, "temperature": 0.0}
    assert converse(omit=("temperature", "top_p")).wire(ASKED).body["inferenceConfig"] == {"maxTokens": 64}
    assert converse(system_prompt="Be brief.").wire(greedy).body["system"] == [{"text": "Be brief."}]
    shared = Request("Rules. Input: x", GREEDY, shared_chars=14)
    (message,) = converse(cache_prefix=True).wire(shared).body["messages"]
    assert message["content"] == [
        {"text": "Rules. Input: "},
        {"cachePoint": {"type": "default"}},
        {"text": "x"},
    ]
    (answer,) = converse(cache_prefix=True).read_answer(shared, "", converse_answer({"text": "y"}))
    assert answer["prompt_cut"] == 14


def test_a_schema_is_a_forced_tool_or_the_outputs_format():
    asked = Request("Hi", GREEDY, constraint=Constraint("json_schema", json.dumps(SCHEMA)))
    tool = converse(structured="tool").wire(asked).body["toolConfig"]
    assert tool["toolChoice"] == {"tool": {"name": "answer"}}
    assert tool["tools"][0]["toolSpec"]["inputSchema"] == {"json": SCHEMA}
    layout = converse(structured="output_format").wire(asked).body["outputConfig"]["textFormat"]
    assert json.loads(layout["structure"]["jsonSchema"]["schema"]) == SCHEMA
    for options, constraint in (
        ({"structured": "none"}, asked.constraint),
        ({}, Constraint("regex", "a+")),
        ({}, Constraint("json_schema", '{"type": "array"}')),
    ):
        with pytest.raises(ConstraintUnavailableError):
            converse(**options).wire(Request("Hi", GREEDY, constraint=constraint))


@pytest.mark.parametrize(
    ("answer", "text", "finish"),
    [
        (converse_answer({"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"text": "Par"}, {"text": "is"}), "Paris", "stop"),
        (converse_answer({"toolUse": {"toolUseId": "t", "name": "answer", "input": {"city": "Köln"}}}, stop="tool_use"), '{"city": "Köln"}', "stop"),
        (converse_answer({"text": "Par"}, stop="max_tokens"), "Par", "length"),
        (converse_answer({"text": "Sorry"}, stop="guardrail_intervened"), "Sorry", "content_filter"),
        (converse_answer(stop="content_filtered"), "", "content_filter"),
    ],
)  # fmt: skip
def test_answers_are_read(answer, text, finish):
    (generation,) = converse().read_answer(ASKED, "/model/m/converse", answer)
    assert (generation["text"], generation["finish_reason"]) == (text, finish)


def test_cached_tokens_count_as_part_of_the_prompt():
    answer = converse_answer(
        {"text": "x"}, cacheReadInputTokens=80, cacheWriteInputTokens=11, totalTokens=102
    )
    (generation,) = converse().read_answer(ASKED, "", answer)
    assert generation["usage"] == {
        "prompt_tokens": 100, "completion_tokens": 2, "total_tokens": 102, "cached_tokens": 80,
    }  # fmt: skip


@pytest.mark.parametrize(
    "answer", [{}, {"output": {}}, {"output": {"message": {"content": [3]}}}, converse_answer({"text": 3})]
)
def test_an_answer_that_lacks_something_is_retryable(answer):
    with pytest.raises(EngineError) as caught:
        converse().read_answer(ASKED, "", answer)
    assert caught.value.retryable


@pytest.mark.parametrize("usage", ["x", ["failed"], 3, None, {"inputTokens": "9"}])
def test_counts_that_cannot_be_true_are_no_measurement(usage):
    (generation,) = converse().read_answer(ASKED, "", {**converse_answer({"text": "Paris"}), "usage": usage})
    assert (generation["text"], generation["usage_reported"]) == ("Paris", False)


def test_claudes_names_say_what_a_model_takes(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    omitted = {}
    for name in ("claude-3-5-sonnet-20240620-v1:0", "claude-3-7-sonnet-20250219-v1:0", "claude-sonnet-4-20250514-v1:0",
                 "claude-sonnet-4-5-20250929-v1:0", "claude-opus-4-8", "claude-sonnet-5"):  # fmt: skip
        spec = model_by_name(f"bedrock/us.anthropic.{name}")
        assert spec is not None
        omitted[name] = spec.provider_options().get("omit")
    assert list(omitted.values()) == [
        None, None, None, ["top_p"], ["temperature", "top_p"], ["temperature", "top_p"],
    ]  # fmt: skip
