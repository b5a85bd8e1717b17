"""Prompts in Python and TypeScript files: string literals, read where they stand and never executed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pcsuite.errors import PromptError
from pcsuite.prompts import python_literals, script_literals
from pcsuite.prompts.literals import CodeMessage
from pcsuite.prompts.sources import Kept, PromptSource, PromptText


@dataclass(frozen=True)
class CodeSource(PromptSource):
    """A prompt in a program."""

    name: str = ""
    """Of the variable, attribute or key that is given the prompt."""
    messages: tuple[CodeMessage, ...] = field(default=(), compare=False)

    @classmethod
    def read(cls, original: str, suffix: str, name: str) -> CodeSource:
        """The prompt of that name; raises ``PromptError`` where there is none or where it is computed."""
        literals = python_literals if suffix == ".py" else script_literals
        messages = tuple(literals.find_prompt(original, name))
        if not any(message.literal.text.strip() for message in messages):
            raise PromptError(f"'{name}' is empty")
        return cls(original, suffix, name, messages)

    @cached_property
    def _texts(self) -> tuple[PromptText, ...]:
        return tuple(
            PromptText(one.literal.text, one.role, one.line, holes=one.literal.holes) for one in self.messages
        )

    @property
    def texts(self) -> tuple[PromptText, ...]:
        """The text, or the messages of the chat."""
        return self._texts

    def _written(self, kept: Kept) -> str:
        cuts: list[tuple[int, int]] = []
        for number, message in enumerate(self.messages):
            spans = kept.get(number, ())
            if not spans and message.entry is not None:
                cuts.append(message.entry)
            else:
                cuts += message.literal.cuts(spans)
        result = self.original
        for start, end in sorted(cuts, reverse=True):
            result = result[:start] + result[end:]
        expected = self.remaining(kept)
        problem = ""
        try:
            again = CodeSource.read(result, self.suffix, self.name)
            exact = again.remaining({n: [(0, len(t.text))] for n, t in enumerate(again.texts)}) == expected
        except PromptError as error:
            exact, problem = False, f": {error}"
        if not exact:
            raise PromptError(
                f"'{self.name}' cannot be written with a part left out{problem}",
                hint="give the prompt a literal of its own, without parts that are used twice",
            )
        return result
