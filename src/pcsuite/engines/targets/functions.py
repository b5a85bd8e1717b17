"""Python functions as targets: loaded from their file and called in this process, where clients and models are kept."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TextIO, cast

from pcsuite._util import code, signals
from pcsuite._util.files import unreadable_text
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.secrets import redacted_end
from pcsuite._util.text import describe
from pcsuite._util.threads import leave_working_folder
from pcsuite.config.targets import imported_beside
from pcsuite.engines.adapters.base import Generation
from pcsuite.engines.targets.calls import STDERR_KEPT, AnswerReader, TargetCall, out_of_time
from pcsuite.errors import ConfigError, EngineError

ARGUMENTS = ("prompt", "messages", "item", "seed", "files")
"""What a function may take, by these names."""
_CANCEL_WAIT_S = 1.0
_loaded: dict[tuple[str, str], ModuleType] = {}
_given: dict[str, Callable[..., Any]] = {}


def remember_function(name: str, function: Callable[..., Any]) -> None:
    """Make a function of this process known by a name, for entries whose target is ``memory:NAME``."""
    _given[name] = function


class FunctionTarget:
    """A function of the user's: plain ones are called in threads, asynchronous ones on the event loop.

    Arguments are given by name, as many of :data:`ARGUMENTS` as its signature takes.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], *, seconds: float | None, file: str = ""
    ) -> None:
        """``seconds`` is its time limit; a plain function that exceeds it cannot be ended, and is no longer waited for.

        Raises ``ConfigError`` where it cannot be called with what a call has.
        """
        self.name = name
        self._function = function
        self._file = file
        self._seconds = seconds
        self._reader = AnswerReader(name)
        self._takes, self._takes_messages = _arguments(name, function)

    @property
    def is_async(self) -> bool:
        """Whether it is awaited on the loop."""
        return is_async(self._function)

    async def ask(self, call: TargetCall) -> Generation:
        """The answer to a call; what the function raises is a failed call with file and line."""
        arguments = self._arguments_of(call)
        with _keeping_prints() as said:
            answer = await self._answer(arguments)
            if printed := _printed(said):
                answer["stderr"] = printed
        return answer

    async def _answer(self, arguments: Mapping[str, Any]) -> Generation:
        started, surroundings = time.monotonic(), _Surroundings.now()
        task: asyncio.Future[Any]
        try:
            if self.is_async:
                task = asyncio.ensure_future(_contained(self._function(**arguments)))
            else:
                task = _in_thread(lambda: self._function(**arguments))
            value = await self._in_time(task, started)
            if inspect.isawaitable(value):
                value = await self._in_time(asyncio.ensure_future(_contained(value)), started)
        except _TimeIsUpError:
            return out_of_time(time.monotonic() - started)
        except asyncio.CancelledError:
            task.cancel()
            raise
        except Exception as caught:
            if isinstance(caught, EngineError):
                raise
            error = caught.error if isinstance(caught, _EscapedError) else caught
            where = self._line(error)
            hint = None
            if isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
                hint = (
                    "a decorator that takes **kwargs hides what its function takes: functools.wraps shows it"
                )
            raise EngineError(
                f"{self.name}: {where}{describe(error)}",
                hint=hint,
                retryable=isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError)),
            ) from error
        if changed := surroundings.restored():
            raise EngineError(f"{self.name} {changed}", hint=_AS_A_COMMAND, refuses_all=True)
        answer = self._reader.value(value)
        answer["latency_ms"] = round((time.monotonic() - started) * 1000, 3)
        return answer

    def ask_blocking(self, call: TargetCall) -> Generation:
        """The answer to a call, from a thread without a loop."""
        return asyncio.run(self.ask(call))

    def close(self) -> None:
        """Nothing is held: what the function keeps is its module's."""

    async def _in_time(self, task: asyncio.Future[Any], started: float) -> Any:
        left = None if self._seconds is None else max(0.0, started + self._seconds - time.monotonic())
        done, _ = await asyncio.wait({task}, timeout=left)
        if not done:
            task.cancel()
            _, stubborn = await asyncio.wait({task}, timeout=_CANCEL_WAIT_S)
            if stubborn and isinstance(task, asyncio.Task):
                # It swallows its cancellation, and the end of the loop would wait for it for ever.
                asyncio._unregister_task(task)
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            raise _TimeIsUpError
        if task.cancelled():
            raise EngineError(f"{self.name} cancelled its own call")
        error = task.exception()
        if error is not None and not isinstance(error, Exception) and signals.received() is None:
            raise _EscapedError(error)
        return task.result()

    def _arguments_of(self, call: TargetCall) -> dict[str, Any]:
        if call.prompt is None and "prompt" in self._takes and not self._takes_messages:
            raise EngineError(
                f"{self.name} takes 'prompt', and the prompt is a chat of {len(call.messages)} messages",
                hint="take 'messages', a list of {role, content}",
                refuses_all=True,
                unasked=True,
            )
        values = {
            "prompt": call.prompt,
            "messages": [dict(message) for message in call.messages],
            "item": dict(call.item),
            "seed": call.seed,
            "files": dict(call.files),
        }
        return {name: values[name] for name in self._takes}

    def _line(self, error: BaseException) -> str:
        """``app.py:12: ``, the innermost line of the function's own file; empty where there is none."""
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self._file]
        return f"{Path(self._file).name}:{frames[-1].lineno}: " if frames else ""


