"""A folder of one's own: prompt, table, scorer, task and profile, so that it runs from anywhere and can be sent on.

With a prompt its blocks become operators and the profile asks the prompt with and without each of them, as
``pcsuite ablate`` does; without one the table becomes a task and the profile asks the ladder of conditions.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from pcsuite._util.files import sha256_file, write_errors
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.study import as_yaml, prepare
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.profile import check_run_name
from pcsuite.data.init_task import (
    TableRequest,
    TaskRequest,
    answer_column,
    id_column,
    init_task,
    input_columns,
    likely_kind,
    task_name,
)
from pcsuite.data.table_files import read_table
from pcsuite.errors import ConfigError
from pcsuite.evaluation.own_scorer import check_scorer
from pcsuite.prompts.sources import PromptFile
from pcsuite.runners.estimate import estimate_plan
from pcsuite.runners.plan import build_plan

PROFILE = "profile.yaml"
UNFINISHED = ".init-unfinished"
"""There while ``init`` writes the folder: where it was killed the same command goes on."""
CACHE = ".cache"
GIT_IGNORES = f"""\
# Results and stored answers stay here; the items that the profile asks are part of it.
outputs/
{CACHE}/*
!{CACHE}/datasets/
"""


@dataclass(frozen=True, slots=True)
class ScaffoldRequest(TableRequest):
    """What ``pcsuite init`` is asked for; every field has the flag of its name."""

    folder: Path
    data: Path
    prompt: Path | None = None
    base_url: str | None = None
    append_input: bool = False

    @property
    def name(self) -> str:
        """Name of the run and of the task: the folder's."""
        return self.folder.resolve().name


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A folder that was written, and what running it takes."""

    folder: Path
    profile: Path
    reading: str
    """What was concluded about the table."""
    related: str
    """Which items are related and what follows, in a sentence; empty where each stands for itself."""
    rows: int
    max_tokens: int
    """Tokens of all rows where every answer runs to its limit."""


def scaffold(request: ScaffoldRequest) -> Scaffold:
    """Write the folder, check that its profile runs, and say what it takes; no model is called.

    Nothing is written where something is wrong: raises ``ConfigError``, ``DataError`` or ``PromptError`` of one line.
    A folder with other files in it is refused unless ``overwrite`` is set; then files of these names are replaced.
    """
    try:
        check_run_name(request.name)
    except ValueError as error:
        raise ConfigError(f"{request.folder}: the folder names the run: {error}") from None
    for flag in ("budget_usd", "budget_tokens", "limit"):
        value = getattr(request, flag)
        if value is not None and not value > 0:  # NaN is not
            raise ConfigError(f"--{flag.replace('_', '-')} {value:g}: give a number above 0")
    if request.folder.exists() and not request.folder.is_dir():
        raise ConfigError(f"{request.folder} is a file", hint="name a new folder")
    if (request.folder / UNFINISHED).is_file():
        request = replace(request, overwrite=True)  # what is there is what an earlier start was killed over
    if request.folder.is_dir() and any(request.folder.iterdir()) and not request.overwrite:
        raise ConfigError(f"{request.folder} is not empty", hint="name a new folder, or say --overwrite")
    check_scorer(request.scorer)
    with _being_made(request.folder):
        if request.prompt is None:
            suite, reading, related = _ladder(request)
        else:
            suite, reading, related = _blocks(request, request.prompt)
        plan = build_plan(suite)
        (request.folder / "README.md").write_text(_readme(request, reading), encoding="utf-8")
        ignores = request.folder / ".gitignore"
        if not ignores.exists():
            ignores.write_text(GIT_IGNORES, encoding="utf-8")
    tokens = sum(entry.max_tokens for entry in estimate_plan(plan))
    return Scaffold(request.folder, request.folder / PROFILE, reading, related, plan.calls, tokens)


@contextmanager
def _being_made(folder: Path) -> Iterator[None]:
    """Have a folder say that it is not finished, for the length of the block.

    Where something is wrong the mark is gone again, and so are folders that were made for it alone.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    mark = folder / UNFINISHED
    with write_errors(ConfigError, folder):
        folder.mkdir(parents=True, exist_ok=True)
        mark.write_text("pcsuite init was ended here; the same command goes on\n", encoding="utf-8")
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)
        with suppress(OSError):  # one that holds something stays
            for path in missing:
                path.rmdir()


def _readme(request: ScaffoldRequest, reading: str) -> str:
    """What the folder is for and the commands that use it, as they are typed inside it."""
    flags = _flags(request)
    commands = {
        f"pcsuite run --config {PROFILE}": "asks the model; after a stop the same command goes on",
        f"pcsuite report --config {PROFILE}": "tables, figures and verdicts, under outputs/",
        f"pcsuite view --config {PROFILE}": "the answers side by side, in a browser",
    }
    if request.prompt is not None:
        words = ["pcsuite", "ablate", request.prompt.name, "--data", request.data.name, *flags]
        commands[shlex.join(words)] = "a verdict per block, and the shortest prompt that is no worse"
        words = ["pcsuite", "check", *words[2:], "--baseline", "HEAD"]
        commands[shlex.join(words)] = "for CI: the whole prompt alone, against what is committed"
    lines = [f"# {about}\n{command}" for command, about in commands.items()]
    intro = "In this folder, or from any other with the path of the profile:"
    parts = [f"# {request.name}", f"{reading}.", intro, "\n".join(["```", *lines, "```"])]
    sources = [path.name for path in (request.prompt, request.data) if path is not None]
    if request.prompt is not None:
        parts.append(
            "Conditions: `full` is the prompt and `again` the same once more; `-x` is without the block x, `+x` has no"
            " other block, `none` has none; `~x` has filler of the same length in place of x."
        )
    renew = ["pcsuite", "init", ".", "--data", request.data.name]
    renew += ["--prompt", request.prompt.name] if request.prompt is not None else []
    parts += [
        f"The profile asks what was read from {' and '.join(sources)} when this folder was made, and is refused after a"
        f" change of {'one of them' if len(sources) > 1 else 'it'} until this reads it anew, in this folder:",
        "\n".join(["```", shlex.join([*renew, *flags, "--overwrite"]), "```"]),
    ]
    return "\n\n".join(parts) + "\n"


def _flags(request: ScaffoldRequest) -> list[str]:
    """The flags by which a command in the folder reads the table as this request does; a scorer lies there too."""
    scorer = request.scorer and Path(request.scorer).name
    words = []
    for flag, value in (
        ("--input", ",".join(request.inputs)), ("--answer", request.answer), ("--kind", request.kind),
        ("--labels", ",".join(request.labels)), ("--choices", ",".join(request.choices)),
        ("--fields", ",".join(request.fields)), ("--id", request.id_column), ("--scorer", scorer),
        ("--cluster", ",".join(request.cluster)), ("--decimal", request.decimal),
        ("--model", request.model), ("--base-url", request.base_url), ("--limit", request.limit),
        ("--budget-tokens", request.budget_tokens), ("--budget-usd", request.budget_usd),
    ):  # fmt: skip
        if value not in (None, ""):
            words += [flag, str(value)]
    return words + (["--append-input"] if request.append_input else [])


def _blocks(request: ScaffoldRequest, prompt: Path) -> tuple[Suite, str, str]:
    """The prompt's blocks as operators, with and without each as conditions."""
    study = prepare(
        AblationRequest(
            prompt,
            str(request.data),
            name=request.name,
            base_url=request.base_url,
            append_input=request.append_input,
            **request.table_fields(),
        )
    )
    run = study.base.profile.run.model_copy(update={"cache_dir": str(request.folder / CACHE)})
    base = replace(study.base, profile=study.base.profile.model_copy(update={"run": run}))
    study = replace(study, folder=request.folder, base=base, results="outputs")
    if (scorer := study.task.scorer) is not None:
        request.folder.mkdir(parents=True, exist_ok=True)
        (request.folder / scorer.path.name).write_text(scorer.source, encoding="utf-8")
        spec = study.task.spec.model_copy(update={"evaluator": f"{scorer.path.name}:{scorer.function}"})
        study = replace(study, task=replace(study.task, spec=spec))
    suite = study.write(study.design.arms)
    _copy(request, prompt)
    return suite, f"{study.task.reading}; blocks: {', '.join(study.free)}", study.task.related


def _ladder(request: ScaffoldRequest) -> tuple[Suite, str, str]:
    """The table as a task of its own, under the ladder of bundled conditions."""
    rows = read_table(request.data)
    columns = list(rows[0].values)
    request = replace(request, id_column=id_column(request, rows)[0])
    answer, _ = answer_column(request, columns, request.data)
    request = replace(request, answer=answer)
    inputs = input_columns(request, columns, request.data)
    kind = request.kind or ("own" if request.scorer else likely_kind(rows, request))
    written = init_task(
        TaskRequest(
            task_name(request.name),
            request.data,
            copy_scorer=True,
            out_dir=request.folder,
            cache_dir=request.folder / CACHE,
            prefix="",
            **request.table_fields(kind=kind, inputs=inputs),
        )
    )
    _copy(request, None)
    counts = ", ".join(f"{count} {split}" for split, (_, count) in written.items.items())
    truth = f"answer: {answer}" if answer else f"fields: {', '.join(request.fields)}"
    numbers = f", {written.numbers}" if written.numbers else ""
    reading = (
        f"{request.data.name}: {counts} items, input: {', '.join(inputs)}, {truth}{numbers}, scored as {kind}"
    )
    return load_suite(written.profile_file), reading, written.related


def _copy(request: ScaffoldRequest, prompt: Path | None) -> None:
    """Copy table and prompt into the folder, and note in its profile what they were when it was made."""
    made_from = {}
    for path in filter(None, (prompt and PromptFile.of(prompt).path, request.data)):
        target = request.folder / path.name
        if path.resolve() != target.resolve():
            shutil.copyfile(path, target)
        made_from[path.name] = sha256_file(target)
    profile = request.folder / PROFILE
    written = profile.read_text(encoding="utf-8")
    content = yaml.safe_load(written)
    content["run"]["made_from"] = made_from
    comment = "".join(re.findall(r"^#[^\n]*\n", written, re.MULTILINE))
    profile.write_text(comment + as_yaml(content), encoding="utf-8")
