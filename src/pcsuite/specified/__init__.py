"""The import paths of the written specification, resolved to what the suite has.

People arrive with imports in their hands: ``from pcsuite.runners.run_task import run_task``. One table says what each
module of the specification is here, and one finder resolves it when it is first imported: a module that the suite has
under another name, or names that one of its own modules lacks. Nothing is implemented twice; where a signature differs
a bridge (:mod:`~pcsuite.specified.prompting`, :mod:`~pcsuite.specified.running`, :mod:`~pcsuite.specified.scoring`)
calls what there is. ``docs/reference/specification.md`` lists them all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:  # its module takes as long to import as all the rest of this one
    Loader = object

_PROMPTING, _RUNNING, _SCORING = (f"pcsuite.specified.{name}" for name in ("prompting", "running", "scoring"))


def _names(module: str, names: str) -> dict[str, str]:
    """Names that are attributes of one module, under their own name."""
    return {name: f"{module}:{name}" for name in names.split()}


_CONDITIONS = " ".join(
    ("C0_Baseline", "C1_RoleGoal", "C2_AddConstraints", "C3_AddSchema", "C4_AddVerifier", "C5_AddFewShot",
     "C6_HardConstraint", "C7_ClosedLoop_ReAct", "C8_DSPyOptimized"),
)  # fmt: skip

MODULES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    # module of the specification: (the suite's module on its subject, names that are elsewhere)
    "pcsuite.config": ("", _names(_RUNNING, "Profile SuiteDefs load_profile load_suite_defs")),
    "pcsuite.registry": (
        "",
        {
            "ModelRegistry": f"{_RUNNING}:ModelRegistry",
            "TaskRegistry": "pcsuite.evaluation:EVALUATORS",
            "ConditionRegistry": f"{_PROMPTING}:CONDITIONS",
            "ModelAdapterRegistry": "pcsuite.engines:ADAPTERS",
            "ConstraintRegistry": "pcsuite.engines.constrained:CONSTRAINTS",
            "MetricRegistry": "pcsuite.config.bundled:METRICS",
        },
    ),
    "pcsuite.runners.run_task": ("", _names(_RUNNING, "run_task")),
    "pcsuite.runners.run_helm": ("pcsuite.integrations.helm.run", {}),
    "pcsuite.runners.run_promptbench": ("pcsuite.integrations.promptbench.block", {}),
    "pcsuite.runners.react_loop": ("", _names(_RUNNING, "REACT_INSTRUCTIONS run_react")),
    "pcsuite.data.datasets": ("pcsuite.data.items", {}),
    "pcsuite.data.splits": ("pcsuite.data.items", {}),
    "pcsuite.data.cache": ("pcsuite.data.items", {}),
    "pcsuite.prompts.operators": ("", {}),
    "pcsuite.prompts.operators.operators": (
        "",
        _names(
            _PROMPTING,
            "OperatorOutput Operator RoleOperator GoalOperator ConstraintsOperator AbstainOperator ExemplarsOperator"
            " VerifierOperator ReasoningModeOperator",
        ),
    ),
    "pcsuite.prompts.operators.render": (
        "",
        _names(_PROMPTING, "make_jinja_env apply_operators render_prompt"),
    ),
    "pcsuite.prompts.operators.validate": ("pcsuite.prompts.operators", {}),
    "pcsuite.prompts.conditions.conditions": (
        "",
        {
            "BuiltPrompt": "pcsuite.prompts.conditions.conditions:PromptCondition",
            **_names(_PROMPTING, f"Condition CONDITIONS {_CONDITIONS}"),
        },
    ),
    "pcsuite.engines.model_api": ("pcsuite.engines.session", {}),
    "pcsuite.engines.adapters.base": (
        "",
        {"ConstraintEngine": "pcsuite.engines.constrained:ConstraintEngine"},
    ),
    "pcsuite.engines.adapters.local_hf": ("", _names(_RUNNING, "LocalHFAdapter")),
    "pcsuite.constraints.outlines_json": ("", _names(_RUNNING, "generate_json_constrained")),
    "pcsuite.optimization.ape_opt": ("pcsuite.optimization.ape", {}),
    "pcsuite.evaluation.metrics": ("pcsuite.evaluation.base", {}),
    "pcsuite.evaluation.extractors": ("pcsuite.evaluation.parsing", {}),
    "pcsuite.evaluation.truthfulness": ("pcsuite.evaluation.truthfulqa", {}),
    "pcsuite.evaluation.fever": ("", _names(_RUNNING, "Passage SimpleRetriever format_observations")),
    "pcsuite.evaluation.calibration": ("pcsuite.stats.calibration", {}),
    "pcsuite.evaluation.robustness": ("pcsuite.stats.robustness", {}),
    "pcsuite.evaluation.evaluators": (
        "",
        {
            "TaskEvaluator": "pcsuite.evaluation.own_scorer:TaskEvaluator",
            **_names(
                _SCORING,
                "CONLL_TAGS EVALUATORS EvaluationResult Evaluator ConllNerJsonEvaluator AgNewsJsonEvaluator"
                " CsqaJsonEvaluator TruthfulQaJsonEvaluator FeverJsonEvaluator Gsm8kEvaluator get_evaluator"
                " gsm8k_gold_final gsm8k_pred_final conll_tags_to_spans conll_pred_to_spans f1_spans truthfulqa_em"
                " fever_label_score parse_json_best_effort",
            ),
        },
    ),
    "pcsuite.evaluation.truthfulqa_metrics": (
        "",
        _names(_SCORING, "TruthfulQAMetricResult truthfulqa_reference_metrics"),
    ),
    "pcsuite.evaluation.metric_cache": ("", _names(_SCORING, "record_compute_time")),
    "pcsuite.perturbations.promptbench_wrap": ("pcsuite.integrations.promptbench.attacks", {}),
    "pcsuite.perturbations.perturbations": ("pcsuite.perturbations.kinds", {}),
    "pcsuite.logging.schema": ("pcsuite.logging.row", {}),
    "pcsuite.logging.writer": ("pcsuite.logging.log", _names(_RUNNING, "JsonlWriter")),
    "pcsuite.logging.aggregate": ("pcsuite.analysis.analyse", _names(_RUNNING, "aggregate_run")),
    "pcsuite.logging.plots": ("pcsuite.reporting.build", _names(_RUNNING, "make_plots")),
    "pcsuite.logging.cache_report": (
        "",
        _names(_SCORING, "CacheDbStats read_cache_db_stats read_runtime_cache_stats write_cache_report"),
    ),
    "pcsuite.utils": ("pcsuite._util", {}),
    "pcsuite.utils.seeds": ("pcsuite._util.hashing", {}),
    "pcsuite.utils.hashing": ("pcsuite._util.hashing", {"stable_hash": "pcsuite._util.hashing:digest"}),
    "pcsuite.utils.timing": ("pcsuite.runners.progress", {}),
}


def resolve(module: str, name: str) -> Any:
    """What a name of a module of the specification is here; ``AttributeError`` where it is nothing."""
    subject, names = MODULES[module]
    target = names.get(name)
    if target is not None:
        home, _, attribute = target.partition(":")
        return getattr(importlib.import_module(home), attribute)
    if subject and not name.startswith("__"):
        return getattr(importlib.import_module(subject), name)
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


class SpecifiedFinder(Loader):
    """Finds modules of the table that are not files, and adds the table's names to those that are."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The module's spec; ``None`` for every module that the table does not name."""
        if name not in MODULES:
            return None
        spec = None if name == "pcsuite.utils" else PathFinder.find_spec(name, path, target)
        if spec is None:
            holds_others = any(other.startswith(f"{name}.") for other in MODULES)
            return ModuleSpec(name, SpecifiedFinder(), is_package=holds_others)
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _add_names(module)

        loader.exec_module = exec_module
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module."""
        return

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module that is no file: everything in it is looked up when it is asked for."""
        subject, names = MODULES[module.__name__]
        module.__doc__ = f"What the specification has in ``{module.__name__}``" + (
            f": see {subject}." if subject else "."
        )
        module.__dict__["__all__"] = sorted(names)
        _add_names(module)


def _add_names(module: ModuleType) -> None:
    """Have a module look up the table's names after its own."""
    if not hasattr(module, "__path__") and any(other.startswith(f"{module.__name__}.") for other in MODULES):
        module.__dict__["__path__"] = []  # its submodules are found here and nowhere else
    module.__dict__["__getattr__"] = lambda name: resolve(module.__name__, name)


def install() -> None:
    """Let imports find the modules of the table; once a process."""
    if SpecifiedFinder not in sys.meta_path:
        sys.meta_path.insert(0, SpecifiedFinder)
