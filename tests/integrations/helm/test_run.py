"""How HELM is sent to the models: directly where its client can ask, through our adapter where a key is needed."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from pcsuite.config.load import load_suite
from pcsuite.errors import BudgetExceededError, IntegrationError
from pcsuite.integrations.helm import run as module
from pcsuite.integrations.helm.run import plan_helm, run_helm
from support.helm_folder import write_run
from support.loopback import KEY, LoopbackServer
from support.profiles import write_profile


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setenv("HELM_TEST_KEY", KEY)
    monkeypatch.setattr(module, "environment_python", lambda tool: Path("python"))
    with LoopbackServer() as server:
        plain = {
            "provider": "openai",
            "family": "x",
            "size": "1B",
            "base_url": server.base_url,
            "model": "far",
        }
        keyed = plain | {"api_key_env": "HELM_TEST_KEY", "extra_body": {"thinking": False}, "params_b": 1}
        (tmp_path / "TruthfulQA.csv").write_text("head\n")
        path = write_profile(tmp_path, {"plain": plain, "keyed": keyed}, repro={"max_inflight": 3})
        suite = load_suite(path, {"integrations.helm.data_dir": str(tmp_path)})
        yield plan_helm(suite, ["simple/model1", "plain", "keyed"]), server


def ask(base_url, name):
    body = {"model": name, "messages": [{"role": "user", "content": "Q?"}], "max_tokens": 5}
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def test_keys_stay_out_of_helms_files_and_requests_stay_ours(plan, monkeypatch):
    chosen, server = plan
    commands = []

    def stand_in(command, arguments, log, feed, stop=None):
        commands.append((command, arguments))
        if command == "helm-run":
            files = yaml.safe_load((chosen.local_path / "model_deployments.yaml").read_text())
            found = {one["model_name"]: one["client_spec"]["args"] for one in files["model_deployments"]}
            assert found["pcsuite/plain"]["base_url"] == server.base_url
            assert found["pcsuite/plain"]["vllm_model_name"] == "far"
            served = found["pcsuite/keyed"]
            assert served["base_url"] != server.base_url
            assert ask(served["base_url"], served["vllm_model_name"]) == "fine"
            write_run(chosen.output, {"a": [1.0]}, suite=chosen.name, model="pcsuite/keyed")
        return 0

    monkeypatch.setattr(module, "run_tool", stand_in)
    told = []
    imported = run_helm(chosen, told.append)
    assert [run.status for run in imported.runs] == ["complete"]
    assert [command for command, _ in commands] == ["helm-run", "helm-summarize"]
    arguments = commands[0][1]
    entries = arguments[1 : arguments.index("--suite")]
    assert entries[0] == "truthful_qa:task=mc_single,model=simple/model1"
    assert [entry.partition("model=")[2].partition(",")[0] for entry in entries[1:]] == [
        "pcsuite/plain",
        "pcsuite/keyed",
    ]
    assert arguments[arguments.index("--num-threads") + 1] == "3"
    assert server.bodies[0]["thinking"] is False
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    for path in chosen.output.rglob("*"):
        assert path.is_dir() or KEY not in path.read_text()
    assert {row["model"] for row in imported.tables[0].records()} == {"keyed"}


def test_a_run_that_never_began_is_one_line_with_helms_reason(plan, monkeypatch):
    def stand_in(command, arguments, log, feed, stop=None):
        for line in (
            "Traceback (most recent call last):",
            '  File "run.py", line 1',
            "ValueError: Unknown run spec",
        ):
            feed(line)
        return 1

    monkeypatch.setattr(module, "run_tool", stand_in)
    with pytest.raises(
        IntegrationError, match="helm-run failed: ValueError: Unknown run spec .its words are in"
    ):
        run_helm(plan[0], print)


def test_a_used_up_budget_ends_helm_and_is_raised_as_it_is_of_a_run(plan, monkeypatch):
    """Also for a server that HELM could ask by itself: then nobody would keep to the budget."""
    chosen, server = plan
    suite = load_suite(
        chosen.suite.path,
        {
            "limits.max_tokens_overall": 200,
            "integrations.helm.data_dir": str(chosen.suite.path.parent),
        },
    )
    chosen = plan_helm(suite, ["plain"])

    def stand_in(command, arguments, log, feed, stop=None):
        assert command == "helm-run"
        files = yaml.safe_load((chosen.local_path / "model_deployments.yaml").read_text())
        served = files["model_deployments"][0]["client_spec"]["args"]
        assert served["base_url"] != server.base_url
        refused = []
        while not stop.is_set():
            try:
                ask(served["base_url"], served["vllm_model_name"])
            except urllib.error.HTTPError as error:
                refused.append(error.code)
                error.close()
        assert refused == [402]
        return -15

    monkeypatch.setattr(module, "run_tool", stand_in)
    with pytest.raises(BudgetExceededError, match="budget is used up"):
        run_helm(chosen, print)
    assert 0 < len(server.bodies) * 18 <= 200


def test_another_limit_is_another_suite(plan):
    chosen, _ = plan
    suite = load_suite(chosen.suite.path, {"integrations.helm.max_instances": 7})
    other = plan_helm(suite, ["plain"])
    assert chosen.name.startswith("t-m50-")
    assert other.name.startswith("t-m7-")
    assert other.name[-8:] != chosen.name[-8:]
