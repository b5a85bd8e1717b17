"""``bedrock``: models on Amazon Bedrock, by Converse or, for Claude, by Anthropic's own messages.

Requests are signed by botocore (the extra ``bedrock``) with the credentials that the AWS tools would use, or carry the
Bedrock key of ``AWS_BEARER_TOKEN_BEDROCK``, which needs no extra. Bedrock's batches lie in S3 and are not spoken here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import BaseModel

from pcsuite._util.http import HttpResponse
from pcsuite.engines.adapters._batch_wire import BatchService
from pcsuite.engines.adapters._credentials import AwsSignature, Credentials
from pcsuite.engines.adapters._http_adapter import HostPart, HttpAdapter, HttpOptions
from pcsuite.engines.adapters._openai_wire import WireRequest, generation_of, read_usage
from pcsuite.engines.adapters.anthropic_api import AnthropicAdapter, AnthropicOptions
from pcsuite.engines.adapters.base import (
    JSON_ITEM_SEPARATOR,
    JSON_KEY_SEPARATOR,
    Generation,
    Request,
    chat_messages,
    system_apart,
)
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError

ANTHROPIC_VERSION = "bedrock-2023-05-31"
_ANSWER_TOOL = "answer"
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
"""Converse's words for an answer's end, and the suite's."""
_MODEL_ERROR = 424
"""The model failed at this request; another try may succeed."""


_REFUSING_ALL = frozenset(
    {
        "AccessDeniedException", "ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException",
        "IncompleteSignature", "MissingAuthenticationToken",
    }
)  # fmt: skip
"""Errors that are about who asks, not what."""


class BedrockOptions(HttpOptions):
    """What Bedrock has beside the keys of a wire."""

    address_needs: ClassVar[Mapping[str, str]] = {
        "region": "the AWS region must be known: set AWS_REGION, or region=us-east-1"
    }
    region: HostPart | None = None
    """AWS region, such as ``us-east-1``; part of the address and of every signature."""
    aws_profile: str | None = None
    """Profile of the AWS configuration whose credentials sign; by default that of ``AWS_PROFILE``."""
    credentials: Literal["aws", "none"] = "none"
    """``aws``: requests are signed, unless ``api_key_env`` or ``api_key_command`` gives a Bedrock key."""


class ConverseOptions(BedrockOptions):
    """Keys of a model that is asked by Converse."""

    structured: Literal["output_format", "tool", "none"] = "tool"
    """How a schema is enforced: as the output's format (newer models), or as the arguments of a tool that must be
    called; ``none`` where neither is to be tried."""
    cache_prefix: bool = False
    """Whether a cache point is set after the part of a prompt that all items share."""


class BedrockClaudeOptions(BedrockOptions, AnthropicOptions):
    """Keys of a Claude model that is asked by Anthropic's messages."""


