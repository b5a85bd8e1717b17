"""DSPy's optimisers as methods: MIPROv2, GEPA, COPRO and few-shot bootstrapping with random search.

They run in this process over the suite's own engines, cache, budget and log; DSPy fetches nothing and keeps no cache
of its own. DSPy chooses what to try next, the problem measures it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import ModuleType

from pcsuite.errors import ConfigError, require
from pcsuite.optimization.problem import Method, Problem

EXTRA = "dspy"


def load_dspy() -> ModuleType:
    """Import DSPy with everything off that would reach for the network or keep answers behind the suite's back.

    Raises :class:`~pcsuite.errors.MissingExtraError` where DSPy or Optuna is not installed.
    """
    # DSPy prices calls from a table that it would otherwise fetch.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    dspy = require("dspy", EXTRA)
    require("optuna", EXTRA)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    dspy.disable_logging()
    return dspy


@dataclass
class DspyMethod:
    """One of DSPy's optimisers."""

    name: str
    summary: str
    needs_train: bool = False
    """Whether it makes examples from training items."""

    def require(self) -> None:
        """Raise :class:`~pcsuite.errors.MissingExtraError` where DSPy or Optuna is not installed."""
        require("dspy", EXTRA)
        require("optuna", EXTRA)

    def search(self, problem: Problem, *, seed: int, candidates: int) -> None:
        """Let the optimiser try up to ``candidates`` prompts.

        Raises :class:`~pcsuite.errors.ConfigError` where it needs training items and the task has none.
        """
        if self.needs_train and not problem.train:
            why = f"method '{self.name}' makes examples from training items, and task '{problem.task_id}' has none"
            raise ConfigError(why, hint="use gepa, copro, ape or blocks")
        load_dspy()
        from pcsuite.optimization.dspy_search import run_search  # it imports DSPy, which is set up only now

        run_search(self.name, problem, seed=seed, candidates=candidates)


MIPRO: Method = DspyMethod(
    "mipro", "DSPy MIPROv2: proposed instructions and sets of examples, by Bayesian search", needs_train=True
)
GEPA: Method = DspyMethod("gepa", "DSPy GEPA: instructions rewritten by reflection on answers and feedback")
COPRO: Method = DspyMethod("copro", "DSPy COPRO: instructions rewritten from the best so far, round by round")
BOOTSTRAP: Method = DspyMethod(
    "bootstrap", "DSPy few-shot bootstrapping with random search over sets of examples", needs_train=True
)
