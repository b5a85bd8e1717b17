"""Running by the specification's names: profiles, adapters, loops, logs, tables and figures."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcsuite.config.bundled import bundled_operators
from pcsuite.config.definitions import ModelSpec
from pcsuite.config.load import Suite, load_suite
from pcsuite.config.model_names import model_entry
from pcsuite.config.spellings import regime_id
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import Constraint, Decoding, Generation, ModelAdapter, Request
from pcsuite.engines.constrained import generate_constrained
from pcsuite.engines.session import build_adapter
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator, Parsed
from pcsuite.logging.log import RunLog, RunPaths
from pcsuite.programs.base import Job
from pcsuite.programs.react import ReactLoop
from pcsuite.prompts.operators import render_text
from pcsuite.retrieval import base as retrieval
from pcsuite.retrieval.bm25_local import Bm25Index, ensure_index


@dataclass(frozen=True)
class Profile:
    """A profile file by its content (``raw``) and by what the suite makes of it (``suite``)."""

    raw: dict[str, Any]
    suite: Suite

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.suite.profile.run.name

    @property
    def output_dir(self) -> str:
        """Where logs, tables and figures go."""
        return self.suite.profile.run.output_dir

    @property
    def cache_dir(self) -> str:
        """Where datasets, indexes and caches lie."""
        return self.suite.profile.run.cache_dir

    @property
    def overwrite(self) -> bool:
        """Whether an earlier log is set aside."""
        return self.suite.profile.run.overwrite

    @property
    def global_seed(self) -> int:
        """Seed of item sampling."""
        return self.suite.profile.repro.global_seed

    def get(self, *keys: str, default: Any = None) -> Any:
        """The file's value below some keys, as written; ``default`` where a key on the way is not there.

        Values that the file leaves out have no entry here even where the suite has a default for them.

            load_profile("quickstart").get("run", "name")
        """
        value: Any = self.raw
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return default
            value = value[key]
        return value

    def _ref(self, key: str) -> str:
        return str(self.suite.sources[key].path)

    def tasks_ref(self) -> str:
        """Path of the tasks file."""
        return self._ref("tasks_ref")

    def models_ref(self) -> str:
        """Path of the models file."""
        return self._ref("models_ref")

    def decoding_ref(self) -> str:
        """Path of the decoding file."""
        return self._ref("decoding_ref")

    def operators_ref(self) -> str:
        """Path of the operators file."""
        return self._ref("operators_ref")

    def metrics_ref(self) -> str:
        """Path of the metrics file."""
        return self._ref("metrics_ref")

    def selected_tasks(self) -> list[str]:
        """Tasks of the selection."""
        return list(self.suite.profile.selection.tasks)

    def selected_models(self) -> list[str]:
        """Models of the selection."""
        return list(self.suite.profile.selection.models)

    def selected_conditions(self) -> list[str]:
        """Conditions of the selection."""
        return list(self.suite.profile.selection.conditions)

    def selected_decoding(self) -> list[str]:
        """Regimes of the selection."""
        return list(self.suite.profile.selection.decoding_regimes)

    def max_items_per_task(self) -> int | None:
        """Items of a task at most; ``None`` for all."""
        return self.suite.profile.limits.max_items_per_task

    def max_items_for_task(self, task_id: str) -> int | None:
        """Items of one task at most; ``None`` for all.

        A limit of its own (``limits.per_task_max_items``) goes before ``limits.truthfulqa_mode: tiny`` (100 items of
        TruthfulQA), and that before the general limit.
        """
        return self.suite.item_limit(task_id)

    def stop_on_error_rate(self) -> float:
        """Share of failed calls above which a run ends; 1 where none is set."""
        rate = self.suite.profile.limits.stop_on_error_rate
        return 1.0 if rate is None else rate

    def max_inflight(self) -> int:
        """Calls in flight at once."""
        return self.suite.profile.repro.max_inflight

    def num_workers(self) -> int:
        """Workers of preparation and evaluation."""
        return self.suite.profile.repro.num_workers

    def seeds_for(self, regime: str) -> list[int]:
        """Seeds that the profile lists for a regime, by any spelling of its name (``D0``, ``d0_greedy``).

        A regime without seeds of its own has the seed 0.
        """
        return list(self.suite.profile.repro.seeds.get(regime_id(regime), (0,)))


@dataclass(frozen=True)
class SuiteDefs:
    """Tasks, models and regimes of a profile as plain entries."""

    tasks: dict[str, Any]
    models: dict[str, Any]
    decoding: dict[str, Any]


def load_profile(profile_path: str | Path) -> Profile:
    """A profile by its path or bundled name, checked with all that it refers to.

    Raises :class:`~pcsuite.errors.ConfigError`, with file and line, for a mistake in any of them.

    >>> load_profile("quickstart").selected_decoding()
    ['D0', 'D1']
    """
    suite = load_suite(str(profile_path))
    return Profile(dict(suite.sources["profile"].data), suite)


def load_suite_defs(prof: Profile) -> SuiteDefs:
    """The entries of a profile's definition files as plain mappings, second spellings and defaults filled in.

    Changing them changes nothing of the profile: they are copies.
    """
    suite = prof.suite
    return SuiteDefs(
        tasks={name: task.model_dump(mode="json") for name, task in suite.tasks.items()},
        models={name: suite.models[name].written() for name in suite.models},
        decoding={name: regime.model_dump(mode="json") for name, regime in suite.regimes.items()},
    )


def run_task(profile_path: str | Path, *, task_id: str, model_id: str) -> None:
    """Run one task of a profile on one model, or go on with it; rows that are done are not asked again.

    Quietly: the log, its prompts and its manifest are what comes of it. Raises :class:`~pcsuite.errors.ConfigError` for
    a task or a model that the profile does not have, and what ends a run early (a budget, an error rate).
    """
    from pcsuite.runners.run_suite import run_suite

    run_suite(
        load_suite(str(profile_path), {"selection.tasks": [task_id], "selection.models": [model_id]}),
        quiet=True,
    )


def aggregate_run(profile_path: str | Path) -> tuple[str, str]:
    """Write the tables, figures and pages of a profile's run; returns its name and the folder that they are below.

    A report that is up to date is left as it is. Raises :class:`~pcsuite.errors.LogError` where nothing has been run.
    """
    from pcsuite.api.runs import Run, report

    suite = load_suite(str(profile_path))
    run = suite.profile.run
    report(Run(RunPaths.of(run.output_dir, run.name).log, suite))
    return run.name, run.output_dir


def make_plots(output_dir: str | Path, run_name: str) -> None:
    """Draw the figures of a run below an output folder, with its tables and pages; one that is up to date stays.

    Raises :class:`~pcsuite.errors.ConfigError` where there is no such run.
    """
    from pcsuite.api.runs import report

    report(run_name, output_dir=output_dir)


class JsonlWriter:
    """A log of rows as mappings, append-only and locked; rows that are there are known by their ``run_id``."""

    def __init__(self, path: str | Path, overwrite: bool) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._log = RunLog(RunPaths.beside(self.path), overwrite=overwrite)
        self._log.__enter__()

    def seen(self, run_id: str) -> bool:
        """Whether a row of that id is done, in this start or an earlier one; one that failed is not.

        Takes the same time at any size of the log.
        """
        return run_id in self._log.index

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row: a mapping with ``run_id`` and ``errors`` (empty for one that is done).

        Raises :class:`~pcsuite.errors.LogError` where the disk does not take it; the log is then as before.
        """
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        self._log.append_line(str(row.get("run_id", "")), line, done=not row.get("errors"))

    def close(self) -> None:
        """Bring everything to the disk and let go of the lock."""
        self._log.__exit__(None, None, None)


