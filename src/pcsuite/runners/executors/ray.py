"""The Ray executor: the same plan, the same log, the work done by a cluster.

The driver (this process) plans, hands out chunks of units and is the only one that writes the log, so that a
row is there once whatever is lost. Workers hold the models, render prompts, call, score and send encoded rows
back as they are finished. A lost worker's unfinished units go to others; a lost driver's workers end with it,
and the same command goes on from the log.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from typing_extensions import Self

from pcsuite.engines import adapter_of
from pcsuite.engines.adapters.base import Constraint
from pcsuite.engines.response_cache import FILE_NAME
from pcsuite.engines.session import check_model
from pcsuite.errors import ConfigError, IntegrationError, MissingExtraError, require
from pcsuite.logging.log import RunPaths
from pcsuite.runners.executors import Executor, phases
from pcsuite.runners.executors.ray_pool import WorkerPlacement, WorkerPool
from pcsuite.runners.executors.ray_worker import ChunkSource, RunLimits, UnitKeys
from pcsuite.runners.plan import Plan, Unit
from pcsuite.runners.progress import RowSink

# Getting onto a Ray cluster: an existing one, or one of our own that ends with the run.
#
# Ray is kept quiet: no dashboard, no usage statistics, no log lines of other processes. A cluster of our own
# gets a token that exists in the environment of its processes only; for an existing one Ray finds the token
# where its documentation says (``RAY_AUTH_TOKEN``, ``RAY_AUTH_TOKEN_PATH``, ``~/.ray/auth_token``).


OBJECT_STORE_BYTES = 512 << 20
"""Memory for objects on a cluster of our own: the plan once, and chunks of rows on their way."""
LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's own switch, whatever its name says: at 0 a node takes 127.0.0.1 for its address and listens there only."""
START_TRIES = 3
CONNECT_WITHIN_S = 15.0
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}


def check_installed() -> None:
    """Refuse where Ray is not installed; it is not imported before its environment is set.

    Raises :class:`MissingExtraError`, which names the extra to install.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("ray", "ray")


def chosen_address(address: str | None) -> str | None:
    """The cluster to join: as given, else ``RAY_ADDRESS``; ``None`` for one of our own.

    ``None`` starts a cluster of our own on this machine.
    """
    address = address or os.environ.get("RAY_ADDRESS") or None
    if address is not None and address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: the run's log is written by a process on the cluster, not through a client",
            hint="run the command on a node of the cluster with --address auto, or with 'ray job submit'",
        )
    return None if address == "local" else address


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected; at the end the connection is given up, and with it a cluster that was started here.

    Raises :class:`IntegrationError`, with a remedy, where there is no cluster or it refuses us.
    """
    if address is None:
        _own_token()
    # A cluster of our own is for this machine alone, unless the user has set the variable.
    with _environment(_QUIET | ({LOOPBACK_VARIABLE: "0"} if address is None else {})):
        ray = require("ray", "ray")
        if ray.is_initialized():  # a program that uses Ray itself: its connection is not ours to end
            yield ray
            return
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            with _silent_listener(), _on_loopback(address):
                _join(ray, address)
                yield ray
        finally:
            ray.shutdown()


def _join(ray: Any, address: str | None) -> None:
    quiet: dict[str, Any] = {
        "configure_logging": False,
        "logging_level": logging.ERROR,
        "log_to_driver": False,
    }
    host, _, port = (address or "").rpartition(":")
    if port.isdigit():
        try:  # Ray would try for minutes where nothing listens
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_WITHIN_S).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from None
    with TemporaryFile() as messages:
        try:
            with _standard_error_to(messages.fileno()):
                if address is None:
                    _start_own(ray, quiet)
                else:
                    ray.init(address=address, **quiet)
        except Exception as error:  # Ray has no common class for what can go wrong here
            messages.seek(0)
            # A wrong token is only told by Ray's library, on standard error, again and again.
            if (
                isinstance(error, ray.exceptions.AuthenticationError)
                or b"InvalidAuthToken" in messages.read()
            ):
                raise IntegrationError(
                    f"the Ray cluster at {address} did not accept this process: its token is missing or wrong",
                    hint="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as for the cluster",
                ) from None
            raise _no_cluster(address, error) from None


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    """Send what this process writes to standard error, its libraries included, to another file."""
    sys.stderr.flush()
    standard_error = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)


def _no_cluster(address: str | None, error: Exception) -> IntegrationError:
    where = "a Ray cluster could not be started" if address is None else f"no Ray cluster at {address}"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return IntegrationError(
        f"{where}: {lines[0]}",
        hint="the command must run on a node of the cluster; 'ray status' there says whether it is up",
    )


def _start_own(ray: Any, quiet: dict[str, Any]) -> None:
    """Start a cluster of our own; Ray gives up after half a minute, which a busy machine may need."""
    tries_left = START_TRIES
    while True:
        tries_left -= 1
        try:
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                **quiet,
            )
            return
        except Exception as error:
            if not tries_left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()


