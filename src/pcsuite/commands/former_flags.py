"""Flags that commands no longer take, and what takes their place.

``pcsuite.cli`` says so in one line where somebody types one; nothing else reads the table.
"""

from collections.abc import Mapping

_OF_RUNS = ("--until", "--margin", "--deviation", "--batch", "--batch-export", "--batch-import")


_key = "is now the profile's key {0}: --set {0}={1}".format
_CLUSTER = {
    "--address": "is taken by run alone: here the variable RAY_ADDRESS names the cluster",
    "--workers": "is taken by run alone: here the cluster's room and the profile's repro.num_workers decide",
}
_VERSION = {"--instructions-version": "is now --instructions V: a version, or the prompt's file"}
_NO_MODEL = "means nothing here, where no model is asked: leave it out"
_ASSUMED = ("accuracy", "correlation", "noise", "alpha", "affected")

FORMER_FLAGS: Mapping[str, Mapping[str, str]] = {
    "plan": {f"--{key}": f"is now --assume {key}=X" for key in _ASSUMED} | {
        "--target": "is now --assume power=X",
        "--look-every": _key("preregistration.stopping.batch", "N"),
    },
    "run": {"--look-every": _key("preregistration.stopping.batch", "N")},
    "run-task": {
        flag: f"is taken by run alone: pcsuite run --tasks TASK {flag} …"
        for flag in (*_OF_RUNS, "--executor", "--address", "--workers", "--regimes", "--model-option", "--json",
                     "--overwrite")
    },
    "ablate": {"--cache-dir": "is now the profile's key run.cache_dir: name a profile with --config", **_CLUSTER},
    "optimize": {"--seed": _key("repro.global_seed", "N"), **_CLUSTER},
    "promptbench": {
        **dict.fromkeys(_OF_RUNS, "did nothing here: a perturbation block is asked whole, call by call (run takes it)"),
        **_CLUSTER,
        "--overwrite": "did nothing here: the block goes into the run's log, which pcsuite run --overwrite starts anew",
        "--budget": _key("integrations.promptbench.query_budget", "N"),
        "--variants": _key("integrations.promptbench.variants", "N"),
    },
    "report": {"--model-option": _NO_MODEL},
    "rescore": {"--model-option": _NO_MODEL},
    "judge": {"--model-option": _NO_MODEL},
    "prompt": {
        "--model-option": _NO_MODEL,
        "--name": "means nothing here, where no run is read: leave it out",
        "--output-dir": _key("run.output_dir", "DIR"),
    },
    "list": {"--set": "is no more: put the key into the profile that --config names"},
    "log": {"--set": "is no more: put the key into the profile that --config names"},
    "verifier-pass": {"--regimes": _key("selection.decoding_regimes", "[D0]")},
    "models": {"--models-file": "means nothing here: the suite declares the providers, no models file does"},
    "index": {
        "--pages": "is taken by build alone: pcsuite index build --pages FILE, then search --index DIR",
        "--index-path": "is no more: an index lies in wiki_bm25 of --cache-dir, and the profile's key"
                        " integrations.retrieval.wiki_index_path may name the folder that build prints",
    },
    "import": {f"--{key}": f"is now --model-option {key}=…" for key in ("family", "size")},
    "improve": {f"--{key}": f"is now --accept {key.replace('-', '_')}=X" for key in ("margin", "min-gain", "patience")},
    "verify": _VERSION,
    "verify-all": _VERSION,
    "init-task": {
        "--title": "is now the key title of the task file that is written: edit it there",
        "--instruction": "is now the key instruction of the task file that is written: edit it there",
    },
    "verify-history": {"--all-fields": "is no more: --json has every field"},
}  # fmt: skip
"""By command and flag: what is said after the flag, with what to do instead."""
