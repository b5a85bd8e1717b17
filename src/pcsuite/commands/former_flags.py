"""Flags that commands no longer take, and what takes their place.

``pcsuite.cli`` says so in one line where somebody types one; nothing else reads the table.
"""

from collections.abc import Mapping

_OF_RUNS = (
    "--until",
    "--margin",
    "--look-every",
    "--deviation",
    "--batch",
    "--batch-export",
    "--batch-import",
)
_BUDGET, _REGIMES = "integrations.promptbench.query_budget", "selection.decoding_regimes"
_NO_MODEL = "means nothing here, where no model is asked: leave it out"
_ASSUMED = ("accuracy", "correlation", "noise", "alpha", "affected")

FORMER_FLAGS: Mapping[str, Mapping[str, str]] = {
    "plan": {f"--{key}": f"is now --assume {key}=X" for key in _ASSUMED} | {"--target": "is now --assume power=X"},
    "run-task": {
        flag: f"is taken by run alone: pcsuite run --tasks TASK {flag} …"
        for flag in (*_OF_RUNS, "--executor", "--address", "--workers")
    },
    "promptbench": {
        **dict.fromkeys(_OF_RUNS, "did nothing here: a perturbation block is asked whole, call by call (run takes it)"),
        "--overwrite": "did nothing here: the block goes into the run's log, which pcsuite run --overwrite starts anew",
        "--budget": f"is now the profile's key {_BUDGET}: --set {_BUDGET}=N",
    },
    "report": {"--model-option": _NO_MODEL},
    "rescore": {"--model-option": _NO_MODEL},
    "judge": {"--model-option": _NO_MODEL},
    "prompt": {"--model-option": _NO_MODEL, "--name": "means nothing here, where no run is read: leave it out"},
    "verifier-pass": {"--regimes": f"is now the profile's key {_REGIMES}: --set {_REGIMES}=[D0]"},
    "models": {
        "--models-file": "means nothing here: the suite declares the providers, no models file does",
        "--source": "is no more: the publisher's file is tried first, then the packages",
    },
    "index": {"--pages": "is taken by build alone: pcsuite index build --pages FILE, then search --index DIR"},
    "init-task": {
        "--title": "is now the key title of the task file that is written: edit it there",
        "--instruction": "is now the key instruction of the task file that is written: edit it there",
    },
    "verify-history": {"--all-fields": "is no more: --json has every field"},
}  # fmt: skip
"""By command and flag: what is said after the flag, with what to do instead."""
