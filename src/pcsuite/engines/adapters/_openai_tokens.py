"""Counting tokens by a server's own tokenizer, where it offers one beside the OpenAI endpoints."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any, Literal

from pcsuite.errors import EngineError

TokenizeDialect = Literal["vllm", "llama_server", "none"]


class TokenEndpoint:
    """``/tokenize`` of vLLM or of llama.cpp's server. Blocking; callers keep the counts."""

    def __init__(
        self,
        dialect: TokenizeDialect,
        base_url: str,
        remote_model: str,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self._dialect = dialect
        self._url = base_url.removesuffix("/v1") + "/tokenize"
        self._remote_model = remote_model
        self._headers = dict(headers)
        self._timeout_s = timeout_s

    def __call__(self, text: str) -> int:
        """Tokens of the text itself, without special tokens or chat template."""
        body: dict[str, Any]
        if self._dialect == "vllm":
            body = {"model": self._remote_model, "prompt": text, "add_special_tokens": False}
        else:
            body = {"content": text, "add_special": False, "parse_special": False}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                answer = json.load(response)
            return int(answer["count"]) if self._dialect == "vllm" else len(answer["tokens"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise EngineError(
                f"{self._url} does not count tokens: {reason}", hint="check 'tokenize' of the model"
            ) from None
