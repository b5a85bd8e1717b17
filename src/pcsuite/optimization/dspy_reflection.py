"""GEPA's proposer, through the plain adapter, with a note of what each proposal was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dspy.adapters import Adapter
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer

from pcsuite.optimization.dspy_ledger import RIGHT, Ledger, PromptProgram

SHOWN = 3
"""Examples that a proposal is made from; more are measured, but would not fit the window of a small model."""


class Reflection:
    """Proposes new instructions from examples with feedback, and counts its proposals."""

    def __init__(self, ledger: Ledger, student: PromptProgram, adapter: Adapter) -> None:
        self._ledger = ledger
        self._student = student
        self._proposer = InstructionProposer(adapter=adapter)
        self.proposals = 0

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """New texts for the components of a candidate."""
        self.proposals += 1
        proposed = self._proposer(
            candidate=candidate,
            reflective_dataset={name: telling(examples) for name, examples in reflective_dataset.items()},
            components_to_update=components_to_update,
        )
        self._ledger.basis = self._parent(candidate)
        return dict(proposed)

    def _parent(self, texts: Mapping[str, str]) -> str:
        program = self._student.deepcopy()
        for name, predictor in program.named_predictors():
            predictor.signature = predictor.signature.with_instructions(texts[name])
        return self._ledger.candidate(program.predict).id


def telling(examples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The examples to learn from: wrong answers before right ones, a few of them."""
    return sorted(examples, key=lambda example: example["Feedback"] == RIGHT)[:SHOWN]