class LocalHFAdapter(ModelAdapter):
    """A local model of transformers by its entry; its weights are loaded when it is first asked."""

    def __init__(self, model_id: str, spec: Mapping[str, Any]) -> None:
        self._entry = ModelSpec.model_validate({"family": "hf", "size": "local", "provider": "hf", **spec})
        super().__init__(model_id, family=self._entry.family, size=self._entry.size, provider="hf")
        options = self._entry.provider_options()
        self.model_path = str(options.get("path") or options.get("weights"))
        self.device, self.dtype = str(options.get("device_map", "cpu")), str(options.get("dtype", "auto"))
        self._model: ModelAdapter | None = None

    @property
    def model(self) -> ModelAdapter:
        """The adapter that answers, loaded on first use."""
        if self._model is None:
            self._model = build_adapter(self.model_id, self._entry)
        return self._model

    def generate(self, prompt: str, decoding: Any, seed: int) -> Generation:
        """Answer one prompt; ``decoding`` may be a plain mapping, which is greedy in what it leaves out.

        The first call loads the weights. Raises :class:`~pcsuite.errors.EngineError` where they cannot be loaded.
        """
        return self.model.generate(prompt, _decoding(decoding), seed)

    def count_tokens(self, text: str) -> int | None:
        return self.model.count_tokens(text)

    def close(self) -> None:
        if self._model is not None:
            self._model.close()


@dataclass
class ModelRegistry:
    """Adapters by model id."""

    adapters: dict[str, ModelAdapter]

    @classmethod
    def from_models_yaml(cls, models: Mapping[str, Mapping[str, Any]]) -> ModelRegistry:
        """The adapters of a models file's entries; local models load nothing yet.

        Raises ``ConfigError`` for an unknown provider or a wrong key.
        """
        adapters: dict[str, ModelAdapter] = {}
        for model_id, entry in models.items():
            if entry.get("provider") == "hf":
                adapters[model_id] = LocalHFAdapter(model_id, entry)
            else:
                spec = model_entry(model_id, entry)
                adapters[model_id] = adapter = build_adapter(model_id, spec)
                adapter.family, adapter.size, adapter.provider = spec.family, spec.size, spec.provider
        return cls(adapters)