class _Bedrock(HttpAdapter):
    """Signatures, and the errors of the service."""

    options: Any

    def open_credentials(self) -> Credentials | None:
        """A command's token, a Bedrock key in the environment, else signatures."""
        options = self.options
        command = super().open_credentials()
        key = os.environ.get(options.api_key_env or "", "").strip()
        if command is not None or key or options.credentials == "none":
            return command
        if not options.region:
            raise ConfigError(
                f"model '{self.model_id}': a signature needs the AWS region",
                hint="set AWS_REGION, or region=us-east-1",
            )
        return AwsSignature("bedrock", options.region, options.aws_profile)

    def key_headers(self, key: str) -> dict[str, str]:
        """A Bedrock key is a bearer's."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def model_path(self, operation: str) -> str:
        """The path of an operation of the model; ids have colons and, of profiles, slashes, which are encoded."""
        return f"/model/{quote(self.remote_model, safe='')}/{operation}"

    def decoded(self, reply: HttpResponse) -> Any:
        """As for any server; the kind of an error is in a header."""
        try:
            return super().decoded(reply)
        except EngineError as error:
            kind = reply.headers.get("x-amzn-ErrorType", "").partition(":")[0]
            error.retryable = error.retryable or error.status == _MODEL_ERROR
            error.refuses_all = error.refuses_all or kind in _REFUSING_ALL
            if error.status == 400 and "model identifier is invalid" in error.message:
                error.refuses_all = True
                error.hint = "check the model's id, and that the account has it in this region"
            if kind == "ExpiredTokenException":
                error.hint = "the AWS credentials have expired: aws sso login, or renew them"
            raise


class BedrockAdapter(_Bedrock):
    """A model by Converse, the form that all of Bedrock's chat models share."""

    Options: ClassVar[type[BaseModel]] = ConverseOptions
    options: ConverseOptions

    def identity(self) -> Mapping[str, str]:
        """Endpoint, remote name, and the options that change answers."""
        cached = {"cache_prefix": "True"} if self.options.cache_prefix else {}
        return {**super().identity(), "api": "converse", "structured": self.options.structured, **cached}

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """The request; Converse has one sample, no seed, and its system message beside the others."""
        standing, messages = system_apart(chat_messages(self.options.system_prompt, request.prompt))
        decoding, omitted = request.decoding, set(self.omitted)
        limits: dict[str, Any] = {"maxTokens": decoding.max_tokens, "temperature": decoding.temperature}
        if decoding.top_p < 1:  # some models refuse temperature and topP together, and 1 changes nothing
            limits["topP"] = decoding.top_p
        names = {"maxTokens": "max_tokens", "topP": "top_p"}
        limits = {
            name: value for name, value in limits.items() if not {name, names.get(name, name)} & omitted
        }
        body: dict[str, Any] = {
            "messages": [
                {"role": entry["role"], "content": [{"text": entry["content"]}]} for entry in messages
            ],
            "inferenceConfig": limits,
        }
        if cut := self._cut(request):
            point = {"cachePoint": {"type": "default"}}
            parts = [{"text": request.prompt[:cut]}, point, {"text": request.prompt[cut:]}]
            body["messages"] = [{"role": "user", "content": parts}]
        if standing:
            body["system"] = [{"text": text} for text in standing]
        if request.constraint is not None:
            body |= self._format_fields(self.schema_to_send(request.constraint, "Converse"))
        return WireRequest(self.model_path("converse"), {**body, **self.extra_body()})

    def _format_fields(self, schema: Any) -> dict[str, Any]:
        """The fields that have an answer follow a schema."""
        if self.options.structured == "output_format":
            # The schema is a text within the JSON here.
            definition = {"name": _ANSWER_TOOL, "schema": json.dumps(schema)}
            return {
                "outputConfig": {
                    "textFormat": {"type": "json_schema", "structure": {"jsonSchema": definition}}
                }
            }
        if schema.get("type") != "object":
            raise ConstraintUnavailableError("a tool's arguments are an object, which this schema is not")
        tool = {
            "name": _ANSWER_TOOL,
            "description": "Gives the answer.",
            "inputSchema": {"json": schema},
        }
        choice = {"tool": {"name": _ANSWER_TOOL}}
        return {"toolConfig": {"tools": [{"toolSpec": tool}], "toolChoice": choice}}

    def _cut(self, request: Request) -> int:
        """Characters of the prompt before the cache point; 0 for none."""
        messages = chat_messages(self.options.system_prompt, request.prompt)
        plain = len(messages) == 1 and messages[0]["content"] == request.prompt
        inside = 0 < request.shared_chars < len(request.prompt)
        return request.shared_chars if self.options.cache_prefix and plain and inside else 0

    def parse(self, request: Request, path: str, answer: Mapping[str, Any]) -> list[Generation]:
        """The one generation of a message: its text blocks joined, or the arguments of the forced tool."""
        text = "".join(_block_text(block) for block in answer["output"]["message"]["content"])
        counts = dict(answer["usage"]) if isinstance(answer.get("usage"), dict) else {}
        cached, written = counts.get("cacheReadInputTokens"), counts.get("cacheWriteInputTokens")
        prompt = counts.get("inputTokens")
        # What was read from the cache, and written to it, is counted apart from the rest of the prompt.
        parts = [part for part in (prompt, cached, written) if isinstance(part, int)]
        counts["prompt_tokens"] = sum(parts) if isinstance(prompt, int) else None
        usage = read_usage(counts, "prompt_tokens", "outputTokens", cached)
        generation = generation_of(text, answer.get("stopReason"), usage, _FINISH_REASONS)
        if cut := self._cut(request):
            generation["prompt_cut"] = cut
        return [generation]


class BedrockClaudeAdapter(_Bedrock, AnthropicAdapter):
    """A Claude model by Anthropic's messages (InvokeModel)."""

    Options: ClassVar[type[BaseModel]] = BedrockClaudeOptions
    options: BedrockClaudeOptions

    def batches(self) -> BatchService | None:
        """None: Anthropic's batches are its own service's."""
        return None

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """Anthropic's request; the model is in the address, the version in the body."""
        body = super().wire(request, samples).body
        body.pop("model", None)
        return WireRequest(self.model_path("invoke"), {"anthropic_version": ANTHROPIC_VERSION, **body})


def _block_text(block: Mapping[str, Any]) -> str:
    """The text of a block; thoughts (``reasoningContent``) are no part of the answer."""
    if "toolUse" in block:
        separators = (JSON_ITEM_SEPARATOR, JSON_KEY_SEPARATOR)
        return json.dumps(block["toolUse"]["input"], ensure_ascii=False, separators=separators)
    text = block.get("text", "")
    if not isinstance(text, str):
        raise EngineError(f"the server's answer has a {type(text).__name__} for its text", retryable=True)
    return text
