"""Models by name: ``provider/model`` becomes a model entry without a line of YAML.

The servers are declared in ``providers_v1.yaml``: where they are, which variable holds the key, and what they know.
A key is sent to the declared host, or to the one that the provider's own variable names; never anywhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pcsuite.config.definitions import Definition, ModelSpec
from pcsuite.config.targets import with_identity
from pcsuite.config.yaml_source import YamlSource, bundled_configs, keyed_problems
from pcsuite.errors import ConfigError, did_you_mean

Feature = Literal["seed", "logprobs", "json_schema", "cached_tokens", "batches"]
_VERSION = re.compile(r"/v\d+[a-z0-9]*\Z")
_FAMILY = re.compile(r"[a-z]+")
_SIZE = re.compile(r"(?<![\dx.a-z])(\d+(?:\.\d+)?)b(?![a-z])")


class ModelCapability(BaseModel):
    """What models of a name pattern take, known since when and from where; other keys are those of a model entry."""

    model_config = ConfigDict(frozen=True, extra="allow")
    as_of: date
    """Day of the source."""
    source: str
    """Who says so: a document, a vendor's client, or another project's tables that were tried live."""

    @property
    def options(self) -> dict[str, Any]:
        """The keys of the model entry, such as ``omit``."""
        return dict(self.model_extra or {})


class ProviderPreset(Definition):
    """A kind of server that models can be named by."""

    wire: str = "openai"
    """The adapter that speaks to it: ``openai`` (chat completions), ``responses``, ``anthropic``, ``google``, or a
    plug-in's; ``wire`` among the keys of ``by_model`` names another for some models."""
    base_url: str
    """Where calls go, and the host that the key belongs to; ``{region}`` in it is the entry's key of that name."""
    url_env: str
    """Variable that names another address."""
    client_path: str = ""
    """What the vendor's own client adds to the address in that variable (``/v1``), so that both forms lead there."""
    url_is_host: bool = False
    """The variable may hold a host and port only; scheme and path are then those of ``base_url``."""
    key_env: str | None = None
    """Variable that holds the key."""
    self_hosted: bool = False
    """The server is the user's own: it needs no key, and its calls have no price per token."""
    knows: tuple[Feature, ...] = ()
    """What the service documents; everything that matters is still tried (constraints) or recorded (seeds)."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keys of the model entry."""
    from_env: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Further keys, each with the variables that may hold its value; the first that is set has its say."""
    by_model: dict[str, ModelCapability] = Field(default_factory=dict)
    """Further keys by pattern of the model's name (``*``, ``?``, ``[a-z]``); the last that fits has its say."""
    price_map: str | None = None
    """Pattern of the provider's names in litellm's price map, by default its own name; empty where no entry there says
    what a model costs here, as with deployments that have names of their own."""
    models: tuple[str, ...] = ()
    """Patterns of names that are this provider's own, for hints about a model that is named without a provider."""


class LocalProvider(Definition):
    """A provider whose models compute on this machine, so that its calls have no price per token."""

    files: bool = False
    """Its models are files: what follows the provider's name is a path or a name on the hub."""


class ProvidersFile(Definition):
    """``providers_v1.yaml``."""

    version: str
    """Version of the definitions."""
    providers: dict[str, ProviderPreset]
    """Servers by the name that stands before the slash."""
    local: dict[str, LocalProvider]
    """Providers that need no server."""


@lru_cache(maxsize=1)
def _declared() -> ProvidersFile:
    return YamlSource.read(bundled_configs() / "providers_v1.yaml").parse(ProvidersFile)


def provider_presets() -> Mapping[str, ProviderPreset]:
    """The declared servers by name; not to be changed."""
    return _declared().providers


def local_providers() -> Mapping[str, LocalProvider]:
    """The declared providers whose models compute here, by name; not to be changed.

    >>> sorted(local_providers())
    ['hf', 'llamacpp', 'simulated', 'vllm-offline']
    """
    return _declared().local


