"""Prompts from Python: ``ablate`` says what each part is worth, ``prompt`` makes a profile of one, ``verify`` scores.

A prompt, a table and a scorer may be files, or what a notebook has in memory: a text, rows, a function. Those are
written below ``<output_dir>``, so that everything that ran can be found and run again.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import Any, cast

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite.ablation import AblationRequest, AblationResult, ChangeResult, across_picture
from pcsuite.ablation import ablate as run_ablation
from pcsuite.ablation import rearrange as run_changes
from pcsuite.ablation.across import labels_of
from pcsuite.ablation.arms import CHANGES
from pcsuite.ablation.forecast import NoiseForecast
from pcsuite.ablation.forecast_picture import noise_forecast_lines, print_split
from pcsuite.ablation.page import render_ablation, write_result
from pcsuite.ablation.records import blocks_table, verdict_records
from pcsuite.ablation.sentences import headline, trim_sentence
from pcsuite.ablation.study import Study, prompt_profile
from pcsuite.analysis.frame import Frame
from pcsuite.api.runs import Run
from pcsuite.api.targets import take_targets
from pcsuite.config.load import Suite
from pcsuite.config.profile import check_run_name
from pcsuite.config.targets import TARGET_WORDS
from pcsuite.data.items import dump_line
from pcsuite.errors import ConfigError, DataError, PcsuiteError, did_you_mean
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.run_suite import LOCAL

Rows = str | Path | Iterable[Mapping[str, Any]]
"""A table: its file, the id of a task, rows in memory, or a data frame."""
Prompts = str | Path | Sequence[str | Path]
"""A prompt's file or text, or several files."""
Tables = Rows | Sequence[str | Path]
"""One table, or several by their files or ids."""


@dataclass
class Ablation:
    """Result of an ablation; shows itself in a notebook as the prompt with its blocks tinted."""

    result: AblationResult

    @property
    def run(self) -> Run:
        """All rows of the ablation: one condition per arm."""
        return Run(self.result.log)

    @property
    def trimmed(self) -> str:
        """The prompt without the blocks that were confirmed to be droppable, or the prompt itself.

        Write it back with its line ends as they are: it is the prompt's own text, block by block.
        """
        return self.result.trimmed

    @property
    def sentence(self) -> str:
        """The answer in two sentences.

        First what the blocks are worth, then what can be dropped and how sure that is. Of several models and tables:
        where verdicts hold, what changes from the first model to the others, and what can be dropped for all.
        """
        if self.result.beside:
            lines = [across_picture.headline(self.result), *across_picture.migration_lines(self.result)]
            return " ".join([*lines, across_picture.trim_sentence(self.result)])
        return f"{headline(self.result)} {trim_sentence(self.result)}"

    def effects(self) -> Frame:
        """Every block with its verdict, effect on the score, interval, tokens and cost.

        One row per block that could be left out; the columns are those of ``blocks.csv`` (docs/reference/tables.md).
        """
        return blocks_table(self.result)

    @property
    def each(self) -> dict[str, Ablation]:
        """The ablation on each model and table by its name; of one model and table only that."""
        labels = labels_of(self.result.each)
        return {
            label: Ablation(replace(one, beside=(), differences=()))
            for label, one in zip(labels, self.result.each, strict=True)
        }

    def models(self) -> Frame:
        """Every block on every model and table: verdict, effect, and whether it holds on all or on some.

        The columns are those of ``models.csv`` (docs/reference/tables.md).
        """
        return across_picture.models_table(self.result)

    def differences(self) -> Frame:
        """What each block is worth on a later model less what it is on the first, with limits and what becomes of it.

        The columns are those of ``differences.csv``; no rows where one model was asked.
        """
        return across_picture.differences_table(self.result)

    def rows(self) -> Frame:
        """Every row of the log, one per call."""
        return self.run.rows()

    def items(self) -> Frame:
        """Every item under every arm, with its score."""
        return self.run.items()

    def view(self, *, open_browser: bool = False) -> Any:
        """Serve ``pcsuite view`` on the rows, as :meth:`pcsuite.api.runs.Run.view` does."""
        return self.run.view(open_browser=open_browser)

    def write(self) -> list[Path]:
        """Write page, Markdown, trimmed prompt, JSON, CSV and PNG beside the log; returns the files.

        They lie in ``<output_dir>/ablations/<run>/``; the page comes first. Raises ``AnalysisError`` where one cannot
        be written.
        """
        return write_result(self.result)

    def __repr__(self) -> str:
        if self.result.beside:
            return "\n".join([f"Ablation({self.run.name!r})", repr(self.models()), self.sentence])
        lines = [
            f"  {entry['block']:<16} {entry['verdict']:<22}"
            f" {'' if entry['effect'] is None else format(entry['effect'], '+.3f')}"
            f"{' ' + entry['form'] if entry['form'] else ''}"
            for entry in verdict_records(self.result)
        ]
        return "\n".join([f"Ablation({self.run.name!r})", *lines, self.sentence])

    def _repr_html_(self) -> str:
        if self.result.beside:
            return f"<p>{escape(self.sentence)}</p>{self.models()._repr_html_()}"
        page = escape(render_ablation(self.result), quote=True)
        return f'<p>{escape(self.sentence)}</p><iframe srcdoc="{page}" width="100%" height="640"></iframe>'