_said: ContextVar[deque[str] | None] = ContextVar("said", default=None)
"""What the call under way has printed; a call's tasks and its thread have its context."""
_MOST_PRINTS = 2_000


class _PerCall:
    """Standard output to which calls print: what they say belongs to their rows, and not into the result."""

    def __init__(self, output: TextIO) -> None:
        self.output = output

    def write(self, text: str) -> int:
        """Keep what a call prints; anything else goes where it would have gone."""
        said = _said.get()
        if said is None:
            return self.output.write(text)
        said.append(text[-STDERR_KEPT:])
        return len(text)

    def __getattr__(self, name: str) -> Any:
        if name == "writelines":  # the other way to write; the rest is the output's own
            return lambda lines: self.write("".join(lines))
        return getattr(self.output, name)


_printing = threading.Lock()
_under_way = 0


@contextmanager
def _keeping_prints() -> Iterator[deque[str]]:
    """Standard output is :class:`_PerCall` until the last call that is under way has ended; yields what one prints."""
    global _under_way
    with _printing:
        _under_way += 1
        if not isinstance(sys.stdout, _PerCall):
            sys.stdout = cast(TextIO, _PerCall(sys.stdout))
    said: deque[str] = deque(maxlen=_MOST_PRINTS)
    before = _said.set(said)
    try:
        yield said
    finally:
        _said.reset(before)
        with _printing:
            _under_way -= 1
            if not _under_way and isinstance(sys.stdout, _PerCall):
                sys.stdout = sys.stdout.output


def _printed(said: Iterable[str]) -> str:
    """The end of what a call printed, as a row keeps it."""
    return redacted_end("".join(said).encode("utf-8", "replace"), STDERR_KEPT, kept=4 * STDERR_KEPT).strip()


class _TimeIsUpError(Exception):
    """The function took longer than it may."""


class _Surroundings(NamedTuple):
    """What a function shares with the run that calls it."""

    folder: str
    output: TextIO

    @classmethod
    def now(cls) -> _Surroundings:
        """As they are before a call."""
        folder = ""
        with suppress(OSError):
            folder = str(Path.cwd())
        return cls(folder, sys.stdout)

    def restored(self) -> str:
        """Put back what a call has changed; what must be said of it, empty where nothing needs to be."""
        if sys.stdout is not self.output:
            sys.stdout = self.output
        if self.output.closed:
            return "closed standard output, where the result is to be shown"
        now = self.now().folder
        if self.folder and now != self.folder:
            os.chdir(self.folder)
            return f"went to another working folder ({now}), from which no result of the run would be found"
        return ""


_AS_A_COMMAND = "give cwd= to what it starts, or ask it as a command: --target 'python …'"