def model_by_name(name: str) -> ModelSpec | None:
    """The entry that ``provider/model`` stands for, or ``None`` where it names no provider.

    Calls go to the address in the provider's variable (``OPENAI_BASE_URL``), else to the declared one. Providers are
    those of ``providers_v1.yaml`` (after one whose models are files a path or hub name follows) and plug-ins'.

    >>> entry = model_by_name("groq/llama-3.1-8b-instant")
    >>> entry.provider, entry.family, entry.size, entry.provider_options()["base_url"]
    ('groq', 'llama', '8B', 'https://api.groq.com/openai/v1')
    """
    provider, _, model = name.partition("/")
    if not provider or not model.strip():
        return None
    last = model.rstrip("/").split("/")[-1].casefold()
    family, size = _FAMILY.search(last), _SIZE.search(last)
    about: dict[str, Any] = {"family": family[0] if family else last, "size": "unknown"}
    if size is not None:
        about |= {"size": f"{size[1]}B", "params_b": float(size[1]) or None}
    local = local_providers().get(provider)
    if local is not None and local.files:
        return ModelSpec(provider=provider, path=model, **about)
    preset = provider_presets().get(provider)
    if preset is not None:
        return ModelSpec(provider=provider, **about, **preset_options(preset, model))
    if any(point.name == provider for point in entry_points(group="pcsuite.adapters")):
        return ModelSpec(provider=provider, model=model, **about)
    return None


def providers_of(model: str) -> list[str]:
    """Providers whose own models are named so, for a model that is named without one.

    >>> providers_of("gpt-4o"), providers_of("smollm")
    (['openai'], [])
    """
    folded = model.casefold()
    presets = provider_presets().items()
    return [name for name, preset in presets if any(fnmatchcase(folded, known) for known in preset.models)]


def preset_options(preset: ProviderPreset, model: str) -> dict[str, Any]:
    """The keys of an entry for a model on a declared server: address, key variable and what the model takes.

    The address is that of the provider's variable (``OPENAI_BASE_URL``), else the declared one; what is declared for
    models of a name pattern goes over what holds for all of the provider's.
    """
    keys: dict[str, Any] = {"model": model}
    elsewhere = os.environ.get(preset.url_env, "").strip()
    keys["base_url"] = (_address(elsewhere, preset) if elsewhere else preset.base_url).rstrip("/")
    if preset.key_env is not None:
        keys["api_key_env"] = preset.key_env
        if preset.self_hosted or elsewhere:
            keys["api_key_required"] = False
    keys |= preset.options
    for key, variables in preset.from_env.items():
        values = [os.environ[name].strip() for name in variables if os.environ.get(name, "").strip()]
        keys |= {key: values[0]} if values else {}
    patterns = [pattern for pattern in preset.by_model if fnmatchcase(model, pattern)]
    return keys | (preset.by_model[patterns[-1]].options if patterns else {})


def _address(url: str, preset: ProviderPreset) -> str:
    """The address that a provider's variable names, what it leaves out being that of ``base_url``.

    The vendors' clients differ in whether the version is part of it, so both forms are taken: a bare host gets the
    whole path, and a path that does not end in a version what the vendor's client adds.
    """
    default = urlsplit(preset.base_url)
    if not preset.url_is_host:
        parts = urlsplit(url)
        if parts.query or parts.fragment or not parts.netloc:
            return url  # the adapter says what is wrong with it
        path = parts.path.rstrip("/") or default.path
        if preset.client_path and not _VERSION.search(path):
            path += preset.client_path
        return f"{parts.scheme}://{parts.netloc}{path}"
    parts = urlsplit(url if "://" in url else f"{default.scheme}://{url}")
    host = parts.netloc if parts.port is not None else f"{parts.netloc}:{default.port}"
    if parts.hostname == "0.0.0.0":  # a server that listens everywhere is asked here
        host = host.replace("0.0.0.0", "127.0.0.1", 1)
    return f"{parts.scheme}://{host}{parts.path.rstrip('/') or default.path}"


def changed_entry(name: str, spec: ModelSpec, changes: Mapping[str, Any]) -> ModelSpec:
    """A model's entry with some keys replaced.

    A key belongs to the host of its entry: where ``base_url`` changes, what gives it is dropped (variable, command,
    the provider's own credentials) unless the changes name it themselves. Raises :class:`ConfigError` for a value that
    no entry can have.
    """
    entry = spec.written()
    if "base_url" in changes and changes["base_url"] != entry.get("base_url"):
        for key in ("api_key_env", "api_key_required", "api_key_command", "credentials"):
            entry.pop(key, None)
    try:
        return ModelSpec.model_validate({**entry, **changes})
    except ValidationError as error:
        raise ConfigError(
            f"options of model '{name}': {keyed_problems(error, ModelSpec.model_fields)}"
        ) from None


