"""Settings of all tests: none may depend on how busy the computer is, and each says what it needs.

``model`` and ``subprocess`` are put on here, by what a test calls; ``slow`` stands at tests of a quarter of a second or more
(``pytest --durations 50`` finds them). ``make check`` leaves all three out, ``make test`` runs everything.
"""

from __future__ import annotations

import gc
import hashlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, settings

from pcsuite._util import secrets

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("patient"), max_examples=15)
settings.load_profile("patient")

MODEL_NAMES = {"tiny_adapter", "tiny_chat_adapter", "shared_hf_model", "encoder"}
"""Functions and fixtures that load a model: torch, or the sentence encoder."""
PROCESS_NAMES = {
    "subprocess",
    "multiprocessing",
    "install",
    "run_tool",
    "nodes",
    "browser",
    "tool",
    "download",
    "line_after",
    "ForkedCli",
}
PROCESS_NAMES |= {"helm_environment", "promptbench_environment", "wheel_house"}
"""Modules, functions and fixtures that start processes."""

LONGEST_FILES = (
    "tests/integrations/test_helm.py",
    "tests/integrations/promptbench/test_attacks.py",
    "tests/integrations/promptbench/test_search.py",
    "tests/constraints/test_backends.py",
    "tests/runners/test_all_tasks.py",
    "tests/faults/test_fault_injection.py",
    "tests/runners/executors/test_ray.py",
    "tests/test_plain_install.py",
    "tests/test_documented_commands.py",
    "tests/engines/adapters/test_llamacpp.py",
    "tests/runners/test_closed_loops.py",
    "tests/faults/test_kills.py",
    "tests/runners/test_batches.py",
    "tests/runners/test_embedded.py",
    "tests/engines/adapters/test_local_hf.py",
)
"""They start first, so that no process is left alone with one of them at the end."""


def pytest_configure() -> None:
    """Commands that tests start hear a hangup, also where the tests themselves were started by nohup."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a model or starts processes; put the longest files first."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        names = names_used(item.function, item.module) | set(item.fixturenames)
        if names & MODEL_NAMES:
            item.add_marker("model")
        if names & PROCESS_NAMES:
            item.add_marker("subprocess")
    order = {file: place for place, file in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


def names_used(function: FunctionType, module: ModuleType) -> set[str]:
    """Global names in a test and in the functions of its own module that it calls."""
    seen: set[str] = set()
    waiting = [function.hypothesis.inner_test if hasattr(function, "hypothesis") else function]
    while waiting:
        found = set(waiting.pop().__code__.co_names) - seen
        seen |= found
        helpers = (getattr(module, name, None) for name in found)
        waiting += [
            one for one in helpers if isinstance(one, FunctionType) and one.__module__ == module.__name__
        ]
    return seen


def pytest_collection_finish() -> None:
    """What the imports left on the heap stays: libraries that collect garbage at every call need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let the interpreter end in order."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def forgotten_secrets() -> Iterator[None]:
    """Keys that a test used are forgotten after it: the next one may write the same letters as plain text."""
    known = dict(secrets._known)
    yield
    secrets._known.clear()
    secrets._known.update(known)


@pytest.fixture(scope="session", autouse=True)
def answers_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test keeps answers in the cache folder of whoever runs it, fixtures of modules neither."""
    folder = tmp_path_factory.mktemp("answers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCS_ANSWERS_DIR", str(folder / "shared"))
        yield folder


@pytest.fixture(autouse=True)
def answers_of_the_test(
    answers_of_the_session: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that one test was given are asked again in the next."""
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    monkeypatch.setenv("PCS_ANSWERS_DIR", str(answers_of_the_session / name))
