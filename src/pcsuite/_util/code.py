"""Python files that a profile names and the suite executes: said where it happens, asked about, or left alone.

Whoever gets a profile from somebody else gets a program with it. Commands that look at a profile say which files they
execute, and can do without; on a terminal, a file from outside the project's folder is asked about, once for each text
it has had. Where nobody can be asked (continuous integration) it is executed, and that is said.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.text import describe
from pcsuite.errors import ConfigError

SLOW_S = 10.0
"""Seconds after which a file that is still being loaded is named: it may load a model, or never come to an end."""
_ANSWERS = "trusted_code.json"


class _Policy:
    refused = False
    said = False
    asks = False
    shown: ClassVar[set[str]] = set()


@contextmanager
def without_code() -> Iterator[None]:
    """Execute no file of a profile while the block runs."""
    before, _Policy.refused = _Policy.refused, True
    try:
        yield
    finally:
        _Policy.refused = before


@contextmanager
def saying_code() -> Iterator[None]:
    """Say on standard error which files of a profile are executed while the block runs, each once."""
    before, _Policy.said, _Policy.shown = _Policy.said, True, set()
    try:
        yield
    finally:
        _Policy.said = before


def ask_about_code() -> None:
    """Have a person asked from here on, where one is there; for the command line."""
    _Policy.asks = True


def is_refused() -> bool:
    """Whether files of a profile are not to be executed."""
    return _Policy.refused


def before_executing(path: Path, source: str) -> None:
    """What is to be done before a file with that text is executed.

    Raises :class:`ConfigError` where a person is asked about it and says no.
    """
    place = path.resolve()
    if _Policy.said and str(place) not in _Policy.shown:
        _Policy.shown.add(str(place))
        print(f"pcsuite: executes {path} (--no-code does without)", file=sys.stderr)
    if not _Policy.asks or place.is_relative_to(project_folder()) or _is_trusted(place, source):
        return
    try:
        can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):
        can_ask = False
    if not can_ask:
        return
    print(
        f"pcsuite: the profile's code {place} lies outside {project_folder()} and is about to be executed.\n"
        "Execute it, now and as long as its text stays the same? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        raise ConfigError(
            f"{place} was not executed", hint="read it first; plan, prompt and config check take --no-code"
        )
    _trust(place, source)


def execute(path: Path, source: str, name: str, *, once: bool = False) -> ModuleType:
    """The module that a file of the user's makes when it is executed, with that text; asked about first.

    Its folder is on the path from then on; ``once`` takes it away again afterwards. Raises :class:`ConfigError` of one
    line, with file and line, where it cannot be executed.
    """
    before_executing(path, source)
    folder = str(path.resolve().parent)
    module = ModuleType(name)
    module.__file__ = str(path)
    if once or folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    slow = threading.Timer(SLOW_S, _say_that_it_loads, (path,))
    slow.daemon = True
    slow.start()
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        raise ConfigError(f"{error.filename or path}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path}:{line_in(path, error) or 1}: {describe(error)}") from error
    else:
        return module
    finally:
        slow.cancel()
        if once:
            sys.path.remove(folder)


def _say_that_it_loads(path: Path) -> None:
    print(
        f"pcsuite: {path} has been loading for {SLOW_S:g} s and is waited for (Ctrl-C ends it)",
        file=sys.stderr,
        flush=True,
    )


def line_in(path: Path | str, error: BaseException) -> int | None:
    """The innermost line of a file that an error came through; ``None`` where it did not."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return frames[-1].lineno if frames else None


def project_folder() -> Path:
    """The folder of the project that one works in: the nearest with a repository, else the working folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "pcsuite" / _ANSWERS


def _answers() -> dict[str, str]:
    try:
        answers = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return answers if isinstance(answers, dict) else {}


def _is_trusted(place: Path, source: str) -> bool:
    return _answers().get(str(place)) == sha256_hex(source)


def _trust(place: Path, source: str) -> None:
    with suppress(OSError):  # then it is asked again
        _file().parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(
            _file(), json.dumps(_answers() | {str(place): sha256_hex(source)}, indent=1) + "\n"
        )