def at_address(name: str, spec: ModelSpec, url: str) -> dict[str, Any]:
    """The key that has a model asked at another address, for :func:`changed_entry`.

    Raises :class:`ConfigError` for a model that runs here, which is not asked at one.
    """
    if "base_url" not in spec.provider_options():
        problem = f"--base-url: model '{name}' (provider {spec.provider}) is not asked at an address"
        raise ConfigError(problem, hint="name it by its server: --model openai/NAME")
    return {"base_url": url}


STAND_IN = "simulated"
"""The id of the bundled model that any profile can be rehearsed on, whatever its models file has."""


def model_entry(name: str, values: Mapping[str, Any]) -> ModelSpec:
    """The entry of a models file given as a plain mapping, with what is declared of its provider.

    >>> model_entry("large", {"provider": "openai", "model": "gpt-4.1"}).provider_options()["base_url"]
    'https://api.openai.com/v1'
    """
    return NamedModels({name: ModelSpec.model_validate({"family": "", "size": "", **values})})[name]


class NamedModels(Mapping[str, ModelSpec]):
    """The models of a models file, and every model that can be named ``provider/model``.

    Iteration gives the file's entries. A name that is looked up is resolved once and then stays what it was, also in
    other processes. ``changes`` are keys that override an entry, by its name or ``*`` for all.
    """

    def __init__(
        self,
        entries: Mapping[str, ModelSpec],
        changes: Mapping[str, Mapping[str, Any]] | None = None,
        stand_in: Callable[[], ModelSpec] | None = None,
        folders: Iterable[Path] = (),
        results: str | Path | None = None,
    ) -> None:
        """``stand_in`` gives the model that :data:`STAND_IN` names where the file has none of that id.

        Files of targets (:mod:`pcsuite.config.targets`) are looked for in ``folders``, then in the working folder;
        ``results`` is where results are written.
        """
        self._entries = entries
        self._changes = changes or {}
        self._stand_in = stand_in
        self._folders = tuple(folders)
        self._results = results
        self._resolved: dict[str, ModelSpec] = {}
        self._address: str | None = None
        self._kept: frozenset[str] = frozenset()

    def asked_at(self, url: str, names: Iterable[str], kept: Iterable[str] = ()) -> NamedModels:
        """The same models, those that are asked at an address at this one instead, except ``kept``; keys are dropped.

        Raises :class:`ConfigError` where none of ``names``, the models that are meant, is asked at an address.
        """
        moved = NamedModels(self._entries, self._changes, self._stand_in, self._folders, self._results)
        moved._kept = frozenset(kept)
        names = list(names)
        remote = [name for name in names if name in self and "base_url" in self[name].provider_options()]
        if names and not remote:
            at_address(names[0], self[names[0]], url)
        moved._address = url
        return moved

    def __getitem__(self, name: str) -> ModelSpec:
        if name not in self._resolved:
            spec = self._entries.get(name) or model_by_name(name)
            if spec is None and name == STAND_IN and self._stand_in is not None:
                spec = self._stand_in()
            if spec is None:
                raise KeyError(name)
            preset, options = provider_presets().get(spec.provider), spec.provider_options()
            if preset is not None and "base_url" not in options and "model" in options:
                # An entry that names a declared server without an address gets what is declared of it.
                declared = preset_options(preset, str(options["model"]))
                spec = ModelSpec.model_validate({**declared, **spec.written()})
            changes = {**self._changes.get("*", {}), **self._changes.get(name, {})}
            if self._address and name not in self._kept and "base_url" in spec.provider_options():
                changes["base_url"] = self._address
            spec = changed_entry(name, spec, changes) if changes else spec
            self._resolved[name] = with_identity(name, spec, self._folders, self._results)
        return self._resolved[name]

    def __contains__(self, name: object) -> bool:
        if name in self._entries or name in self._resolved:
            return True
        if name == STAND_IN and self._stand_in is not None:
            return True
        return isinstance(name, str) and model_by_name(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def hint(self, name: str) -> str:
        """What to do about a name that is no model: the closest one, or how models are named."""
        provider, slash, model = name.partition("/")
        from_files = [name for name, local in local_providers().items() if local.files]
        providers = [*provider_presets(), *from_files]
        if not slash:
            full = [f"{provider}/{name}" for provider in providers_of(name)]
            if full:
                return f"did you mean {' or '.join(full)}?"
            closest = did_you_mean(name, self._entries)
            named = "" if closest.startswith("did") else f", or PROVIDER/MODEL, for example openai/{name}"
            return closest + named
        if provider in providers and not model.strip():
            return f"name the model after the slash: {provider}/MODEL"
        return f"{did_you_mean(provider, providers)} (a provider), or an id of the models file"
