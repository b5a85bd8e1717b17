"""What the providers that run a model here share: its chat template, and the prompt as the model reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import Field

from pcsuite.config.definitions import Definition
from pcsuite.engines.adapters.base import LOCAL_TOKEN_COUNTS_KEPT, chat_messages


class ChatOptions(Definition):
    """Keys of a model that may have a chat template."""

    chat: bool | None = None
    """Use the model's chat template; by default what the catalogue says of its file, else where it has one
    (``llamacpp``: else always)."""
    system_prompt: str | None = None
    """System message; by default none is sent, and the chat template may put its own."""

    def chat_facts(self, chat: bool) -> Mapping[str, str]:
        """What identifies how prompts are put; ``chat`` is whether the template is used."""
        return {"chat": str(chat), "system_prompt": self.system_prompt or ""}


class TemplateOptions(ChatOptions):
    """Keys of a model whose template the tokenizer of transformers fills in."""

    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further variables of the chat template, for example ``enable_thinking: false``."""

    def chat_facts(self, chat: bool) -> Mapping[str, str]:
        """Those of every template, and the further variables."""
        variables = repr(sorted(self.chat_template_kwargs.items()))
        return {**super().chat_facts(chat), "chat_template_kwargs": variables}

    def render(self, tokenizer: Any, prompt: str, chat: bool) -> str:
        """The prompt as the model reads it: in its chat template where ``chat`` says so.

        A system prompt is the template's system message, or stands before the prompt with a blank line between.
        """
        messages = chat_messages(self.system_prompt, prompt)
        if not chat:
            return "\n\n".join(message["content"] for message in messages)
        return str(
            tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False, **self.chat_template_kwargs
            )
        )


def token_counter(tokenizer: Any) -> Callable[[str], int]:
    """Counts tokens of a text itself, without special ones, and remembers them; it keeps the tokenizer alone."""
    return lru_cache(LOCAL_TOKEN_COUNTS_KEPT)(
        lambda text: len(tokenizer.encode(text, add_special_tokens=False))
    )