def ablate(
    prompt: Prompts,
    data: Tables,
    *,
    scorer: str | Path | Callable[..., Any] | None = None,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    **settings: Any,
) -> Ablation:
    """What is each part of a prompt worth, and what can be dropped? Works inside a running event loop too.

    ``prompt`` is a file (``app.py:NAME`` for a text of a program) or the text itself, or a list of files, ``data`` a
    table's file, the id of a task, rows in memory, a data frame, or a list of files and ids; ``models`` several models
    that are asked the same; ``target`` a system of your own in a model's place (``"app.py:answer"``,
    ``"python agent.py"``, an address, or a function, plain or async; several in a list or a mapping of names), with
    ``worker``, ``concurrency``, ``target_timeout``, ``in_folder``, … as the flags are called; ``scorer`` a function of
    answer and item, ``my_scorer.py:score``, or the name of a registered evaluator.
    ``settings`` are those of :class:`~pcsuite.ablation.AblationRequest`, by the names of the command's flags
    (``model``, ``answer``, ``margin``, ``design``, ``limit``, ``budget_usd``, ``name``, …). The same call goes on where
    an earlier one ended. Raises ``ConfigError``, ``DataError`` or ``PromptError`` of one line for what cannot be used.

        pcs.ablate("triage.md", "tickets.csv", model="smollm2-135m", margin=0.05).trimmed
        pcs.ablate("triage.md", "tickets.csv", models=["openai/old", "openai/new"]).differences()
    """
    request = request_of(prompt, data, scorer, settings)
    if request.design in CHANGES:
        raise ConfigError(f"design '{request.design}' leaves out no block", hint="pcs.rearrange")
    show, tell = (None, None) if quiet else (_show_split, _tell_noise)
    with told_as_given(request):
        ablated = run_ablation(
            request, quiet=quiet, use_cache=use_cache, executor=executor, show=show, tell=tell
        )
        return Ablation(ablated)


def rearrange(
    prompt: str | Path,
    data: Rows,
    *,
    scorer: str | Path | Callable[..., Any] | None = None,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    **settings: Any,
) -> ChangeResult:
    """What does it do to move the parts of a prompt (``design="order"``, the default) or to repeat them (``"repeat"``)?

    Takes what :func:`ablate` takes, of one model and one table, and raises what it raises.

        pcs.rearrange("triage.md", "tickets.csv", model="smollm2-135m", design="repeat").records()
    """
    request = request_of(prompt, data, scorer, {"design": "order", **settings})
    show = None if quiet else _show_split
    with told_as_given(request):
        return run_changes(request, quiet=quiet, use_cache=use_cache, executor=executor, show=show)


def _show_split(study: Study) -> None:
    """Print the blocks before anything is asked."""
    from rich.console import Console

    print_split(study, Console())


