"""A catalogue of hand-written rules, and a proposer that adds the one the failures ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field

from pcsuite.config.base import Definition
from pcsuite.config.load import bundled_configs
from pcsuite.config.yaml_source import YamlSource
from pcsuite.verifier.failures import Failure
from pcsuite.verifier.scores import ErrorType

BUNDLED_RULES = "extraction_rules_v1.yaml"
_FIELD = "{field}"


class PromptRule(Definition):
    """One sentence that may help against some kinds of error."""

    id: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")
    """Name; a simulated model can give it an effect."""
    error_types: tuple[ErrorType, ...]
    """Kinds of error it is meant for."""
    fields: tuple[str, ...] = ("*",)
    """Fields it is meant for: patterns over dotted paths without brackets."""
    text: str
    """The sentence; ``{field}`` stands for the failing field."""

    def meets(self, failure: Failure) -> bool:
        """Whether the rule is meant for a failure."""
        field = failure.field.replace("[]", "")
        return failure.error_type in self.error_types and any(
            fnmatchcase(field, pattern) for pattern in self.fields
        )

    def sentence(self, field: str) -> str:
        """The text as it goes into the prompt."""
        return self.text.replace(_FIELD, field)

    def stands_in(self, prompt: str) -> bool:
        """Whether a prompt has the rule, for any field."""
        if _FIELD not in self.text:
            return self.text in prompt
        return re.search(re.escape(self.text).replace(re.escape(_FIELD), ".+?"), prompt) is not None


class RuleCatalogue(Definition):
    """``extraction_rules_v1.yaml``: rules in order of preference."""

    version: str
    """Version of the definitions."""
    rules: tuple[PromptRule, ...]
    """Rules, the particular before the general."""

    def in_prompt(self, prompt: str) -> tuple[str, ...]:
        """Names of the rules a prompt has."""
        return tuple(rule.id for rule in self.rules if rule.stands_in(prompt))


def load_rules(path: Path | None = None) -> RuleCatalogue:
    """Read a catalogue; by default the bundled one."""
    return YamlSource.read(path or bundled_configs() / BUNDLED_RULES).parse(RuleCatalogue)


class RuleProposer:
    """Adds the untried rule that is meant for most of the failures; of equals the first of the catalogue."""

    def __init__(self, catalogue: RuleCatalogue, tried: Callable[[], Iterable[str]]) -> None:
        self._catalogue = catalogue
        self._tried = tried

    def __call__(self, failures: Sequence[Failure], prompt: str) -> str:
        """The prompt with one more rule, or as it is where none is left."""
        seen = "\n".join([prompt, *self._tried()])
        weights: dict[str, int] = {}
        for rule in self._catalogue.rules:
            for failure in failures:
                sentence = rule.sentence(failure.field)
                if rule.meets(failure) and sentence not in seen:
                    weights[sentence] = weights.get(sentence, 0) + failure.count
        if not weights:
            return prompt
        return f"{prompt.rstrip()}\n- {max(weights, key=weights.__getitem__)}"
