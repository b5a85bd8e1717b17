"""``vertex``: models of Google Cloud's Vertex AI: Gemini, Claude by Anthropic's messages, and open models.

Tokens come from google-auth (the extra ``vertex``: application default credentials) or from ``api_key_command``, say
``gcloud auth print-access-token``, which needs no extra. Vertex's batches lie in Cloud Storage and are not spoken here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import BaseModel

from pcsuite.engines.adapters._batch_wire import BatchService
from pcsuite.engines.adapters._credentials import Credentials, GoogleCredentials
from pcsuite.engines.adapters._http_adapter import HostPart, HttpAdapter, HttpOptions
from pcsuite.engines.adapters._openai_wire import WireRequest
from pcsuite.engines.adapters.anthropic_api import AnthropicAdapter, AnthropicOptions
from pcsuite.engines.adapters.base import Request
from pcsuite.engines.adapters.gemini_api import GeminiAdapter, GeminiOptions
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.errors import ConfigError

ANTHROPIC_VERSION = "vertex-2023-10-16"
GLOBAL = "global"


def location_host(location: str) -> str:
    """The host that serves a location.

    >>> location_host("global"), location_host("eu"), location_host("us-east5")
    ('aiplatform.googleapis.com', 'aiplatform.eu.rep.googleapis.com', 'us-east5-aiplatform.googleapis.com')
    """
    if location == GLOBAL:
        return "aiplatform.googleapis.com"
    multi = location in ("eu", "us")
    return f"aiplatform.{location}.rep.googleapis.com" if multi else f"{location}-aiplatform.googleapis.com"


class VertexOptions(HttpOptions):
    """What Vertex has beside the keys of a wire."""

    project: str | None = None
    """Google Cloud project that is billed; by default that of the credentials."""
    location: HostPart = GLOBAL
    """Region (``us-central1``), multi-region (``eu``, ``us``) or ``global``."""
    credentials: Literal["google", "none"] = "none"
    """``google``: google-auth's application default credentials, unless ``api_key_command`` gives a token."""

    @classmethod
    def address_part(cls, name: str, entry: Mapping[str, Any]) -> str:
        """The location's host."""
        if name != "host":
            return super().address_part(name, entry)
        return location_host(super().address_part("location", entry) or GLOBAL)


class VertexGeminiOptions(VertexOptions, GeminiOptions):
    """Keys of a Gemini model."""


class VertexClaudeOptions(VertexOptions, AnthropicOptions):
    """Keys of a Claude model."""


class VertexOpenAIOptions(VertexOptions, OpenAIOptions):
    """Keys of an open model that is asked by chat completions."""


class _Vertex(HttpAdapter):
    """Tokens, and addresses within a project and location."""

    options: Any

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        super().__init__(model_id, options)
        project = self.options.project or getattr(self.credentials, "project", None)
        if not project:
            raise ConfigError(
                f"model '{model_id}': the Google Cloud project must be known",
                hint="set GOOGLE_CLOUD_PROJECT, or project=NAME",
            )
        self._root = f"/projects/{quote(project, safe=':')}/locations/{quote(self.options.location)}"

    def open_credentials(self) -> Credentials | None:
        """A command's token, one in a variable that the entry names, else google-auth's."""
        command = super().open_credentials()
        if command is not None or self.options.api_key_env or self.options.credentials == "none":
            return command
        return GoogleCredentials()

    def key_headers(self, key: str) -> dict[str, str]:
        """A token is a bearer's."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def url(self, path: str) -> str:
        """The address of a path within the project and location."""
        return f"{self.options.base_url}{self._root}{path}"

    def batches(self) -> BatchService | None:
        """None: they lie in Cloud Storage."""
        return None

    def model_path(self, publisher: str, method: str) -> str:
        """The path of a publisher's model."""
        return f"/publishers/{publisher}/models/{quote(self.remote_model, safe='@')}:{method}"

    def identity(self) -> Mapping[str, str]:
        """As for the wire, and the location."""
        return {**super().identity(), "location": self.options.location}


class VertexGeminiAdapter(_Vertex, GeminiAdapter):
    """A Gemini model by ``generateContent``."""

    Options: ClassVar[type[BaseModel]] = VertexGeminiOptions
    options: VertexGeminiOptions

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """Gemini's request at Vertex's address."""
        return WireRequest(self.model_path("google", "generateContent"), super().wire(request, samples).body)


class VertexClaudeAdapter(_Vertex, AnthropicAdapter):
    """A Claude model by Anthropic's messages (``rawPredict``)."""

    Options: ClassVar[type[BaseModel]] = VertexClaudeOptions
    options: VertexClaudeOptions

    def wire(self, request: Request, samples: int = 1) -> WireRequest:
        """Anthropic's request; the model is in the address, the version in the body."""
        body = super().wire(request, samples).body
        body.pop("model", None)
        body = {"anthropic_version": ANTHROPIC_VERSION, **body}
        return WireRequest(self.model_path("anthropic", "rawPredict"), body)


class VertexOpenAIAdapter(_Vertex, OpenAIAdapter):
    """An open model (Llama, Mistral, Qwen, …) by chat completions."""

    Options: ClassVar[type[BaseModel]] = VertexOpenAIOptions
    options: VertexOpenAIOptions

    def url(self, path: str) -> str:
        """The address of a path below the compatible endpoint."""
        return super().url(f"/endpoints/openapi{path}")
