"""Azure in its classic form and as ``v1``: addresses, headers, tokens of Entra, batches; the client of ``openai`` beside ours."""

import asyncio
import json

import pytest
from aiohttp import web

from pcsuite.config.model_names import NamedModels
from pcsuite.engines.adapters import azure_openai
from pcsuite.engines.adapters.azure_openai import AzureAdapter, AzureOptions, AzureResponsesAdapter
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.batches import read_result
from pcsuite.engines.session import build_adapter
from pcsuite.errors import ConfigError, EngineError
from support.loopback import completion
from support.threaded_server import ThreadedServer

KEY, TOKEN = "azure-key-0123456789abcdef", "eyJ.entra-token-0123456789"
GREEDY = Decoding("D0", 0.0, 1.0, 64)


class AzureServer(ThreadedServer):
    """A resource with one deployment; it wants a version in the query or the path, and a key or a token in its header."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str], dict[str, str], bytes]] = []
        self.files: dict[str, list[dict]] = {}
        self.looks = 0
        self.state = "processed"

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.Response:
        content = b"" if request.content_type == "multipart/form-data" else await request.read()
        self.seen.append((request.path, dict(request.query), dict(request.headers), content))
        v1 = request.path.startswith("/openai/v1/")
        if not v1 and not request.query.get("api-version"):
            return web.json_response({"error": {"code": "404", "message": "Resource not found"}}, status=404)
        key, bearer = request.headers.get("api-key"), request.headers.get("Authorization")
        if (key is not None and bearer is not None) or (key != KEY and bearer != f"Bearer {TOKEN}"):
            message = "Access denied due to invalid subscription key or wrong API endpoint."
            return web.json_response({"error": {"code": "401", "message": message}}, status=401)
        path = request.path.removeprefix("/openai/v1" if v1 else "/openai")
        if path.endswith("/chat/completions"):
            if not v1 and path != "/deployments/my-deployment/chat/completions":
                error = {
                    "code": "DeploymentNotFound",
                    "message": "The API deployment for this resource does not exist.",
                }
                return web.json_response({"error": error}, status=404)
            return web.json_response(completion("Paris"))
        if path == "/responses":
            content_parts = [{"type": "output_text", "text": "Paris", "annotations": []}]
            output = [{"type": "message", "role": "assistant", "content": content_parts}]
            return web.json_response({"status": "completed", "output": output, "usage": None})
        return await self._batch(request, path)

    async def _batch(self, request: web.Request, path: str) -> web.Response:
        if path == "/files":
            form = await request.post()
            lines = [json.loads(line) for line in form["file"].file.read().splitlines()]
            self.files["file-1"] = lines
            return web.json_response({"id": "file-1", "status": "pending"})
        if path == "/files/file-1":
            self.looks += 1
            return web.json_response({"id": "file-1", "status": "pending" if self.looks < 3 else self.state})
        if path == "/batches" and request.method == "POST":
            assert self.looks >= 3, "the file is not processed yet"
            body = await request.json()
            assert all(line["url"] == body["endpoint"] for line in self.files["file-1"])
            self.endpoint = body["endpoint"]
            return web.json_response({"id": "batch_1", "status": "validating"})
        if path == "/batches":
            return web.json_response(
                {"data": [{"id": "batch_1", "metadata": {"pcsuite": "tok"}}], "has_more": False}
            )
        if path == "/batches/batch_1":
            counts = {"total": 1, "completed": 1, "failed": 0}
            return web.json_response(
                {"id": "batch_1", "status": "completed", "output_file_id": "file-2", "request_counts": counts}
            )
        assert path == "/files/file-2/content", path
        (line,) = self.files["file-1"]
        assert line["body"]["model"] == "my-deployment"
        response = {"status_code": 200, "body": completion("Paris")}
        return web.json_response({"custom_id": line["custom_id"], "response": response, "error": None})


@pytest.fixture
def server(monkeypatch):
    for name in ("OPENAI_API_VERSION", "AZURE_RESOURCE_NAME"):
        monkeypatch.delenv(name, raising=False)
    with AzureServer() as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{server.origin}/")
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
        yield server


def named(model="my-deployment", **options):
    name = f"azure/{model}"
    return build_adapter(name, NamedModels({}, {"*": options})[name])


@pytest.mark.slow
def test_the_classic_form_has_deployment_version_and_key_where_the_vendors_client_has_them(server):
    openai = pytest.importorskip("openai")
    ours = named()
    assert ours.generate("Hi", GREEDY, 0)["text"] == "Paris"
    with openai.AzureOpenAI(
        azure_endpoint=server.origin, api_key=KEY, api_version="2024-10-21", max_retries=0
    ) as client:
        client.chat.completions.create(**ours.wire(Request("Hi", GREEDY)).body)
    (path, query, headers, body), (their_path, their_query, their_headers, their_body) = server.seen
    assert (path, query) == (their_path, their_query)
    assert json.loads(body) == json.loads(their_body)
    assert headers["api-key"] == their_headers["api-key"] == KEY
    assert "Authorization" not in headers


@pytest.mark.subprocess
def test_a_token_of_entra_is_a_bearers_as_the_vendors_client_sends_it(server, tmp_path):
    openai = pytest.importorskip("openai")
    printed = {"accessToken": TOKEN, "expires_on": 4_000_000_000, "tokenType": "Bearer"}
    (tmp_path / "az.json").write_text(json.dumps(printed))
    ours = named(api_key_command=f"cat {tmp_path / 'az.json'}")
    assert ours.generate("Hi", GREEDY, 0)["text"] == "Paris"
    with openai.AzureOpenAI(
        azure_endpoint=server.origin, azure_ad_token=TOKEN, api_version="2024-10-21", max_retries=0
    ) as client:
        client.chat.completions.create(**ours.wire(Request("Hi", GREEDY)).body)
    assert server.seen[0][2]["Authorization"] == server.seen[1][2]["Authorization"] == f"Bearer {TOKEN}"
    assert "api-key" not in server.seen[0][2]


@pytest.mark.subprocess
def test_a_key_that_a_command_prints_and_a_token_in_a_variable_say_which_header(
    server, monkeypatch, tmp_path
):
    (tmp_path / "key").write_text(KEY)
    command = f"cat {tmp_path / 'key'}"
    with pytest.raises(EngineError, match="HTTP 401") as caught:
        named(api_key_command=command).generate("Hi", GREEDY, 0)
    assert KEY not in str(caught.value)
    assert named(api_key_command=command, key_header="api-key").generate("Hi", GREEDY, 0)["text"] == "Paris"
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", TOKEN)
    bearer = named(api_key_env="AZURE_OPENAI_AD_TOKEN", key_header="bearer")
    assert bearer.generate("Hi", GREEDY, 0)["text"] == "Paris"


def test_v1_has_no_version_and_the_model_in_the_body(server):
    assert named(api_version="v1").generate("Hi", GREEDY, 0)["text"] == "Paris"
    path, query, _, body = server.seen[0]
    assert (path, query) == ("/openai/v1/chat/completions", {})
    assert json.loads(body)["model"] == "my-deployment"


def test_models_of_the_responses_api_are_asked_by_it(server):
    adapter = named("gpt-5-pro")
    assert isinstance(adapter, AzureResponsesAdapter)
    assert adapter.generate("Hi", GREEDY, 0)["text"] == "Paris"
    dated = named("my-codex", api_version="2025-04-01-preview")
    dated.generate("Hi", GREEDY, 0)
    assert [(path, query) for path, query, _, _ in server.seen] == [
        ("/openai/v1/responses", {}),
        ("/openai/responses", {"api-version": "2025-04-01-preview"}),
    ]


@pytest.mark.parametrize(
    ("pasted", "address"),
    [
        ("https://r.openai.azure.com/", "https://r.openai.azure.com/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"),
        ("https://r.openai.azure.com/openai", "https://r.openai.azure.com/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"),
        ("https://r.openai.azure.com/openai/deployments/other/chat/completions?api-version=2025-01-01-preview", "https://r.openai.azure.com/openai/deployments/my-deployment/chat/completions?api-version=2025-01-01-preview"),
        ("https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1/chat/completions"),
        ("https://gateway.example/team/openai?api-version=2024-06-01", "https://gateway.example/team/openai/deployments/my-deployment/chat/completions?api-version=2024-06-01"),
        ("https://gateway.example/openaiish", "https://gateway.example/openaiish/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"),
    ],
)  # fmt: skip
def test_an_address_may_be_pasted_as_the_portal_shows_it(server, monkeypatch, pasted, address):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", pasted)
    assert named().url("/chat/completions") == address


def test_what_an_address_lacks_or_has_too_much_of_is_told(server, monkeypatch):
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT")
    with pytest.raises(ConfigError, match="set AZURE_OPENAI_ENDPOINT, or resource=NAME"):
        named()
    assert named(resource="mine").url("/chat/completions").startswith("https://mine.openai.azure.com/openai/")
    monkeypatch.setenv(
        "AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/?api-version=2024-10-21&key=abcdefgh12345"
    )
    with pytest.raises(ConfigError, match="no credentials or query in the address") as caught:
        named()
    assert "abcdefgh12345" not in str(caught.value)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/")
    with pytest.raises(ConfigError, match="api_version"):
        named(api_version="latest")
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="AZURE_OPENAI_API_KEY is not set"):
        named()


def test_the_version_of_the_environment_holds_and_is_part_of_what_answers(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-06-01")
    adapter = named()
    assert adapter.generate("Hi", GREEDY, 0)["text"] == "Paris"
    assert server.seen[0][1] == {"api-version": "2024-06-01"}
    assert adapter.identity()["api_version"] == "2024-06-01"


def test_a_deployment_that_is_none_and_a_filter_are_errors_of_their_kind(server):
    with pytest.raises(
        EngineError, match="HTTP 404: The API deployment for this resource does not exist"
    ) as caught:
        named("nobody").generate("Hi", GREEDY, 0)
    assert caught.value.refuses_all
    assert not caught.value.retryable


@pytest.mark.parametrize("version", ["2024-10-21", "v1"])
def test_a_batch_is_made_once_its_file_is_processed(server, monkeypatch, version):
    monkeypatch.setattr(azure_openai, "FILE_WAIT_S", 0.01)
    adapter = named(api_version=version)
    assert isinstance(adapter, AzureAdapter)
    service, request = adapter.batches(), Request("Hi", GREEDY, row="r")

    async def whole():
        try:
            content = service.encode("r1", adapter.wire(request))
            file_id = await service.upload(content, "tok")
            batch_id = await service.create(content, file_id, "tok")
            state = await service.state(batch_id)
            assert state.ended
            return service.read((await service.results(batch_id, state)).strip())
        finally:
            await adapter.aclose()

    result = asyncio.run(whole())
    assert read_result(adapter, request, "batch_1", result)["text"] == "Paris"
    assert server.endpoint == "/chat/completions"
    assert {("api-version" in query) for _, query, _, _ in server.seen} == {version != "v1"}


def test_a_file_that_cannot_be_processed_ends_the_batch(server, monkeypatch):
    monkeypatch.setattr(azure_openai, "FILE_WAIT_S", 0.01)
    server.state, adapter = "error", named()

    async def upload():
        try:
            return await adapter.batches().upload(b"", "tok")
        finally:
            await adapter.aclose()

    with pytest.raises(EngineError, match="could not process the batch's file"):
        asyncio.run(upload())


def test_no_key_goes_to_an_address_of_ones_own(server):
    adapter = named(base_url=server.origin + "/proxy")
    with pytest.raises(EngineError):
        adapter.generate("Hi", GREEDY, 0)
    assert KEY not in str(server.seen)


def test_a_name_with_odd_characters_stays_one_step_of_the_path():
    options = AzureOptions(base_url="https://r.openai.azure.com", model="a/b?c", api_key_required=False)
    assert "/deployments/a%2Fb%3Fc/chat/completions?" in AzureAdapter("m", options).url("/chat/completions")
