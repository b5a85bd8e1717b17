"""Perturbations: what is done to a prompt to see whether a condition's effect survives it.

A kind has numbered variants with stable ids (``injection-1``). The wording of a variant never changes: a new
wording gets a new number, so that rows of the same id stay comparable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pcsuite.errors import ConfigError
from pcsuite.perturbations.kinds import Kind as Kind
from pcsuite.perturbations.kinds import PerturbationTarget as PerturbationTarget
from pcsuite.prompts.prompt import PromptTree
from pcsuite.registry import Registry

PERTURBATIONS: Registry[Kind] = Registry(
    "perturbation",
    "pcsuite.perturbations",
    {
        "injection": "pcsuite.perturbations.kinds:INJECTION",
        "paraphrase": "pcsuite.perturbations.paraphrase:PARAPHRASE",
        "reorder": "pcsuite.perturbations.kinds:REORDER",
        "distractor": "pcsuite.perturbations.kinds:DISTRACTOR",
        "role_confusion": "pcsuite.perturbations.kinds:ROLE_CONFUSION",
        "scope": "pcsuite.perturbations.kinds:SCOPE",
    },
)
WORDING_VARIED = "paraphrase"
"""The kind that keeps the structure and varies the wording."""
STRUCTURE_VARIED = "reorder"
"""The kind that keeps the wording and varies the structure."""
SCOPE_VARIED = "scope"
"""The kind that keeps both and varies how far the instructions are said to reach."""


class Variant(NamedTuple):
    """One variant of a kind, by its number from 1."""

    kind: str
    number: int

    @property
    def id(self) -> str:
        """The id that the log shows."""
        return f"{self.kind}-{self.number}"


def variants(kinds: Iterable[str], most: int | None = None) -> list[Variant]:
    """The variants of some kinds, in order; the first ``most`` of each where that is given.

    >>> [variant.id for variant in variants(["injection"], 2)]
    ['injection-1', 'injection-2']
    """
    return [
        Variant(name, number)
        for name in kinds
        for number in range(1, PERTURBATIONS.get(name).variants + 1)
        if not most or number <= most
    ]


def variant_of(kind: str, variant_id: str) -> Variant:
    """The variant that an id of a log names.

    A ``ConfigError`` where the kind is unknown or has no such variant.

    >>> variant_of("injection", "injection-2").number
    2
    """
    prefix, _, number = variant_id.rpartition("-")
    count = PERTURBATIONS.get(kind).variants
    if prefix != kind or not number.isdigit() or not 1 <= int(number) <= count:
        raise ConfigError(
            f"'{variant_id}' is no variant of {kind}", hint=f"they are {kind}-1 to {kind}-{count}"
        )
    return Variant(kind, int(number))


def perturb(tree: PromptTree, target: PerturbationTarget, variant: Variant) -> PromptTree:
    """The prompt with one variant of a kind applied; the tree given is not changed.

    ``target`` says which item under which condition it is, on which the wording may depend.
    """
    return PERTURBATIONS.get(variant.kind).apply(tree, target, variant.number)