def prompt(
    prompt: Prompts,
    data: Rows,
    *,
    scorer: str | Path | Callable[..., Any] | None = None,
    **settings: Any,
) -> Suite:
    """A prompt and a table as a profile of one condition, the prompt as it stands: for ``run``, ``plan``, ``compare``.

    Takes what :func:`ablate` takes and raises what it raises.

        pcs.run(pcs.prompt("triage.md", "tickets.csv", model="smollm2-135m")).items()
    """
    request = request_of(prompt, data, scorer, settings)
    with told_as_given(request):
        return prompt_profile(request)


def _tell_noise(found: NoiseForecast) -> None:
    """Print what the A/A arm says before the rest is asked."""
    for line in noise_forecast_lines(found):
        print(line)


@contextmanager
def told_as_given(request: AblationRequest, **names: str) -> Iterator[None]:
    """Errors about what was given in memory speak of it as the caller knows it, not of the files it was written to.

    ``names`` say what else a file of the request's is called: ``prompt="triage.md at main"``.
    """
    folder = str(_given_folder(request))
    shown = {"prompt": "the prompt", "data": "data", "scorer": "the scorer", **names}
    words: dict[str, str] = {}
    for name, path in (("prompt", request.prompt), ("data", request.data), ("scorer", request.scorer or "")):
        file = str(path).rpartition(":")[0] if name == "scorer" else str(path)
        if file.startswith(folder) or name in names:
            words |= {f"{file} line ": f"{shown[name]} row "} if name == "data" else {}
            words[file] = shown[name]
    try:
        yield
    except PcsuiteError as error:
        for file, name in words.items():
            error.message = error.message.replace(file, name)
            error.args = tuple(str(part).replace(file, name) for part in error.args)
        raise


def request_of(
    prompt: Prompts,
    data: Tables,
    scorer: str | Path | Callable[..., Any] | None,
    settings: Mapping[str, Any],
) -> AblationRequest:
    """The request that a call means; what is in memory is written below ``<output_dir>/given/<name>/``.

    Raises ``ConfigError`` for an unknown setting, ``DataError`` for data without rows.
    """
    arguments = (
        "prompt",
        "data",
        "scorer",
        "placed",
        "more_data",
    )  # arguments of the call, and what the prompt itself says
    names = [entry.name for entry in fields(AblationRequest) if entry.name not in arguments]
    options = dict(settings)
    targets = take_targets(options)
    for name in options:
        if name not in (*names, "effect"):
            known = [*names, "target", *TARGET_WORDS]
            raise ConfigError(f"ablate has no setting '{name}'", hint=did_you_mean(name, known))
    if targets:
        models = options.pop("models", None) or [options[name] for name in ("model",) if options.get(name)]
        asked = [*targets, *([models] if isinstance(models, str) else models)]
        options |= {"targets": targets, "model": asked[0]} | ({"models": asked} if len(asked) > 1 else {})
    tables = _several_tables(data)
    if "effect" in options:  # the flag's spelling
        options["effects"] = options.pop("effect")
    for name in _SEVERAL & options.keys():
        options[name] = (options[name],) if isinstance(options[name], str) else tuple(options[name])
    output_dir = Path(options.get("output_dir", "outputs"))
    options["output_dir"] = str(output_dir)
    if isinstance(prompt, (list, tuple)):
        prompt, *more = prompt
        options["more_prompts"] = tuple(map(Path, more))
    assert isinstance(prompt, (str, Path)), "a prompt is a text or a file"
    is_text = isinstance(prompt, str) and (
        "\n" in prompt or "{{" in prompt or not (Path(prompt).suffix or Path(prompt).exists())
    )
    path = Path("prompt.md") if is_text else Path(prompt)
    request = AblationRequest(path, "", **options)
    try:
        check_run_name(request.run_name)
    except ValueError as error:
        raise ConfigError(f"name '{request.run_name}': {error}") from error
    folder = _given_folder(request)
    if is_text:
        if "name" not in options:
            raise ConfigError("a prompt in memory has no name", hint="name='triage'")
        path = write_given(folder / "prompt.md", str(prompt))
    scorer_name = _scorer(scorer, folder)
    return replace(
        request,
        prompt=path,
        data=tables[0] if tables else _table(cast(Rows, data), folder),
        more_data=tuple(tables[1:]),
        scorer=scorer_name,
    )