@contextmanager
def _on_loopback(address: str | None) -> Iterator[None]:
    """Have this process go by the loopback variable, which Ray reads when it is first imported, and not after."""
    constants: Any = sys.modules.get("ray._private.ray_constants")
    if address is not None or os.environ.get(LOOPBACK_VARIABLE) != "0" or constants is None:
        yield
        return
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _silent_listener() -> Iterator[None]:
    """Keep Ray from printing its nodes' troubles to our standard output, for which it has no setting.

    What they mean for the run is said by the run itself; Ray's session folder has the rest.
    """
    worker: Any = sys.modules.get("ray._private.worker")
    printing = getattr(worker, "print_to_stdstream", None)
    if printing is None:
        yield
        return
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = printing


def _own_token() -> None:
    """Make up a token for a cluster of our own, unless it is settled already.

    Ray reads these variables once, when it is imported, so they stay for as long as the process does.
    """
    settled = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    if not settled and "ray" not in sys.modules:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set what the user has not set, and take it away again."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


class RayExecutor(Executor):
    """Has the units answered by the workers of a Ray cluster."""

    async def __aenter__(self) -> Self:
        check_installed()
        self._address = chosen_address(self.choice.address)
        self._held = ExitStack()
        self._ray: Any = None
        self._pool: WorkerPool | None = None
        return self

    def use(self, plan: Plan) -> None:
        """Go on to another plan; workers get it when they are next asked."""
        super().use(plan)
        if self._ray is not None:
            self._send_work()
            if self._pool is not None:
                self._pool.use(self._sent_work, self._keys)

    async def why_unenforced(self, model_id: str, constraint: Constraint) -> str | None:
        """Why a constraint is not enforced on a model, or ``None`` if it is; a worker tries it."""
        pool = await self._pool_of(self._group(model_id))
        reason: str | None = await pool.ask_one("why_unenforced", model_id, constraint)
        return reason

    async def open_retrievers(self, task_ids: Iterable[str]) -> None:
        """Open what the tasks search in on one worker; others open it when they need it."""
        searched = list(task_ids)
        if searched:
            pool = self._pool or await self._pool_of(
                tuple(phases(self.work.plan, self.work.plan.scope.models)[0])
            )
            await pool.ask_one("open_retrievers", searched)

    async def run(
        self, pending: Mapping[str, int], todo: Callable[[str], Iterator[Unit]], sink: RowSink
    ) -> None:
        """Hand the models' units out in chunks to the workers that hold these models."""
        pool = await self._pool_of(self._group(next(iter(pending))))
        await pool.drain({name: ChunkSource(todo(name), count) for name, count in pending.items()}, sink)

    async def aclose(self) -> None:
        """End our workers, and the cluster if it is ours."""
        try:
            if self._pool is not None:
                await self._pool.close()
            if self._ray is not None:
                self._ray.wait([self._limits.close.remote()], timeout=30)
                self._ray.kill(self._limits)
        finally:
            self._held.close()

    def _group(self, model_id: str) -> tuple[str, ...]:
        plan = self.work.plan
        return next(tuple(group) for group in phases(plan, plan.scope.models) if model_id in group)

    async def _pool_of(self, group: tuple[str, ...]) -> WorkerPool:
        """The workers of a group; those of another one make room first."""
        if self._pool is not None and self._pool.placement.models == group:
            return self._pool
        if self._ray is None:
            self._connect()
        if self._pool is not None:
            await self._pool.close()
        self._pool = WorkerPool(
            self._ray, self._placement(group), self._sent_work, self._limits, self._keys, self.quiet
        )
        return self._pool

    def _connect(self) -> None:
        """Join the cluster, and put there what every worker needs."""
        ray = self._held.enter_context(connected(self._address))
        profile = self.work.plan.suite.profile
        cache = Path(profile.run.cache_dir).resolve() / FILE_NAME if self.work.use_cache else None
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._limits = (
            ray.remote(RunLimits)
            .options(num_cpus=0, scheduling_strategy=here)
            .remote(
                profile.repro.max_inflight,
                profile.limits.max_tokens_overall,
                profile.limits.max_cost_usd,
                cache,
                (RunPaths.of(profile.run.output_dir, profile.run.name).log.resolve(), profile.limits),
            )
        )
        self._ray = ray
        self._send_work()

    def _send_work(self) -> None:
        self._keys = UnitKeys(self.work.plan)
        self._sent_work = self._ray.put(self.work)

    def _placement(self, group: tuple[str, ...]) -> WorkerPlacement:
        """Servers are asked by a few workers; a model that computes gets a copy for each slot."""
        suite = self.work.plan.suite
        kind, options = check_model(group[0], suite.models[group[0]])
        for judge in self.work.plan.judges:
            if judge not in group and adapter_of(suite.models[judge].provider).exclusive:
                raise ConfigError(
                    f"judge '{judge}' computes where it is asked, and every worker of the cluster would hold a copy",
                    hint="serve it (provider openai), or run without --executor ray",
                )
        asked = self.choice.workers
        if kind.exclusive:
            return WorkerPlacement(group, False, kind.replica(options), asked, fixed=asked is not None)
        repro = suite.profile.repro
        most = min(asked or repro.num_workers, repro.max_inflight)
        return WorkerPlacement(group, True, None, most, fixed=asked is not None)
