"""``pcsuite`` commands as forks of one process that has imported it: a start costs milliseconds, a kill is a kill.

    python -m support.forked_cli

Reads one line per command, a JSON list of its output file and its arguments; answers with the process id. An empty line
waits for the last one and answers with its exit status, negative for a signal.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


class ForkedCli:
    """Starts commands one at a time."""

    def __enter__(self) -> ForkedCli:
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.forked_cli"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()

    def start(self, output: os.PathLike[str], *arguments: str) -> int:
        """Start a command whose words go to a file; its process id."""
        return self._ask(json.dumps([os.fspath(output), *arguments]))

    def wait(self) -> int:
        """The exit status of the last command."""
        return self._ask("")

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def serve() -> None:
    """Fork for each line."""
    from pcsuite.cli import main
    from support.profiles import write_profile

    with tempfile.TemporaryDirectory() as folder:  # a first run imports what only a run imports
        profile = write_profile(Path(folder), items=1)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            main(["run", "--quiet", "--config", str(profile)])
    gc.freeze()
    child = 0
    for line in sys.stdin:
        if not line.strip():
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        output, *arguments = json.loads(line)
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        with open(output, "w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        status = 1
        try:
            if arguments[0].startswith("@"):  # "@module:function:argument" prepares the child
                module, function, argument = arguments.pop(0)[1:].split(":")
                getattr(importlib.import_module(module), function)(argument)
            status = main(arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    serve()
