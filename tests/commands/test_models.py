"""``models`` and ``cache`` as a user calls them."""

import json

from pcsuite.cli import main
from pcsuite.config.prices import forget_lists
from pcsuite.engines.response_cache import ResponseCache
from support.provider_server import ProviderServer
from support.replay import ExpectedRequest, ReplayServer, Reply, Turn

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
ANSWER = {"text": "hi", "finish_reason": "stop", "latency_ms": 12.5, "usage": USAGE, "seed_honoured": True}


def test_the_models_command_lists_states_and_suggests(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PCS_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("smollm2-135m "))
    assert row.split() == ["smollm2-135m", "llamacpp", "135M", "98", "MB", "Apache-2.0", "not", "pulled"]
    assert any(line.startswith("gemma-3-270m ") for line in lines)
    assert main(["models", "pull", "smolm2-135m"]) == 2
    assert "did you mean 'smollm2-135m'" in capsys.readouterr().err
    assert main(["models", "pull", "gpt-5.5"]) == 2
    assert "has no file to pull" in capsys.readouterr().err
    assert main(["models", "check", "smollm2-135m", "simulated"]) == 1
    out = capsys.readouterr().out
    assert "smollm2-135m: FAILED: model file SmolLM2-135M-Instruct.Q4_1.gguf" in out
    assert "simulated: options ok" in out


def test_the_command_shows_and_clears(tmp_path, capsys):
    assert main(["cache", "stats", "--cache-dir", str(tmp_path)]) == 0
    assert "no response cache" in capsys.readouterr().out
    with ResponseCache(tmp_path / "responses.sqlite") as cache:
        cache.put("k", ANSWER)
        cache.get("k")
    assert main(["cache", "stats", "--cache-dir", str(tmp_path), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["entries"], figures["hits"], figures["hit_rate"]) == (1, 1, 1.0)
    assert main(["cache", "stats", "--cache-dir", str(tmp_path)]) == 0
    assert "hit rate  100.0%" in capsys.readouterr().out
    assert main(["cache", "clear", "--cache-dir", str(tmp_path)]) == 0
    assert "1 answers forgotten" in capsys.readouterr().out
    with ResponseCache(tmp_path / "responses.sqlite") as cache:
        assert cache.stats().as_dict()["entries"] == 0


def test_providers_are_listed_with_what_they_know_and_their_prices(capsys):
    assert main(["models", "providers", "groq", "vllm"]) == 0
    said = capsys.readouterr().out
    assert "GROQ_API_KEY" in said.replace("\n", "")
    assert "groq/llama-3.1-8b-instant: $0.05 in, $0.08 out" in said
    assert "None of them was tried against the live service." in said
    assert main(["models", "providers", "grok"]) == 2
    assert "unknown provider 'grok'" in capsys.readouterr().err


def test_a_model_by_name_is_checked_without_an_entry(capsys, monkeypatch):
    with ProviderServer() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.origin)
        assert main(["models", "check", "ollama/llama3.2"]) == 0
    assert "ollama/llama3.2: answered 'Paris'" in capsys.readouterr().out


def test_a_model_is_checked_at_the_address_that_is_given(capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with ProviderServer() as server:
        words = ["models", "check", "openai/mine", "--base-url", f"{server.origin}/v1"]
        assert main(words) == 0
        assert "openai/mine: answered 'Paris'" in capsys.readouterr().out
        assert main([*words, "--model-option", "api_key_env=PCS_NO_SUCH_KEY"]) == 1
    assert "PCS_NO_SUCH_KEY" in capsys.readouterr().out
    assert main(["models", "check", "smollm2-135m", "--base-url", "http://127.0.0.1:1"]) == 2
    assert "--base-url: model 'smollm2-135m' (provider llamacpp) is not asked" in capsys.readouterr().err


def test_models_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PCS_CACHE_DIR", str(tmp_path))
    assert main(["models", "list", "smollm2-135m", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(entry["id"], entry["state"]) for entry in found["models"]] == [("smollm2-135m", "not pulled")]
    assert main(["models", "check", "smollm2-135m", "simulated", "--json"]) == 1
    checked = json.loads(capsys.readouterr().out)["checked"]
    assert [(entry["id"], entry["ok"]) for entry in checked] == [("smollm2-135m", False), ("simulated", True)]


def test_prices_are_listed_updated_from_a_map_and_forgotten(tmp_path, monkeypatch, capsys):
    own = tmp_path / "prices.yaml"
    monkeypatch.setenv("PCS_PRICES", str(own))
    forget_lists()
    entry = {
        "litellm_provider": "deepseek",
        "mode": "chat",
        "input_cost_per_token": 7e-06,
        "output_cost_per_token": 8e-06,
    }
    (tmp_path / "map.json").write_text(json.dumps({"deepseek/deepseek-chat": entry}))
    assert main(["models", "prices", "deepseek", "--update", str(tmp_path / "map.json")]) == 0
    told = capsys.readouterr().out
    assert f"{own}: kept 1 prices (deepseek 1)" in told
    assert "deepseek/deepseek-chat: $7 in, $8 out per million tokens (litellm price map" in told
    assert main(["models", "prices", "deepseek", "--json"]) == 0
    (record,) = [
        record
        for record in json.loads(capsys.readouterr().out)["usd_per_million_tokens"]
        if record["model"] == "deepseek-chat"
    ]
    assert (record["prompt"], record["cached"], record["completion"]) == (7.0, None, 8.0)
    assert main(["models", "prices", "--forget"]) == 0
    told = capsys.readouterr().out
    assert not own.exists()
    assert "openrouter: " in told
    assert "pcsuite models prices --update FILE" in told
    assert main(["models", "prices", "--update", str(tmp_path / "none.json")]) == 2
    assert main(["models", "prices", "grok"]) == 2
    assert "unknown provider 'grok'" in capsys.readouterr().err
    forget_lists()


def test_a_check_says_what_a_model_refuses(monkeypatch, capsys):
    refusal = {"error": {"message": "Unsupported parameter: 'temperature'", "param": "temperature"}}
    answer = {"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}], "usage": {}}
    with ReplayServer() as server:
        server.lay(
            [Turn(reply=Reply(status=400, body=refusal)), Turn(reply=Reply(body=answer))], ExpectedRequest()
        )
        assert main(["models", "check", "openai/new", "--base-url", server.base_url]) == 0
    assert "tokens/s, without temperature, which it refuses)" in capsys.readouterr().out
