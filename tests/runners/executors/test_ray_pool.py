"""What the Ray executor decides before a cluster is there, and the example files of its page."""

import importlib.util
import json
import pickle
import socket
import subprocess
from argparse import ArgumentParser
from pathlib import Path

import jsonschema
import pytest
import yaml

from pcsuite.commands.options import CLUSTER, add_flags, executor_from
from pcsuite.config.load import load_suite
from pcsuite.engines.adapters.base import Replica
from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions
from pcsuite.engines.adapters.local_hf import HfOptions, LocalHfAdapter
from pcsuite.errors import ConfigError, IntegrationError, MissingExtraError, install_words
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.executors.ray import check_installed, chosen_address, connected
from pcsuite.runners.executors.ray_pool import WorkerPlacement
from pcsuite.runners.task_plan import plan_task

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "ray"
SMALL = {"CPU": 4.0}
LARGE = {"CPU": 16.0, "GPU": 4.0}
RAY = importlib.util.find_spec("ray")
needs_ray = pytest.mark.skipif(RAY is None, reason="the extra 'ray' is not installed")


def chosen(*arguments):
    parser = ArgumentParser()
    add_flags(parser, CLUSTER)
    return executor_from(parser.parse_args(arguments))


def test_the_command_line_names_an_executor():
    assert chosen() == ExecutorChoice("local")
    assert chosen("--executor", "ray", "--address", "auto", "--workers", "3") == ExecutorChoice(
        "ray", "auto", 3
    )
    with pytest.raises(ConfigError, match="add --executor ray"):
        chosen("--address", "auto")
    with pytest.raises(ConfigError, match="did you mean 'ray'"):
        chosen("--executor", "rai")
    with pytest.raises(ConfigError, match="at least 1"):
        chosen("--executor", "ray", "--workers", "0")


def test_without_the_extra_there_is_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as raised:
        check_installed()
    assert str(raised.value) == f"ray is not installed ({install_words('ray')})"


def test_the_address_is_the_given_one_else_rays_own_variable(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert chosen_address(None) is None
    assert chosen_address("10.0.0.1:6379") == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert chosen_address(None) == "auto"
    assert chosen_address("local") is None
    with pytest.raises(ConfigError, match="not through a client"):
        chosen_address("ray://10.0.0.1:10001")


@needs_ray
def test_an_address_where_nothing_listens_is_refused_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(IntegrationError, match=f"no Ray cluster at {address}: .*refused"),
            connected(address),
        ):
            pass


def test_servers_get_few_workers_and_local_models_one_copy_a_slot():
    servers = WorkerPlacement(("a", "b"), True, None, most=8)
    assert servers.target([SMALL]) == 4
    assert servers.target([SMALL, LARGE]) == 8
    assert servers.target([]) == 1  # it waits for a node
    two_threads = WorkerPlacement(("m",), False, Replica(LlamaCppOptions(weights="x"), cpus=2), most=None)
    assert two_threads.target([SMALL, {"CPU": 3.0}]) == 2 + 1
    on_gpu = WorkerPlacement(("m",), False, Replica(HfOptions(path="x"), gpus=2), most=None)
    assert on_gpu.target([SMALL, LARGE, LARGE]) == 2 + 2
    assert on_gpu.gpus([SMALL, LARGE]) == 2
    assert on_gpu.target([SMALL]) == 4  # no GPU anywhere: CPU slots
    assert on_gpu.gpus([SMALL]) == 0
    assert (
        WorkerPlacement(("m",), False, Replica(HfOptions(path="x"), gpus=1), most=3, fixed=True).target(
            [LARGE]
        )
        == 3
    )


def test_a_copy_is_one_process_or_the_gpus_it_asks_for():
    copy = LlamaCppAdapter.replica(LlamaCppOptions(weights="x", workers=6, threads=2))
    assert (copy.options.workers, copy.cpus, copy.gpus) == (1, 2, 0)
    assert LocalHfAdapter.replica(HfOptions(path="x", replica_gpus=4)).gpus == 4
    assert LocalHfAdapter.replica(HfOptions(path="x", device_map="cpu")).gpus == 0


def test_every_bundled_task_can_travel():
    suite = load_suite("quickstart")
    for task_id in suite.tasks:
        task = plan_task(suite, task_id)
        there = pickle.loads(pickle.dumps(task))
        assert there.items == task.items
        item = task.items[0]
        assert there.evaluator.gold_answer(item) == task.evaluator.gold_answer(item)


@needs_ray
def test_the_example_cluster_file_is_one_by_rays_own_schema():
    schema = json.loads((Path(RAY.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    config = yaml.safe_load((EXAMPLES / "cluster.yaml").read_text())
    jsonschema.validate(config, schema)
    assert config["max_workers"] == len(config["provider"]["worker_ips"])


def test_the_example_batch_script_is_a_script():
    subprocess.run(["bash", "-n", str(EXAMPLES / "pcsuite.sbatch")], check=True)
