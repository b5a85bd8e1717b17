"""HELM beside the suite: models served to it, its scenarios run in its own environment, its results imported."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import digest
from pcsuite.analysis.table import Table
from pcsuite.config.load import Suite
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.engines.adapters.openai_api import OpenAIAdapter
from pcsuite.engines.adapters.simulated import SimulatedAdapter
from pcsuite.engines.session import build_adapter
from pcsuite.errors import AnalysisError, ConfigError, IntegrationError
from pcsuite.integrations.environments import HELM, Report, environment_python
from pcsuite.integrations.helm.models import BUILT_IN, HelmModel, ModelServer, helm_name, write_model_files
from pcsuite.integrations.helm.process import (
    HelmProgress,
    Scenario,
    copy_data,
    data_files,
    parse_scenarios,
    run_tool,
)
from pcsuite.integrations.helm.results import FAILURES, HelmRun, failure_reasons, helm_tables, read_helm_runs


@dataclass(slots=True)
class HelmImport:
    """What was imported, and from where."""

    runs: list[HelmRun]
    tables: list[Table]
    written: list[Path]
    notes: list[str] = field(default_factory=list)

    @property
    def unfinished(self) -> list[HelmRun]:
        """Runs without results.

        Each has a reason: HELM's own words where they were kept, else which of its files are missing.
        """
        return [run for run in self.runs if run.status == "unfinished"]


@dataclass(frozen=True, slots=True)
class HelmPlan:
    """One call of ``helm-run``: made, checked, then carried out."""

    suite: Suite
    scenarios: tuple[Scenario, ...]
    model_ids: tuple[str, ...]
    output: Path
    limit: int
    data_hash: str

    @property
    def name(self) -> str:
        """HELM's name of the suite: another limit or other data is another one, so that finished runs stay valid."""
        stamp = digest([HELM.version, self.limit, self.data_hash])[:8]
        return f"{self.suite.profile.run.name}-m{self.limit}-{stamp}"

    @property
    def local_path(self) -> Path:
        """Where HELM finds the models and keeps its request cache."""
        return self.output / "prod_env"

    @property
    def log(self) -> Path:
        """HELM's own words."""
        return self.output / f"{self.name}.log"


def plan_helm(suite: Suite, model_ids: Sequence[str]) -> HelmPlan:
    """Check everything that can be checked before a model is started, and put the data in its place.

    ``model_ids`` are models of the suite or HELM's own ``simple/model1``. Raises
    :class:`~pcsuite.errors.IntegrationError` where HELM is not installed, :class:`~pcsuite.errors.ConfigError` where no
    scenario or model is chosen, :class:`~pcsuite.errors.DataError` where a scenario's data is missing.
    """
    environment_python(HELM)
    settings = suite.profile.integrations.helm
    scenarios = tuple(parse_scenarios(settings.scenarios))
    if not scenarios:
        hint = "give --scenarios, or integrations.helm.scenarios"
        raise ConfigError("no HELM scenario is chosen", hint=hint)
    if not model_ids:
        raise ConfigError("no model is chosen", hint="give --models, or selection.models")
    output = Path(settings.helm_output_dir or Path(suite.profile.run.output_dir) / "helm")
    output = output.expanduser().resolve()
    data_dir = None if settings.data_dir is None else Path(settings.data_dir).expanduser()
    if data_dir is not None and not data_dir.is_dir():
        raise ConfigError(f"{data_dir}: the folder of published files is not there")
    data_hash = copy_data(scenarios, data_dir, output)
    return HelmPlan(suite, scenarios, tuple(model_ids), output, settings.max_instances, data_hash)


def run_helm(plan: HelmPlan, report: Report) -> HelmImport:
    """Run HELM to its end, then import; what was finished before an interrupt is imported too.

    Scenarios that failed are unfinished runs of the import, with their reasons. Raises
    :class:`~pcsuite.errors.IntegrationError` where HELM ended before it began any, and what ends a run of the suite (a
    used-up budget, too many errors): HELM is then ended, and what it finished imported.
    """
    progress = HelmProgress(report)
    stop = threading.Event()
    tables = Path(plan.suite.profile.run.output_dir) / "tables"
    folders = ["--output-path", str(plan.output), "--local-path", str(plan.local_path)]

    def import_finished(ended: str) -> None:
        _keep_reasons(plan, progress, ended)
        with suppress(AnalysisError):  # where it came too early to leave anything
            import_helm(plan.suite, plan.output, tables)

    try:
        with ExitStack() as stack:
            for scenario in plan.scenarios:
                if not data_files(scenario):
                    report(f"HELM fetches the data of {scenario.entry} itself")
            models, threads, server = _serve_models(plan, stack, progress.count_answer, stop.set)
            write_model_files(models, plan.local_path)
            names = {model.id: (model.name, model.deployment) for model in models}
            pairs = [names.get(model_id, (BUILT_IN, BUILT_IN)) for model_id in plan.model_ids]
            entries = [scenario.for_model(*pair) for pair in pairs for scenario in plan.scenarios]
            arguments = ["--run-entries", *entries, "--suite", plan.name, *folders, "--skip-completed-runs"]
            arguments += ["--max-eval-instances", str(plan.limit), "--num-train-trials", "1"]
            arguments += ["--num-threads", str(threads)]
            status = run_tool("helm-run", arguments, plan.log, progress.feed, stop)
    except (KeyboardInterrupt, SystemExit):
        import_finished("interrupted")
        raise
    if server is not None and server.stopped is not None:
        import_finished(server.stopped.message)
        raise server.stopped
    if status != 0:
        _keep_reasons(plan, progress, f"helm-run ended with status {status}")
        if not progress.failures:
            why = progress.last_exception or f"status {status}"
            raise IntegrationError(f"helm-run failed: {why}", hint=f"its words are in {plan.log}")
    imported = import_helm(plan.suite, plan.output, tables)
    if any(run.status == "complete" for run in imported.runs):
        report("helm-summarize")  # HELM's own summary, for its browser; the import does not rest on it
        log = plan.output / f"{plan.name}-summarize.log"
        status = run_tool("helm-summarize", ["--suite", plan.name, *folders], log, lambda line: None)
        if status:
            imported.notes.append(f"helm-summarize ended with status {status}; its words are in {log}")
    return imported