class _EscapedError(Exception):
    """What would end a program (``SystemExit``, a panic of an extension, a cancellation): it fails its call alone."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


async def _contained(value: Awaitable[Any]) -> Any:
    """What an awaitable returns; what of its errors a task would pass on to the event loop stays with the call."""
    try:
        return await value
    except (KeyboardInterrupt, SystemExit) as error:
        if signals.received() is not None:  # it is the user's, and meant for us
            raise
        raise _EscapedError(error) from error


def _in_thread(job: Callable[[], Any]) -> asyncio.Future[Any]:
    """A job in a thread that nobody has to wait for when the program ends: it may never return."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        leave_working_folder()
        try:
            value = job()
        except Exception as raised:
            # No future can hold a StopIteration.
            error = _EscapedError(raised) if isinstance(raised, StopIteration) else raised
        except BaseException as raised:
            error = _EscapedError(raised)
        with suppress(RuntimeError):  # the loop is gone: nobody waits for it any more
            loop.call_soon_threadsafe(settle, value, error)

    inside = copy_context()
    threading.Thread(target=inside.run, args=(work,), name="target-function", daemon=True).start()
    return future


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: an ``async def``, or an object whose ``__call__`` is one."""
    call = getattr(function, "__call__", None)  # noqa: B004  the bound method is looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _arguments(name: str, function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The arguments of a call that a function takes, and whether ``messages`` is among them."""
    if inspect.isclass(function):
        raise ConfigError(f"{name} is a class", hint="name a function, or an object that can be called")
    call = getattr(function, "__call__", None)  # noqa: B004  the bound method is looked at
    if any(map(inspect.isgeneratorfunction, (function, call))) or any(
        map(inspect.isasyncgenfunction, (function, call))
    ):
        raise ConfigError(
            f"{name} is a generator, and an answer is read whole",
            hint='a function that returns "".join(…) of what it yields',
        )
    if not callable(function):
        runnable = callable(getattr(function, "invoke", None))
        hint = "def answer(prompt, item): return chain.invoke(…)" if runnable else "name a function"
        raise ConfigError(f"{name} is {type(function).__name__}, which cannot be called", hint=hint)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ConfigError(f"{name} does not say which arguments it takes", hint="wrap it in a def") from None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return ARGUMENTS, True
    takes = []
    for each in parameters:
        if each.name in ARGUMENTS and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            takes.append(each.name)
        elif each.name in ARGUMENTS and each.kind is each.POSITIONAL_ONLY:
            raise ConfigError(
                f"{name} takes '{each.name}' by its position alone",
                hint="arguments are given by name: no '/'",
            )
        elif each.default is each.empty and each.kind is not each.VAR_POSITIONAL:
            raise ConfigError(
                f"{name} takes '{each.name}', which no call has",
                hint=f"a call gives by name: {', '.join(ARGUMENTS)}",
            )
    if not set(takes) & {"prompt", "messages"}:
        raise ConfigError(
            f"{name} takes neither 'prompt' nor 'messages'",
            hint=f"def {name.rpartition(':')[2]}(prompt, item): …",
        )
    return tuple(takes), "messages" in takes


def load_function(path: Path, name: str) -> Callable[..., Any]:
    """The function of a file, its folder on the path from now on, so that it can import what lies beside it.

    A file is executed once for each text it has, so that what it holds (a client, a model) is kept; one whose function
    is asynchronous is executed anew for each event loop, since its clients belong to one. Raises ``ConfigError`` of
    one line where the file cannot be executed or has no such function.
    """
    try:
        source = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {unreadable_text(path, error)}") from error
    beside = imported_beside(path)
    texts = sha256_hex("\0".join([source, *(file.read_text(encoding="utf-8-sig") for file in beside)]))
    key = (str(path.resolve()), texts)
    module = _loaded.get(key)
    if module is None:
        if code.is_refused():
            raise ConfigError(f"{path} was not executed", hint="leave --no-code out to ask it")
        _make_room_for(path, beside)
        module = code.execute(path, source, f"pcsuite_target_{path.stem}_{texts[:8]}")
    function: Any = module
    for part in name.split("."):
        if not hasattr(function, part):
            own = module.__name__
            there = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == own]
            hint = f"it has {', '.join(there)}" if there else f"write def {name}(prompt, item): …"
            raise ConfigError(f"{path}: no function '{name}'", hint=hint)
        function = getattr(function, part)
    if not is_async(function):
        _loaded[key] = module
    return function  # type: ignore[no-any-return]


def _make_room_for(path: Path, beside: Iterable[Path]) -> None:
    """Have modules beside a file imported as they are now; raise where another folder's are loaded by their names.

    Python has one module of a name: a second target would silently be asked with the first one's.
    """
    root = path.resolve().parent
    for file in beside:
        parts = file.relative_to(root).with_suffix("").parts if file.is_relative_to(root) else ()
        name = ".".join(parts[:-1] if parts[-1:] == ("__init__",) else parts)
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if loaded is None:
            continue
        if Path(loaded).resolve() != file:
            raise ConfigError(
                f"{path} imports '{name}', and another {name} ({loaded}) is loaded already",
                hint=f"ask one of the two as a command: --target 'python {path.name}'",
            )
        del sys.modules[name]


def given_function(name: str) -> Callable[..., Any]:
    """The function that this process knows by a name; ``ConfigError`` where a run is taken up without it."""
    if name not in _given:
        raise ConfigError(
            f"the target '{name}' is a function that a Python program gave, and only that program has it",
            hint="run the program again, or put the function into a file: --target app.py:answer",
        )
    return _given[name]


def source_of(function: Callable[..., Any]) -> str | None:
    """The text of a function's file, or of the function where it has none; ``None`` where nobody knows it."""
    subject: Any = inspect.unwrap(function) if callable(function) else function
    if not (inspect.isfunction(subject) or inspect.ismethod(subject)):
        subject = type(subject)
    with suppress(OSError, TypeError, UnicodeDecodeError):
        file = inspect.getsourcefile(subject)
        if file and Path(file).is_file():
            return Path(file).read_text(encoding="utf-8-sig")
    with suppress(OSError, TypeError):
        return inspect.getsource(subject)
    return None
