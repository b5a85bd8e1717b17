"""Flags that commands no longer list, and what takes their place.

A flag whose value another one takes now (:class:`Moved`) keeps working: it is read as that one, and a line says so. Of
any other the line says what to do instead, and the command ends.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Moved(NamedTuple):
    """A flag that another one stands for now."""

    flag: str
    value: str = "{}"
    """What that one is given, with the former flag's value in place of ``{}``."""

    def __str__(self) -> str:
        return f"is now {self.flag} {self.value.format('X')}"


_OF_RUNS = ("--until", "--margin", "--deviation", "--batch", "--batch-export", "--batch-import")


_CLUSTER = {
    "--address": "is taken by run alone: here the variable RAY_ADDRESS names the cluster",
    "--workers": "is taken by run alone: here the cluster's room and the profile's repro.num_workers decide",
}
_VERSION = {"--instructions-version": Moved("--instructions")}
_LOOKS = {"--look-every": Moved("--set", "preregistration.stopping.batch={}")}
_NO_MODEL = "means nothing here, where no model is asked: leave it out"
_ASSUMED = ("accuracy", "correlation", "noise", "alpha", "affected")

FORMER_FLAGS: Mapping[str, Mapping[str, str | Moved]] = {
    "plan": {
        **{f"--{key}": Moved("--assume", key + "={}") for key in _ASSUMED},
        **_LOOKS,
    },
    "run": _LOOKS,
    "run-task": {
        flag: f"is taken by run alone: pcsuite run --tasks TASK {flag} …"
        for flag in (*_OF_RUNS, "--executor", "--address", "--workers", "--regimes", "--model-option", "--json",
                     "--overwrite")
    },
    "ablate": _CLUSTER,
    "optimize": _CLUSTER,
    "promptbench": {
        **dict.fromkeys(_OF_RUNS, "did nothing here: a perturbation block is asked whole, call by call (run takes it)"),
        **_CLUSTER,
        "--overwrite": "did nothing here: the block goes into the run's log, which pcsuite run --overwrite starts anew",
        "--budget": Moved("--set", "integrations.promptbench.query_budget={}"),
        "--variants": Moved("--set", "integrations.promptbench.variants={}"),
    },
    "report": {"--model-option": _NO_MODEL},
    "rescore": {"--model-option": _NO_MODEL},
    "judge": {"--model-option": _NO_MODEL},
    "prompt": {
        "--model-option": _NO_MODEL,
        "--name": "means nothing here, where no run is read: leave it out",
        "--output-dir": Moved("--set", "run.output_dir={}"),
    },
    "list": {"--set": "is no more: put the key into the profile that --config names"},
    "log": {"--set": "is no more: put the key into the profile that --config names"},
    "verifier-pass": {"--regimes": Moved("--set", "selection.decoding_regimes=[{}]")},
    "models": {"--models-file": "means nothing here: the suite declares the providers, no models file does"},
    "index": {
        "--pages": "is taken by build alone: pcsuite index build --pages FILE, then search --index DIR",
        "--index-path": "is no more: an index lies in wiki_bm25 of --cache-dir, and the profile's key"
                        " integrations.retrieval.wiki_index_path may name the folder that build prints",
    },
    "import": {f"--{key}": Moved("--model-option", key + "={}") for key in ("family", "size")},
    "improve": {
        f"--{key}": Moved("--accept", key.replace("-", "_") + "={}") for key in ("margin", "min-gain", "patience")
    },
    "verify": _VERSION,
    "verify-all": _VERSION,
    "init-task": {
        "--title": "is now the key title of the task file that is written: edit it there",
        "--instruction": "is now the key instruction of the task file that is written: edit it there",
    },
}  # fmt: skip
"""By command and flag: what stands for it now, or what to do instead."""


def current_words(command: str, words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words of a command with moved flags as they are written now, and a note on each.

    >>> current_words("plan", ["--power", "--alpha", "0.01"])
    (['--power', '--assume', 'alpha=0.01'], ['--alpha is now --assume alpha=X'])
    """
    moved = {name: to for name, to in FORMER_FLAGS.get(command, {}).items() if isinstance(to, Moved)}
    current: list[str] = []
    notes: list[str] = []
    pending = iter(words)
    for word in pending:
        name, joined, value = word.partition("=")
        if word == "--":
            return [*current, word, *pending], notes
        if name not in moved:
            current.append(word)
            continue
        text = value if joined else next(pending, None)
        notes.append(f"{name} {moved[name]}")
        # Without a value argparse says what is missing.
        current += [moved[name].flag] + ([] if text is None else [moved[name].value.format(text)])
    return current, notes
