"""``target``: a system of the user's own in a model's place: a Python function, a command, or an address.

It gets the rendered prompt, the item without its truth and the seed, and answers with a text, or with an object that
also says tokens, cost, steps and what it read. What is asked and answered is :mod:`pcsuite.engines.targets.calls`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, field_validator

from pcsuite._util.folder_template import Template
from pcsuite._util.secrets import masked, public_url, remember_environment
from pcsuite.config.definitions import Definition
from pcsuite.config.targets import TargetKind, TargetSpec
from pcsuite.engines.adapters.base import Decoding, Generation, ModelAdapter, Request
from pcsuite.engines.targets.addresses import (
    READABLE,
    AddressTarget,
    checked_path,
    checked_template,
    names_variable,
)
from pcsuite.engines.targets.calls import TargetCall
from pcsuite.engines.targets.commands import CommandTarget
from pcsuite.engines.targets.functions import FunctionTarget, given_function, load_function
from pcsuite.engines.targets.workspaces import Workspaces
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.prompts.verbatim import decode_files

T = TypeVar("T")


class TargetOptions(Definition):
    """Keys of a model entry whose provider is ``target``."""

    target: str
    """What it is: ``FILE.py:FUNCTION``, an address (``http://127.0.0.1:8000/chat``), or a command."""
    worker: bool = False
    """Of a command: it is kept, gets a line of JSON a call and answers with a line; without it, one process a call."""
    shell: bool = False
    """Of a command: it is given to the shell as it is written; without it, no shell is asked."""
    concurrency: int | None = Field(default=None, ge=1)
    """Most calls at once: by default as many as there are processors for a command, one for a plain function, and the
    profile's ``max_inflight`` for an ``async`` one and for an address."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that a call may take. What takes longer is ended; that is an outcome (``out_of_time``) and scores 0."""
    version: str | None = None
    """What is to be part of the target's identity and lies in no file: the version of a service, of a package."""
    files: tuple[str, ...] = ()
    """Files whose content is part of its identity, besides those that it names and the modules beside them."""
    in_folder: str = ""
    """Folder of which each call gets a fresh copy, with the prompt's files in place of its own. A command runs in it; a
    function and a service find its files by ``files``. Its content is part of the target's identity."""
    leave_out: tuple[str, ...] = ()
    """What of that folder no copy has, as paths from there: where results are written is left out by itself."""
    copies_in: str = ""
    """Where copies lie while calls work in them: on the template's file system they may share its blocks; by default
    the system's folder of temporary files."""
    deterministic: bool = False
    """Whether the same prompt, item and seed always give the same answer, so that a stored one may be used again."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Of an address: headers of the request. A secret is named by its variable, ``$NAME`` or ``${NAME}``, and stands
    nowhere itself."""
    body: Any = None
    """Of an address: the request as a template, in which ``{{ prompt }}``, ``{{ messages }}``, ``{{ item }}``,
    ``{{ item.COLUMN }}``, ``{{ input }}``, ``{{ seed }}`` and ``{{ files }}`` are filled in; by default the whole
    call."""
    answer: str | None = None
    """Of an address: where the answer lies in the response, as a JMESPath; by default ``output``, or it is a text."""
    read: dict[str, str] = Field(default_factory=dict)
    """Of an address: where else to look, as JMESPaths: ``tokens``, ``cost_usd``, ``steps``, ``tool_calls``,
    ``transcript``, ``loaded``, ``artifacts``, ``seed_honoured``."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    """Of an address: longest wait for a connection. One that is not made is a failed call, which is tried again."""
    target_folder: str = ""
    """Where it lies: its files are looked for there, and a command is run there. Found when the entry is read."""
    identity: str = ""
    """Hash of what it is made of; computed when the entry is read."""
    source_hash: str = ""
    """Of a function that a Python program gave: the hash of its source."""

    @field_validator("target")
    @classmethod
    def _names_something(cls, value: str) -> str:
        spec = _as_value_error(TargetSpec.read, value)
        if spec.kind == "http" and public_url(value) != value:
            raise ValueError("no credentials in the address: name their variable in a header")
        return value

    @field_validator("headers")
    @classmethod
    def _without_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not names_variable(text) and masked(text, name) != text:
                raise ValueError(
                    f"the header '{name}' holds a secret: name its variable, for example $APP_TOKEN"
                )
            if re.search(r"[\r\n]", name + text):
                raise ValueError(f"the header {name!r} has a line end in it")
        return value

    @field_validator("body", mode="before")
    @classmethod
    def _template(cls, value: Any) -> Any:
        return None if value is None else _as_value_error(checked_template, value)

    @field_validator("answer")
    @classmethod
    def _path(cls, value: str | None) -> str | None:
        return None if value is None else _as_value_error(checked_path, value)

    @field_validator("read")
    @classmethod
    def _paths(cls, value: dict[str, str]) -> dict[str, str]:
        for name, path in value.items():
            if name not in READABLE:
                raise ValueError(f"'{name}' is nothing that is read ({did_you_mean(name, READABLE)})")
            _as_value_error(checked_path, path)
        return value

    @field_validator("files", "leave_out", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


def _as_value_error(check: Callable[[Any], T], value: Any) -> T:
    """What a check makes of a value; what it refuses is told as pydantic wants it."""
    try:
        return check(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


class TargetAdapter(ModelAdapter):
    """A function, a command or a service that answers in a model's place."""

    Options: ClassVar[type[BaseModel]] = TargetOptions
    takes_items: ClassVar[bool] = True
    own_costs: ClassVar[bool] = True
    options: TargetOptions

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        super().__init__(model_id, options)
        chosen = self.options
        remember_environment()
        self.cacheable = chosen.deterministic and not chosen.in_folder  # what it did there would be gone
        spec = TargetSpec.read(chosen.target)
        folder = Path(chosen.target_folder or ".")
        name, seconds = f"target '{spec.text}'", chosen.timeout_s
        self._copies: Workspaces | None = None
        if chosen.in_folder:
            template = Template.read(chosen.in_folder, leave_out=chosen.leave_out)
            self._copies = Workspaces(template, chosen.copies_in or None)
        self._target: FunctionTarget | CommandTarget | AddressTarget
        self.max_concurrency = chosen.concurrency
        self._refuse_others(spec.kind)
        if spec.kind == "http":
            self._target = AddressTarget(
                name,
                chosen.target,
                seconds=seconds,
                connect_seconds=chosen.connect_timeout_s,
                headers=chosen.headers,
                body=chosen.body,
                answer=chosen.answer,
                read=chosen.read,
            )
        elif spec.kind == "command":
            self.max_concurrency = chosen.concurrency or os.cpu_count() or 1
            self._target = CommandTarget(
                name,
                spec.text if chosen.shell else spec.words,
                folder,
                seconds=seconds,
                worker=chosen.worker,
                concurrency=self.max_concurrency,
            )
        else:
            if spec.kind == "function":
                path = folder / spec.file
                target = FunctionTarget(
                    name, load_function(path, spec.function), seconds=seconds, file=str(path)
                )
            else:
                target = FunctionTarget(name, given_function(spec.function), seconds=seconds)
            self._target = target
            if chosen.concurrency is None and not target.is_async:
                self.max_concurrency = 1

    def _refuse_others(self, kind: TargetKind) -> None:
        """Refuse options that say something of another kind of target."""
        own = {"command": ("worker", "shell"), "http": ("headers", "body", "answer", "read")}
        words = {"command": "commands", "http": "addresses"}
        for other, options in own.items():
            for option in options if other != kind else ():
                if getattr(self.options, option):
                    raise ConfigError(
                        f"model '{self.model_id}': '{option}' is for {words[other]}, and the target is"
                        f" '{self.options.target}'",
                        hint="leave it out",
                    )

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Ask it with a prompt alone: no item, no files."""
        return self._target.ask_blocking(TargetCall.of(Request(prompt, decoding, seed)))

    async def agenerate(self, request: Request) -> Generation:
        """Ask it with the prompt, and the item and files of the request's context."""
        if request.constraint is not None:
            return self.generate_constrained(
                request.prompt, request.decoding, request.seed, request.constraint
            )
        call = TargetCall.of(request)
        return await (self._target.ask(call) if self._copies is None else self._ask_in_copy(call, request))

    async def _ask_in_copy(self, call: TargetCall, request: Request) -> Generation:
        """The answer of a call that works in a copy of the folder; the copy goes along with the answer."""
        assert self._copies is not None
        placed = decode_files(request.prompt)
        workspace = await asyncio.to_thread(self._copies.take, placed)
        try:
            paths = {path: str(workspace.folder / path) for path, text in placed.items() if text is not None}
            answer = await self._target.ask(replace(call, folder=str(workspace.folder), files=paths))
        except BaseException:
            await asyncio.shield(asyncio.to_thread(workspace.drop))
            raise
        answer["workspace"] = workspace
        return answer

    def identity(self) -> Mapping[str, str]:
        """What it is and the hash of what it is made of."""
        version = {"version": self.options.version} if self.options.version else {}
        return {
            "engine": "target",
            "target": self.options.target,
            "identity": self.options.identity,
            **version,
        }

    async def aclose(self) -> None:
        """End its processes and close its connections."""
        if isinstance(self._target, AddressTarget):
            await self._target.aclose()
        await super().aclose()

    def close(self) -> None:
        """End its processes, and remove the copies that they worked in."""
        self._target.close()
        if self._copies is not None:
            self._copies.close()
