"""What HELM is given: run entries, model files and data; and what is read from its words."""

import pytest
import yaml

from pcsuite.errors import ConfigError, DataError
from pcsuite.integrations.environments import HELM
from pcsuite.integrations.helm.models import HelmModel, helm_name, write_model_files
from pcsuite.integrations.helm.process import HelmProgress, parse_scenarios, place_data, reason_of


def test_pins_cover_everything_that_is_installed():
    pins = {line.split("==")[0].lower().replace("_", "-") for line in HELM.pins_text().split()}
    asked = {
        name.split("==")[0].lower().replace("_", "-") for step in HELM.steps for name in step.requirements
    }
    assert asked <= pins
    assert not pins & {"torch", "transformers", "torchvision"}
    assert HELM.steps[-1].requirements == (f"crfm-helm=={HELM.version}",)


def test_scenarios_are_told_apart_from_their_arguments():
    found = parse_scenarios("truthful_qa, gsm,mmlu:subject=anatomy,method=x,gsm")
    assert [one.entry for one in found] == [
        "truthful_qa:task=mc_single",
        "gsm",
        "mmlu:subject=anatomy,method=x",
    ]
    assert parse_scenarios(["a:x=1", "b,y=2"])[1].entry == "b:y=2"
    assert found[1].for_model("simple/model1", "simple/model1") == "gsm:model=simple/model1"
    assert found[0].for_model("pcsuite/m", "pcsuite-1/m") == (
        "truthful_qa:task=mc_single,model=pcsuite/m,model_deployment=pcsuite-1/m"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mmlu", "scenario 'mmlu' needs a subject"),
        ("gsm:model=x", "models are chosen by --models"),
        ("gsm:x", "'x' is not KEY=VALUE"),
    ],
)
def test_a_wrong_scenario_is_one_line(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_scenarios(text)


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


def test_data_is_placed_where_helm_looks_and_hashed(tmp_path):
    data, output = tmp_path / "data", tmp_path / "out"
    (data / "gsm8k").mkdir(parents=True)
    (data / "gsm8k" / "train.jsonl").write_text("1\n")
    gsm = parse_scenarios("gsm")
    with pytest.raises(
        DataError, match="scenario 'gsm': .*data has no test.jsonl .looked for gsm8k/test.jsonl"
    ):
        place_data(gsm, data, output)
    (data / "gsm8k" / "test.jsonl").write_text("2\n")
    first = place_data(gsm, data, output)
    assert (output / "scenarios/gsm/gsm_data_train").read_text() == "1\n"
    assert (output / "scenarios/gsm/gsm_data_test").read_text() == "2\n"
    assert place_data(gsm, None, output) == first
    (data / "gsm8k" / "test.jsonl").write_text("3\n")
    assert place_data(gsm, data, output) != first
    with pytest.raises(
        DataError, match="needs econometrics_dev.csv, and no folder .* was named .give --data"
    ):
        place_data(parse_scenarios("mmlu:subject=econometrics"), None, output)
    assert place_data(parse_scenarios("boolq"), None, output)


STAMP = "2026-01-02 03:04:05,678 INFO     "
LOG = f"""{STAMP}  2 entries produced 2 run specs
{STAMP}  Running in local mode with base path: prod_env
{STAMP}  Running gsm:model=simple_model1 {{
{STAMP}  }} [0.02s]
{STAMP}  Error when running gsm:model=simple_model1:
Traceback (most recent call last):
  File "scenario.py", line 1, in get_instances
    example = json.loads(line)
ValueError: inner

The above exception was the direct cause of the following exception:

helm.benchmark.executor.ExecutorError: Failed after 5 times. Error: refused. Request: Request(model='x')
{STAMP}  Running truthful_qa:task=mc_single,model=m {{
{STAMP}      7 requests
{STAMP}      The answer is an Error: nothing of the kind"""


def test_helms_words_become_progress_and_reasons():
    told = []
    progress = HelmProgress(told.append)
    for line in LOG.splitlines():
        progress.feed(line)
    assert told == ["1/2 gsm:model=simple_model1", "2/2 truthful_qa:task=mc_single,model=m", "  7 requests"]
    assert progress.failures == {
        "gsm:model=simple_model1": "ExecutorError: Failed after 5 times. Error: refused."
    }
    assert progress.unfinished == "truthful_qa:task=mc_single,model=m"


def test_a_long_reason_is_shortened():
    assert reason_of("a.b.ValueError: " + "x" * 400) == "ValueError: " + "x" * 287 + "…"
    assert reason_of("KeyboardInterrupt") == "KeyboardInterrupt"
