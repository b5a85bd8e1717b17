"""What a prompt is held against: a file, else a run, else the prompt as it stands in git, in that order.

A reference is found before anything is asked, and says of what kind it is: a word may be a file, a run and a branch.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pcsuite._util.processes import child_environment
from pcsuite._util.text import one_line, shorten
from pcsuite.analysis.baseline import FORMAT
from pcsuite.errors import ConfigError, PcsuiteError, did_you_mean
from pcsuite.logging.segments import find_log, run_names

Kind = Literal["baseline", "run", "prompt", "git"]
_TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
_GIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Reference:
    """What ``--baseline`` names."""

    kind: Kind
    """``baseline``: a file of item scores; ``run``: a log; ``prompt``: another prompt's file; ``git``: the prompt as it
    was committed."""
    name: str
    """What it is called in tables and sentences."""
    words: str
    """Of what kind it is and where it was found, for a reader."""
    path: Path
    """The file that is read; of ``git`` the prompt's path within the commit."""
    text: bytes = b""
    """Of ``git``: the prompt's file as it was committed."""
    commit: str = ""
    """Of ``git``: the commit's hash."""

    @property
    def is_prompt(self) -> bool:
        """Whether it is a prompt, which is asked too."""
        return self.kind in ("prompt", "git")


def prompt_file(prompt: Path) -> tuple[Path, str]:
    """The file that a prompt stands in, and what names it there (``:NAME``); nothing where the file is the prompt."""
    file, colon, name = str(prompt).rpartition(":")
    if colon and not prompt.exists() and Path(file).is_file():
        return Path(file), f":{name}"
    return prompt, ""


def find_reference(name: str | Path, prompt: Path, output_dir: str | Path = "outputs") -> Reference:
    """What a name means: a file, else a run below ``output_dir``, else a git ref (``main``, ``HEAD~1``, ``v2:old.md``).

    Of a git ref the prompt's own file is meant, unless a path stands behind a colon. Raises ``ConfigError`` of one line
    where it is none of the three, or where the commit does not have the file.
    """
    text = str(name)
    if not text.strip():
        raise ConfigError("--baseline: it is empty", hint="a file, a run or a git ref: --baseline main")
    path, inside = prompt_file(Path(text))
    prompt, _ = prompt_file(prompt)
    if inside:
        return Reference("prompt", text, f"{text}, a prompt in a file", Path(text))
    if path.is_file():
        return _shadowing(_of_file(path), prompt)
    try:
        log = find_log(text, output_dir)
    except PcsuiteError:
        return _of_git(text, prompt, output_dir)
    return _shadowing(Reference("run", log.stem, f"run {log.stem} ({log})", log), prompt)


def _of_file(path: Path) -> Reference:
    if path.suffix.lower() in _TABLES:
        raise ConfigError(
            f"--baseline {path}: a table is no baseline",
            hint="another prompt's file, a .json that --save-baseline wrote, a run or a git ref",
        )
    if path.name.endswith((".jsonl", ".jsonl.zst", ".jsonl.gz")):
        return Reference("run", path.stem, f"the log {path}", path)
    with path.open("rb") as stream:
        head = stream.read(200)
    if path.suffix.lower() == ".json" and FORMAT.encode() in head:
        return Reference("baseline", path.name, f"the file {path}, a baseline's scores", path)
    return Reference("prompt", path.name, f"the file {path}, a prompt", path)


def _shadowing(reference: Reference, prompt: Path) -> Reference:
    """The reference, with a remark where git knows its name too and could be meant."""
    word = reference.path.name if reference.path.parent == Path() else reference.name
    known = _git(
        prompt, "for-each-ref", "--format=%(refname:short)", f"refs/heads/{word}", f"refs/tags/{word}"
    )
    if word in known.split():
        return replace(
            reference, words=f"{reference.words}; git has a ref of that name too, refs/heads/{word} means it"
        )
    return reference


def _of_git(text: str, prompt: Path, output_dir: str | Path) -> Reference:
    """The prompt as it stands at a git ref; in a fresh clone a branch may be there only as the remote's."""
    ref, _, inside = text.partition(":")
    commit = ref_known = ""
    for candidate in (ref, f"origin/{ref}"):
        # A word that begins with a dash would be a flag of git's.
        if ref and not ref.startswith("-"):
            commit = _git(prompt, "rev-parse", "--verify", "--quiet", f"{candidate}^{{commit}}").strip()
        if commit:
            ref_known = candidate
            break
    if not commit:
        raise ConfigError(f"--baseline {shorten(text)}: {_not_there(ref, prompt, output_dir)}")
    where = inside or f"./{prompt.name}"
    shown = f"{inside or prompt.name} at {ref_known}"
    shown_file = subprocess.run(
        ["git", "-C", str(prompt.parent), "show", f"{commit}:{where}"],
        capture_output=True, timeout=_GIT_SECONDS, check=False, env=child_environment(("GIT_",)),
    )  # fmt: skip
    if shown_file.returncode:
        raise ConfigError(
            f"--baseline {text}: the commit {commit[:7]} has no {inside or prompt.name}",
            hint=f"where it stood under another path: --baseline {ref}:old/path{prompt.suffix}",
        )
    words = f"{shown} (git, {commit[:7]})"
    return Reference("git", shown, words, Path(inside or prompt.name), shown_file.stdout, commit)


def _not_there(ref: str, prompt: Path, output_dir: str | Path) -> str:
    """Why a name is nothing, with what may be meant."""
    inside = _git(prompt, "rev-parse", "--is-inside-work-tree").strip() == "true"
    runs = run_names(output_dir)
    refs = _git(
        prompt, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes"
    )
    near = did_you_mean(ref, [*runs, *refs.split()])
    missing = f"no file, no run in {Path(output_dir) / 'runs'}"
    if not inside:
        tail = "" if runs else "a file, a run or, inside a git repository, a ref"
        return f"{missing}, and {prompt.parent} is in no git repository ({near if runs else tail})"
    shallow = _git(prompt, "rev-parse", "--is-shallow-repository").strip() == "true"
    fetch = f"this clone is shallow: git fetch origin {ref}" if shallow else near
    return f"{missing} and no git ref ({one_line(fetch)})"


def _git(prompt: Path, *words: str) -> str:
    """What git prints in the prompt's folder; nothing where it fails, or is not installed."""
    try:
        return subprocess.run(
            ["git", "-C", str(prompt.parent), *words],
            capture_output=True, timeout=_GIT_SECONDS, check=False, env=child_environment(("GIT_",)),
        ).stdout.decode("utf-8", "replace")  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