def import_helm(suite: Suite | None, folder: Path, tables_folder: Path) -> HelmImport:
    """Read HELM's results in ``folder`` and write them as ``helm_*.csv``; the run log is never touched.

    A suite gives HELM's model names the ids they have there. Raises :class:`~pcsuite.errors.AnalysisError` where the
    folder holds no run.
    """
    runs = read_helm_runs(folder)
    model_ids = () if suite is None else (*suite.models, *suite.profile.selection.models)
    names = {helm_name(model_id): model_id for model_id in model_ids}
    tables = helm_tables(runs, names)
    written = [table.write_csv(tables_folder / f"{table.name}.csv") for table in tables]
    return HelmImport(runs, tables, written)


def _serve_models(
    plan: HelmPlan, stack: ExitStack, on_answer: Callable[[str], None], on_stop: Callable[[], None]
) -> tuple[list[HelmModel], int, ModelServer | None]:
    """The models as HELM reaches them, how many calls at once, and the server on loopback where one is needed."""

    def reached(adapter: ModelAdapter, base_url: str, remote_name: str) -> HelmModel:
        window = getattr(adapter.options, "context_tokens", None)
        timeout_s = float(getattr(adapter.options, "timeout_s", 600.0)) * 2
        model_id, identity = adapter.model_id, dict(adapter.identity())
        params_b = plan.suite.models[model_id].params_b
        return HelmModel(model_id, base_url, remote_name, identity, window, params_b, timeout_s)

    inflight = plan.suite.profile.repro.max_inflight
    offered: list[HelmModel] = []
    served: dict[str, ModelAdapter] = {}
    threads = 1
    for model_id in plan.model_ids:
        if model_id == BUILT_IN:
            continue
        adapter = build_adapter(model_id, plan.suite.models[model_id])
        stack.callback(adapter.close)
        if isinstance(adapter, SimulatedAdapter):
            why = "is simulated: it answers from the suite's own items, so HELM cannot ask it"
            raise ConfigError(f"model '{model_id}' {why}", hint="choose others by --models")
        threads = max(threads, min(inflight, adapter.max_concurrency or inflight))
        served[model_id] = adapter
        if type(adapter) is OpenAIAdapter:  # not one of the wires derived from it, which HELM does not speak
            # HELM asks by itself where its client sends what ours would: nothing that is ours alone, and no key, which
            # would have to be written into HELM's files.
            options = adapter.options
            keyed = options.api_key_env or options.api_key_command
            is_ours_alone = keyed or options.extra_body or options.system_prompt is not None
            limits = plan.suite.profile.limits  # a budget holds only for calls that are ours
            budgeted = limits.max_tokens_overall is not None or limits.max_cost_usd is not None
            if not is_ours_alone and not budgeted and options.max_tokens_field == "max_tokens":
                offered.append(reached(adapter, options.base_url, options.model or model_id))
                del served[model_id]
    server = None
    if served:
        ledger = plan.output / f"{plan.name}.jsonl"
        server = stack.enter_context(
            ModelServer(plan.suite, served, on_answer=on_answer, on_stop=on_stop, ledger=ledger)
        )
        offered += [reached(adapter, server.base_url, model_id) for model_id, adapter in served.items()]
    return offered, threads, server


def _keep_reasons(plan: HelmPlan, progress: HelmProgress, ended: str) -> None:
    """Leave beside the run folders why some are empty: HELM leaves nothing in them."""
    reasons = dict(progress.failures)
    if progress.unfinished is not None:
        reasons[progress.unfinished] = ended
    folder = plan.output / "runs" / plan.name
    if reasons and folder.is_dir():
        all_reasons = failure_reasons(folder) | reasons
        replace_atomically(folder / FAILURES, json.dumps(all_reasons, indent=1) + "\n")
