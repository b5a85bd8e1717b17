"""One evaluator per kind of task, looked up by name."""

from __future__ import annotations

from pcsuite.evaluation.base import Evaluator
from pcsuite.registry import Registry

EVALUATORS: Registry[type[Evaluator]] = Registry("evaluator", "pcsuite.tasks", {})
