"""Getting onto a Ray cluster: an existing one, or one of our own that ends with the run.

Ray is kept quiet: no dashboard, no usage statistics, no log lines of other processes. A cluster of our own
gets a token that exists in the environment of its processes only; for an existing one Ray finds the token
where its documentation says (``RAY_AUTH_TOKEN``, ``RAY_AUTH_TOKEN_PATH``, ``~/.ray/auth_token``).
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from pcsuite.errors import ConfigError, IntegrationError, MissingExtraError, require

OBJECT_STORE_BYTES = 512 << 20
"""Memory for objects on a cluster of our own: the plan once, and chunks of rows on their way."""
START_TRIES = 3
CONNECT_WITHIN_S = 15.0
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}


def check_installed() -> None:
    """Refuse where Ray is not installed; it is not imported before its environment is set."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("ray", "ray")


def chosen_address(address: str | None) -> str | None:
    """The cluster to join: as given, else ``RAY_ADDRESS``; ``None`` for one of our own."""
    address = address or os.environ.get("RAY_ADDRESS") or None
    if address is not None and address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: the run's log is written by a process on the cluster, not through a client",
            hint="run the command on a node of the cluster with --address auto, or with 'ray job submit'",
        )
    return None if address == "local" else address


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected; at the end the connection is given up, and with it a cluster that was started here."""
    if address is None:
        _own_token()
    with _environment(_QUIET):
        ray = require("ray", "ray")
        if ray.is_initialized():  # a program that uses Ray itself: its connection is not ours to end
            yield ray
            return
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            with _silent_listener():
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
    _check_listening(address)
    with TemporaryFile() as said:
        try:
            with _standard_error_to(said.fileno()):
                if address is None:
                    _start_own(ray, quiet)
                else:
                    ray.init(address=address, **quiet)
        except Exception as error:  # Ray has no common class for what can go wrong here
            said.seek(0)
            # A wrong token is only told by Ray's library, on standard error, again and again.
            if isinstance(error, ray.exceptions.AuthenticationError) or b"InvalidAuthToken" in said.read():
                raise IntegrationError(
                    f"the Ray cluster at {address} did not accept this process: its token is missing or wrong",
                    hint="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as for the cluster",
                ) from None
            raise _no_cluster(address, error) from None


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    """Send what this process writes to standard error, its libraries included, to another file."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check_listening(address: str | None) -> None:
    """Refuse an address where nothing listens; Ray would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_WITHIN_S).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str | None, error: Exception) -> IntegrationError:
    where = "a Ray cluster could not be started" if address is None else f"no Ray cluster at {address}"
    return IntegrationError(
        f"{where}: {_first_line(error)}",
        hint="the command must run on a node of the cluster; 'ray status' there says whether it is up",
    )


def _start_own(ray: Any, quiet: dict[str, Any]) -> None:
    """Start a cluster of our own; Ray gives up after half a minute, which a busy machine may need."""
    tries_left = START_TRIES
    while True:
        tries_left -= 1
        try:
            ray.init(
                address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet
            )
            return
        except Exception as error:
            if not tries_left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()


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
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """Set what the user has not set, and take it away again."""
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