def generate_json_constrained(
    adapter: ModelAdapter, prompt: str, decoding: Any, schema_text: str, seed: int
) -> Generation:
    """Answer within a JSON schema that is enforced while decoding; the answer names who enforced it.

    What cannot be enforced is a ``ConstraintUnavailableError``: there is no answer without the constraint.
    """
    steered = adapter.model if isinstance(adapter, LocalHFAdapter) else adapter
    request = Request(prompt, _decoding(decoding), seed, Constraint("json_schema", schema_text))
    return asyncio.run(generate_constrained(steered, request))


@dataclass(frozen=True)
class Passage:
    """A passage by its id."""

    pid: str
    text: str


class SimpleRetriever:
    """Passages in memory, searched by the suite's own index (BM25), which lies in a temporary folder."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = list(passages)
        folder = Path(tempfile.mkdtemp(prefix="pcsuite-passages-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        source = folder / "wiki_passages.jsonl"
        lines = (json.dumps({"pid": one.pid, "text": one.text}) + "\n" for one in self.passages)
        source.write_text("".join(lines), encoding="utf-8")
        self._index = (
            Bm25Index(ensure_index(source, folder)) if any(p.text.strip() for p in passages) else None
        )
        self._by_pid = {one.pid: one for one in self.passages}

    def search(self, query: str, k: int = 5) -> list[Passage]:
        """The ``k`` best passages that share a word with the query, best first; fewer where there are no more.

        Passages are ranked by BM25; without any text nothing is ever found.
        """
        return [] if self._index is None else [self._by_pid[one.page] for one in self._index.search(query, k)]


def format_observations(passages: Sequence[Passage]) -> str:
    """Passages as a loop shows them, one a line below ``OBSERVATION:``; without any it says that nothing was found.

    >>> print(format_observations([Passage("p1", "Ada wrote it.")]), end="")
    OBSERVATION:
    - [p1] Ada wrote it.
    """
    lines = [f"- [{passage.pid}] {passage.text}" for passage in passages]
    return "\n".join(["OBSERVATION:", *(lines or ["nothing was found"])]) + "\n"


_REACT = bundled_operators()["REACT_LOOP"]
REACT_INSTRUCTIONS = render_text(_REACT.template or "", {"max_steps": _REACT.max_steps}, where="REACT_LOOP")
"""How the loop tells a model to search; ``RETRIEVE(query)`` is read as a search too."""
_RETRIEVE = re.compile(r"\bRETRIEVE\(")


class _AnyAnswer(Evaluator):
    """An evaluator for loops without a task: whatever ends a turn without a search is the answer."""

    def evaluate(self, item: Item, answer: Answer) -> Evaluation:
        read = Parsed(
            json_valid=True, schema_valid=True, json_mode="strict", answer=answer.text, reading="read"
        )
        return Evaluation(read, {})

    def gold_answer(self, item: Item) -> str:
        return ""

    def wrong_answer(self, item: Item, rng: Any) -> str:
        return ""


def run_react(
    adapter: ModelAdapter,
    base_prompt: str,
    decoding: Any,
    seed: int,
    retriever: SimpleRetriever | None,
    max_steps: int = 5,
) -> dict[str, Any]:
    """Run the suite's search loop on a prompt, at most ``max_steps`` turns.

    Returns the last call with the final ``text``, ``react_steps`` (turns), ``react_tool_calls`` (queries and the
    passages they found), ``react_transcript_chars`` and ``react_max_steps_hit``. Without a ``retriever`` every search
    finds nothing. Raises :class:`~pcsuite.errors.EngineError` where a call fails.
    """
    searches: list[dict[str, Any]] = []

    async def search(query: str, k: int) -> list[retrieval.Passage]:
        passages = [] if retriever is None else retriever.search(query, k)
        searches.append({"tool": "RETRIEVE", "query": query, "passage_ids": [one.pid for one in passages]})
        return [retrieval.Passage(one.pid, 0, one.text, 0.0) for one in passages]

    async def ask(request: Request) -> Generation:
        reply = await adapter.agenerate(request)
        return {**reply, "text": _RETRIEVE.sub("\nAction: search(", reply["text"])}

    prompt = f"{base_prompt.rstrip()}\n\n{REACT_INSTRUCTIONS}"
    request = Request(prompt, _decoding(decoding), seed)
    evaluator = _AnyAnswer(schema={"type": "object"})
    job = Job("react", Item("react", prompt, {}), request, evaluator, max_steps, search)
    outcome = asyncio.run(ReactLoop().run(job, ask))
    last = outcome.calls[-1]
    return {
        **last,
        "text": outcome.text,
        "finish_reason": outcome.finish_reason,
        "react_steps": outcome.react_steps,
        "react_tool_calls": searches,
        "react_transcript_chars": sum(len(str(entry.get("text", ""))) for entry in outcome.transcript or ()),
        "react_max_steps_hit": outcome.finish_reason == "step_limit",
    }


def _decoding(decoding: Any) -> Decoding:
    """Decoding parameters of a plain mapping, with greedy ones for what it leaves out."""
    if isinstance(decoding, Decoding):
        return decoding
    base = Decoding("", 0.0, 1.0, 256)
    settings = {key: decoding[key] for key in ("id", "temperature", "top_p", "max_tokens") if key in decoding}
    return replace(base, **settings)
