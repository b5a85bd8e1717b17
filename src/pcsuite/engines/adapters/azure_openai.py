"""``azure``: models that are deployed in an Azure OpenAI resource.

The classic form names the deployment in the address and the API's version in the query; ``api_version: v1`` is the form
without either. A key goes into the header ``api-key``; a token that ``api_key_command`` prints (Entra) is a bearer's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pydantic import BaseModel, Field, model_validator

from pcsuite.engines.adapters._batch_wire import BatchService, OpenAIBatches
from pcsuite.engines.adapters._http_adapter import HostPart, HttpAdapter
from pcsuite.engines.adapters._openai_wire import CHAT
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.adapters.responses_api import RESPONSES, ResponsesAdapter, ResponsesOptions
from pcsuite.errors import EngineError

GENERAL_VERSION = "2024-10-21"
"""The last dated version that is not a preview; what came later is in ``v1``."""
V1 = "v1"
FILE_WAIT_S, FILE_LOOKS = 2.0, 150
"""Between looks at an uploaded file, and how many: a batch can be made only once it is processed."""


def split_address(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry whose address is that of the resource alone; people paste it from the portal with everything after it.

    What the path and query say becomes keys of the entry: the version over its own, the deployment where it names none.

    >>> pasted = "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-06-01"
    >>> split_address({"base_url": pasted})
    {'base_url': 'https://r.openai.azure.com', 'model': 'd', 'api_version': '2024-06-01'}
    """
    parts = urlsplit(str(entry["base_url"]))
    root, marker, rest = parts.path.partition("/openai")
    if not marker or (rest and not rest.startswith("/")):
        root, rest = parts.path, ""
    steps = [unquote(step) for step in rest.split("/") if step]
    keys = {name: value for name, value in entry.items() if value is not None}
    if steps[:1] == ["deployments"] and len(steps) > 1:
        keys.setdefault("model", steps[1])
    elif steps[:1] == [V1]:
        keys["api_version"] = V1
    query = parse_qs(parts.query)
    if set(query) == {"api-version"}:  # any other query is refused with the address
        keys["api_version"] = query["api-version"][0]
        parts = parts._replace(query="")
    return keys | {"base_url": parts._replace(path=root.rstrip("/")).geturl()}


class AzureOptions(OpenAIOptions):
    """Keys of a deployment that is asked by chat completions."""

    address_needs: ClassVar[Mapping[str, str]] = {
        "resource": "where the resource is must be known: set AZURE_OPENAI_ENDPOINT, or resource=NAME"
    }
    api_version: str = Field(default=GENERAL_VERSION, pattern=r"^(v1|preview|\d{4}-\d{2}-\d{2}(-preview)?)$")
    """Version of the service's API: a date, which goes into the query, or ``v1``, the form without one."""
    key_header: Literal["api-key", "bearer"] | None = None
    """Header that carries the key; by default ``api-key`` for one of a variable, the bearer's for a command's token."""
    resource: HostPart | None = None
    """Name of the resource, where the address is ``https://{resource}.openai.azure.com``."""

    @model_validator(mode="before")
    @classmethod
    def _resource_alone(cls, entry: Any) -> Any:
        plain = isinstance(entry, dict) and isinstance(entry.get("base_url"), str)
        return split_address(entry) if plain and "{" not in entry["base_url"] else entry


class AzureResponsesOptions(AzureOptions, ResponsesOptions):
    """Keys of a deployment that is asked by the Responses API, which has no dated version that is not a preview."""

    api_version: str = Field(default=V1, pattern=r"^(v1|preview|\d{4}-\d{2}-\d{2}(-preview)?)$")


class _Azure(HttpAdapter):
    """Addresses, headers and batches of a resource."""

    service: ClassVar[str | None] = "openai"  # the same models, and the same limits of strict schemas
    options: AzureOptions

    def key_headers(self, key: str) -> dict[str, str]:
        """A key in its own header, or the bearer's where the options say so."""
        if not key:
            return {}
        return {"Authorization": f"Bearer {key}"} if self.options.key_header == "bearer" else {"api-key": key}

    def token_headers(self, token: str) -> dict[str, str]:
        """The bearer's header; a key that a command prints needs ``key_header: api-key``."""
        bearer = self.options.key_header != "api-key"
        return {"Authorization": f"Bearer {token}"} if bearer else {"api-key": token}

    def url(self, path: str) -> str:
        """The address of a path: under the deployment for chat completions, with the version in the query."""
        root, version = f"{self.options.base_url}/openai", self.options.api_version
        if version == V1:
            return f"{root}/v1{path}"
        where = f"/deployments/{quote(self.remote_model, safe='')}{path}" if path == CHAT else path
        return f"{root}{where}{'&' if '?' in path else '?'}api-version={version}"

    def identity(self) -> Mapping[str, str]:
        """As for the wire, and the API's version."""
        return {**super().identity(), "api_version": self.options.api_version}


class AzureAdapter(_Azure, OpenAIAdapter):
    """A deployment by chat completions."""

    Options: ClassVar[type[BaseModel]] = AzureOptions
    options: AzureOptions
    responses_wire: ClassVar[str] = "azure-responses"

    def batches(self) -> BatchService | None:
        """Files and batches of the resource; the deployment must be one for batches."""
        return AzureBatches(self, CHAT, prefix="")


class AzureResponsesAdapter(_Azure, ResponsesAdapter):
    """A deployment by the Responses API."""

    Options: ClassVar[type[BaseModel]] = AzureResponsesOptions
    options: AzureResponsesOptions

    def batches(self) -> BatchService | None:
        """Files and batches of the resource."""
        return AzureBatches(self, RESPONSES)


class AzureBatches(OpenAIBatches):
    """OpenAI's batches in an Azure resource, where a file must be processed before a batch can be made of it."""

    async def upload(self, content: bytes, token: str) -> str:
        """As OpenAI's, waiting until the file is processed."""
        file_id = await super().upload(content, token)
        for _ in range(FILE_LOOKS):
            file = await self.get(f"/files/{file_id}")
            status = file.get("status") if isinstance(file, dict) else None
            if status in ("processed", None):
                return file_id
            if status in ("error", "deleting", "deleted"):
                raise EngineError(f"the service could not process the batch's file ({status})", status=400)
            await asyncio.sleep(FILE_WAIT_S)
        raise EngineError("the service has not processed the batch's file yet", retryable=True)
