"""Every error a user can meet.

PcsuiteError
├── ConfigError          a profile or a definition file is wrong
├── DataError            items, exports or samples cannot be read
├── PromptError          a condition cannot be rendered
├── MissingExtraError    an optional dependency is not installed
├── IntegrationError     another tool is not installed, or does not do its work
├── EngineError          a model call failed (``retryable`` says whether another try can help)
│   └── ConstraintUnavailableError   no backend can enforce the constraint on this model
├── LogError             the run log cannot be read or written
│   └── RunLockedError   another process holds the run
├── ServerDownError      a model's server cannot be reached, and never answered
├── BudgetExceededError  the run reached its token or cost limit
├── ErrorRateError       too many calls failed
├── RunStoppedError      somebody asked for the end of the run
├── UnansweredError      calls failed that nothing can be concluded without
└── AnalysisError        a table or a statistic cannot be computed

The command line prints ``str(error)`` and exits with ``exit_code`` (:class:`Exit`); only ``--debug`` shows a traceback.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
import shlex
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

CallOutcome = Literal[
    "answered", "filtered", "refused", "cut", "too_long", "out_of_time", "failed", "timed_out"
]  # fmt: skip
"""What became of a call. The last two are the transport's, so the answer is missing; all others are the item's own:

answered, or filtered by the provider, refused by the model, cut at the token limit, too long for the context, out of
the time limit of the system that was asked; failed, or timed out, on the way.
"""
MISSING_OUTCOMES: frozenset[CallOutcome] = frozenset({"failed", "timed_out"})
"""Outcomes of the transport: asked again the call may be answered, so the answer is missing. Others are the item's."""


class Exit(IntEnum):
    """How a command ended; the same for all of them, and listed in ``docs/reference/commands.md``."""

    DONE = 0
    BELOW_GATE = 1
    """The work is done, and a check that was asked for does not pass: a gate, a regression, a damaged log."""
    BAD_INPUT = 2
    """What was given cannot be used: words, files, models, a disk that is full."""
    STOPPED = 3
    """The budget is used up, too many calls failed, or somebody stopped the run; finished rows are kept."""
    FAILED_ROWS = 4
    """Everything was tried, and some of it failed; the same command tries those again."""
    UNREACHABLE = 5
    """A model's server cannot be reached; finished rows are kept."""
    FAULT = 70
    """A fault of the suite itself."""
    HUNG_UP = 129
    """The terminal went away (SIGHUP); finished work is kept."""
    INTERRUPTED = 130
    """Ctrl-C; finished work is kept."""
    OUTPUT_CLOSED = 141
    """Whoever read the output (``head``, say) went away before it was all written; finished work is kept."""
    TERMINATED = 143
    """SIGTERM; finished work is kept."""


