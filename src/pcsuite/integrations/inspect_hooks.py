"""An extension of inspect_ai: after an evaluation, or an eval set, its paired comparison with an earlier one.

inspect_ai loads it by itself where both packages are installed (entry point ``inspect_ai``); a task file may import it
as well. It does nothing unless ``PCSUITE_BASELINE`` names a log, or a folder of logs, to compare with.
``PCSUITE_ARGUMENTS`` are further words for ``pcsuite compare`` (``--metric match --margin 0.05``), ``PCSUITE_COMMAND``
is the command itself where it lives in another environment.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from urllib.parse import unquote, urlparse

from inspect_ai.hooks import EvalSetEnd, Hooks, RunEnd, hooks


@hooks(name="pcsuite", description="Paired comparison with earlier logs (PCSUITE_BASELINE)")
class PairedReport(Hooks):  # type: ignore[misc]
    """Compares what was just evaluated with the baseline, item by item, and prints it."""

    def enabled(self) -> bool:
        """Whether a baseline is named."""
        return bool(os.environ.get("PCSUITE_BASELINE"))

    async def on_run_end(self, data: RunEnd) -> None:
        """Compare every log of a run; those of an eval set are compared together at its end."""
        if data.eval_set_id is None:
            for log in data.logs:
                print_comparison(log.location)

    async def on_eval_set_end(self, data: EvalSetEnd) -> None:
        """Compare the whole folder of an eval set."""
        print_comparison(data.log_dir)


def print_comparison(log: str) -> int:
    """Print the comparison of a log, or of a folder of them, with the baseline; returns the command's status.

    An evaluation is not to end because its report did: what goes wrong is printed, and the status is for callers.
    """
    command = shlex.split(os.environ.get("PCSUITE_COMMAND") or "") or [sys.executable, "-m", "pcsuite"]
    address = urlparse(log)
    place = unquote(address.path) if address.scheme == "file" else log
    words = ["compare", os.environ["PCSUITE_BASELINE"], place, "--from", "inspect"]
    words += shlex.split(os.environ.get("PCSUITE_ARGUMENTS") or "")
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    print(done.stdout + done.stderr, flush=True)
    return done.returncode