def _several_tables(data: Tables) -> list[str]:
    """The tables of a list of names; none where the data are one table."""
    listed = list(data) if isinstance(data, (list, tuple)) else []
    return [str(one) for one in listed] if all(isinstance(one, (str, Path)) for one in listed) else []


def _given_folder(request: AblationRequest) -> Path:
    """Where what a call has in memory is written."""
    return Path(request.output_dir) / "given" / request.run_name


_SEVERAL = frozenset(
    {"inputs", "models", "labels", "choices", "fields", "into", "keep", "cluster", "literal"}
)


def write_given(path: Path, content: str | bytes) -> Path:
    """Write what was given in memory, to the byte, so that what ran can be found; returns the path."""
    with write_errors(ConfigError, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, content.encode("utf-8") if isinstance(content, str) else content)
    return path


def _table(data: Rows, folder: Path) -> str:
    if isinstance(data, (str, Path)):
        return str(data)
    if hasattr(data, "to_dicts"):  # a polars frame
        rows = data.to_dicts()
    elif hasattr(data, "to_dict"):  # a pandas frame
        rows = data.to_dict("records")
    else:
        rows = list(data) if isinstance(data, Iterable) else []
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise DataError("data holds no rows", hint="a list of mappings, a data frame, or a table's file")

    def plain(value: Any, where: str) -> Any:
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            value = value.item()
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise DataError(f"{where} is {value}", hint="fill in or drop cells that are empty") from error
        except TypeError as error:
            raise DataError(f"{where}: a table cannot hold {type(value).__name__}") from error
        return value

    lines = [
        dump_line(
            {str(key): plain(value, f"data row {number}, column '{key}'") for key, value in row.items()}
        )
        for number, row in enumerate(rows, start=1)
    ]
    return str(write_given(folder / "data.jsonl", "".join(lines)))


def _scorer(scorer: str | Path | Callable[..., Any] | None, folder: Path) -> str | None:
    """A scorer as a request names it; a function is written into a file of its own, with its source alone."""
    if scorer is None or isinstance(scorer, (str, Path)):
        return None if scorer is None else str(scorer)
    name = getattr(scorer, "__name__", "")
    try:
        source = textwrap.dedent(inspect.getsource(scorer))
    except (OSError, TypeError) as error:
        raise ConfigError("the scorer's source cannot be read", hint="put it into my_scorer.py") from error
    if not name.isidentifier() or not source.lstrip().startswith(("def ", "@")):
        raise ConfigError("the scorer is no function with a name", hint="def score(answer, item): …")
    about = "# Written by pcs.ablate from a function in memory; what it uses must be imported inside it.\n"
    return f"{write_given(folder / 'scorer.py', about + source)}:{name}"


def verify(
    truth: str | Path | bytes,
    record: str | Path | bytes | Mapping[str, Any],
    *,
    mapping: str | Path | None = None,
    eval_id: str = "record",
) -> dict[str, Any]:
    """An extracted record against its truth, field by field: the document that ``pcsuite verify --json`` prints.

    ``truth`` is a ``ground_truth.csv`` or its bytes, ``record`` a JSON file, its bytes or the record itself;
    ``mapping`` says which fields exist and how they compare (default: the bundled one). Nothing is saved. Raises
    ``DataError`` for what cannot be read.

        pcs.verify("ground_truth.csv", {"project": …})["metrics"]["f1"]
    """
    from pcsuite.verifier.cells import read_bytes
    from pcsuite.verifier.mapping import load_mapping
    from pcsuite.verifier.results import Rules, read_rules, require_fields, results_document, score_bytes
    from pcsuite.verifier.truth import parse_truth

    mapped = load_mapping(None if mapping is None else Path(mapping))
    if isinstance(truth, bytes):
        rules = Rules(parse_truth(truth, mapped, "truth"), mapped)
        require_fields(rules, "truth")
    else:
        rules = read_rules(Path(truth), mapped)
    if isinstance(record, Mapping):
        data, source = json.dumps(record).encode(), "record"
    elif isinstance(record, bytes):
        data, source = record, "record"
    else:
        data, source = read_bytes(Path(record)), str(record)
    return results_document(score_bytes(data, rules, source, strict=True), rules, eval_id, None)