class PcsuiteError(Exception):
    """Base class: one line that says what is wrong, where, and the remedy."""

    exit_code = Exit.BAD_INPUT

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        text = f"{message} ({hint})" if hint else message
        super().__init__("\n".join(map(_bounded, text.split("\n"))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by content, so that an error crosses processes whatever its constructor takes."""
        return _restored, (type(self), self.args, self.__dict__)


_LONGEST_LINE = 900
"""Characters of a line that is printed; what a file holds may be quoted in it, however long."""


def _bounded(line: str) -> str:
    # Both ends: the file's name stands first and the remedy last.
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 303]} … {line[-300:]}"


def _restored(kind: type[PcsuiteError], arguments: tuple[Any, ...], state: dict[str, Any]) -> PcsuiteError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class ConfigError(PcsuiteError):
    """A profile or a definition file is wrong."""


class DataError(PcsuiteError):
    """Items, exports or samples cannot be read."""


class OutOfTimeError(PcsuiteError):
    """What a user brought (a pattern, a function) took longer than its limit, and was ended."""


class OutOfMemoryError(PcsuiteError):
    """What a user brought took more memory than its limit, and was ended."""


class PromptError(PcsuiteError):
    """A condition cannot be rendered."""


class MissingExtraError(PcsuiteError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        self.module = module
        self.extra = extra
        super().__init__(f"{module} is not installed", hint=install_words(extra))


def install_words(extra: str) -> str:
    """The command that brings an extra into this installation, ready to be pasted.

    An editable checkout and a wheel's file are named where they lie, a repository by its address. Of any other
    installation the extra's own requirements are named: the package's bare name may be somebody else's in an index.

    >>> install_words("view").startswith("pip install ")
    True
    """
    # Here, since they take longer to import than most commands take to answer.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        installed = distribution(_PACKAGE)
        source = json.loads(installed.read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):  # run from its source, without being installed
        return f"pip install -e '.[{extra}]'"
    url = str(source.get("url", ""))
    path = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if path is not None and path.exists():
        folder = "." if path == Path.cwd() else str(path)
        editable = "-e " if source.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}{shlex.quote(f'{folder}[{extra}]')}"
    if "vcs_info" in source:
        vcs = source["vcs_info"]
        revision = vcs.get("requested_revision") or vcs.get("commit_id", "")
        return f"pip install '{_PACKAGE}[{extra}] @ {vcs['vcs']}+{url}{f'@{revision}' if revision else ''}'"
    if url.startswith(("http:", "https:")):
        return f"pip install '{_PACKAGE}[{extra}] @ {url}'"
    return f"pip install {' '.join(_requirements(installed.requires or (), extra))}"


_PACKAGE = "prompt-control-suite"


def _requirements(requires: Iterable[str], extra: str) -> list[str]:
    """What an extra asks for, each quoted for a shell; other extras of ours that it names are resolved."""
    listed: dict[str, None] = {}
    for line in requires:
        requirement, _, marker = line.partition(";")
        if not re.search(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""", marker):
            continue
        of_ours = re.match(rf"{_PACKAGE}\[([\w,-]+)\]", requirement.strip())
        if of_ours is None:
            listed[f"'{requirement.strip()}'"] = None
        else:
            for name in of_ours[1].split(","):
                listed |= dict.fromkeys(_requirements(requires, name))
    return list(listed)


class IntegrationError(PcsuiteError):
    """Another tool (PromptBench, HELM) is not installed, or does not do its work."""


class NotInstalledError(IntegrationError):
    """Another tool is not installed; the hint is the command that installs it."""


class EngineError(PcsuiteError):
    """A model call failed."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        unreachable: bool = False,
        outcome: CallOutcome = "failed",
        refuses_all: bool = False,
        refused: tuple[str, ...] = (),
        unasked: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.outcome: CallOutcome = outcome
        """What a row says of the call, should no other try be answered."""
        self.unreachable = unreachable
        """Whether nothing listens at the address, or it has no such name."""
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.refuses_all = refuses_all
        """Whether it speaks of the key, the account, the address or the model's name, not of the one call."""
        self.refused = refused
        """Names in a server's refusal of parameters, likeliest first; an adapter knows which of them it sent."""
        self.unasked = unasked
        """Whether it happened before anything was asked, so that nothing was used."""

    def reworded(self, message: str, *, hint: str | None) -> EngineError:
        """The same error in other words; its kind, status and all that the retry policy goes by stay."""
        kind = ConstraintUnavailableError if isinstance(self, ConstraintUnavailableError) else EngineError
        return kind(
            message,
            hint=hint,
            retryable=self.retryable,
            status=self.status,
            retry_after=self.retry_after,
            unreachable=self.unreachable,
            outcome=self.outcome,
            refuses_all=self.refuses_all,
            refused=self.refused,
            unasked=self.unasked,
        )


class ConstraintUnavailableError(EngineError):
    """No backend can enforce the constraint on this model."""


class ServerDownError(PcsuiteError):
    """A model's server cannot be reached, and has not answered before: no other call would be either."""

    exit_code = Exit.UNREACHABLE


class LogError(PcsuiteError):
    """The run log cannot be read or written."""


class RunLockedError(LogError):
    """Another process holds the run."""


class BudgetExceededError(PcsuiteError):
    """The run reached its token or cost limit."""

    exit_code = Exit.STOPPED


class ErrorRateError(PcsuiteError):
    """Too many calls failed."""

    exit_code = Exit.STOPPED


class RunStoppedError(PcsuiteError):
    """Somebody asked for the end of the run."""

    exit_code = Exit.STOPPED


class UnansweredError(PcsuiteError):
    """Calls failed that nothing can be concluded without; what was answered is kept."""

    exit_code = Exit.FAILED_ROWS


class AnalysisError(PcsuiteError):
    """A table or a statistic cannot be computed."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The hint for a name that is not among the choices: the closest of them, or else what they are.

    Case counts for little; of more than twelve choices the first twelve are listed.

    >>> did_you_mean("agnews", ["agnews_json", "gsm8k"]), did_you_mean("x", ["b", "a"])
    ("did you mean 'agnews_json'?", 'choose from: a, b')
    """
    known = sorted(set(choices))
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:
        folded = {choice.casefold(): choice for choice in known}
        close = [folded[m] for m in difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)]
    if close:
        return f"did you mean '{close[0]}'?"
    if not known:
        return "none are defined"
    shown = ", ".join(known[:12])
    return f"choose from: {shown}" + (", …" if len(known) > 12 else "")


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or raise ``MissingExtraError`` with the extra that brings it.

    ``extra`` is one of the package's, ``stats`` say. A module that is there but fails
    on an import of its own raises that error as it is.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise
        raise MissingExtraError(top, extra) from error
