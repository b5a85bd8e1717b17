"""What HELM learns of our models, and the loopback server it asks: it answers as the adapter does, or refuses."""

import json
import urllib.error
import urllib.request

import pytest
import yaml

from pcsuite.config.load import load_suite
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.engines.limits import RetryPolicy
from pcsuite.errors import EngineError, ErrorRateError
from pcsuite.integrations.helm.models import HelmModel, ModelServer, cut_at_stop, helm_name, write_model_files
from support.profiles import write_profile


class Echo(ModelAdapter):
    """Repeats the prompt with what it was asked for."""

    closed = False

    def generate(self, prompt, decoding, seed):
        if prompt == "fail":
            raise EngineError("the engine is gone")
        text = (
            f"{prompt}|t={decoding.temperature:g}|p={decoding.top_p:g}|max={decoding.max_tokens}|seed={seed}"
        )
        usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        return {"text": text, "finish_reason": "length", "latency_ms": 1.0, "usage": usage}

    def close(self):
        self.closed = True


@pytest.fixture
def served(tmp_path):
    adapter, asked = Echo("sim"), []
    suite = load_suite(write_profile(tmp_path))
    policy = RetryPolicy(max_attempts=1)
    with ModelServer(suite, {"sim": adapter}, on_answer=asked.append, policy=policy) as server:
        yield server, asked
    assert adapter.closed


def post(server, body):
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions",
        data=body if isinstance(body, bytes) else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def message(text, **more):
    return {"model": "sim", "messages": [{"role": "user", "content": text}], **more}


def test_an_answer_is_the_adapters(served):
    server, asked = served
    status, reply = post(
        server,
        message("hi\nyou", temperature=0, top_p=0.9, max_tokens=4, seed=7, n=2, stop=["|max", "|seed"]),
    )
    assert status == 200
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["hi\nyou|t=0|p=0.9"] * 2
    assert [choice["finish_reason"] for choice in reply["choices"]] == ["stop", "stop"]
    assert reply["usage"] == {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    _, reply = post(server, message("x", max_completion_tokens=9, n=2, presence_penalty=0.0, stop=None))
    assert [choice["message"]["content"] for choice in reply["choices"]] == [
        "x|t=1|p=1|max=9|seed=0",
        "x|t=1|p=1|max=9|seed=1",
    ]
    assert reply["choices"][0]["finish_reason"] == "length"
    assert asked == ["sim", "sim"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "the request is not JSON"),
        (b"[]", "not a JSON object"),
        (message("x", presence_penalty=0.5), "'presence_penalty' is not supported"),
        (message("x", stream=True), "'stream' is not supported"),
        (message("x", temperature="hot"), "'temperature' must be a number"),
        (message("x", max_tokens=0), "'max_tokens' must be at least 1"),
        ({"model": "simm", "messages": []}, "no model 'simm' is served (did you mean 'sim'?)"),
        ({"model": "sim", "messages": [{"role": "system", "content": "x"}]}, "must be a user's text"),
        ({"model": "sim", "messages": []}, "exactly one message"),
    ],
)
def test_what_cannot_be_honoured_is_refused(served, body, told):
    status, reply = post(served[0], body)
    assert status == 400
    assert told in reply["error"]["message"]


def test_a_failed_call_is_told(served):
    status, reply = post(served[0], message("fail"))
    assert (status, reply["error"]["message"]) == (500, "the engine is gone")


def test_too_many_failures_end_the_answers(served):
    server, _ = served
    for number in range(50):
        assert server.stopped is None
        assert post(server, message("fail"))[0] == (500 if number < 49 else 402)
    assert isinstance(server.stopped, ErrorRateError)
    status, reply = post(server, message("hi"))
    assert status == 402
    assert "50 of 50 calls failed" in reply["error"]["message"]


def test_the_earliest_stop_sequence_counts():
    assert cut_at_stop("a\n\nb", ["b", "\n\n"]) == ("a", True)
    assert cut_at_stop("abc", ["x"]) == ("abc", False)
    assert cut_at_stop("abc", []) == ("abc", False)


def test_model_files_name_server_window_and_identity(tmp_path):
    model = HelmModel(
        "a/b:c", "http://127.0.0.1:1/v1", "b", {"weights": "1"}, context_tokens=100, params_b=0.135
    )
    other = HelmModel("a/b:c", "http://127.0.0.1:1/v1", "b", {"weights": "2"})
    write_model_files([model], tmp_path)
    (deployment,) = yaml.safe_load((tmp_path / "model_deployments.yaml").read_text())["model_deployments"]
    (metadata,) = yaml.safe_load((tmp_path / "model_metadata.yaml").read_text())["models"]
    (tokenizer,) = yaml.safe_load((tmp_path / "tokenizer_configs.yaml").read_text())["tokenizer_configs"]
    assert metadata["name"] == deployment["model_name"] == model.name == "pcsuite/a_b_c"
    assert (metadata["display_name"], metadata["num_parameters"]) == ("a/b:c", 135_000_000)
    assert deployment["name"] == model.deployment != other.deployment
    assert deployment["max_sequence_length"] == 300
    assert deployment["client_spec"]["args"]["base_url"] == "http://127.0.0.1:1/v1"
    assert deployment["tokenizer_name"] == tokenizer["name"]
    write_model_files([HelmModel("new", "http://127.0.0.1:2/v1", "new", {})], tmp_path)
    deployments = yaml.safe_load((tmp_path / "model_deployments.yaml").read_text())["model_deployments"]
    assert [entry["model_name"] for entry in deployments] == ["pcsuite/a_b_c", "pcsuite/new"]
    (tmp_path / "model_deployments.yaml").write_text("torn: [")
    write_model_files([model], tmp_path)
    deployments = yaml.safe_load((tmp_path / "model_deployments.yaml").read_text())["model_deployments"]
    assert [entry["model_name"] for entry in deployments] == ["pcsuite/a_b_c"]
    assert helm_name("simple/model1") == "simple/model1"
