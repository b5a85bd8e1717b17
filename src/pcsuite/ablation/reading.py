"""What a request names, read and checked before a study is made of it: the prompt's files, and the model."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pcsuite._util.folder_template import Template
from pcsuite._util.text import shorten
from pcsuite.ablation.rearranging import WHOLE, plain_block
from pcsuite.ablation.request import AblationRequest
from pcsuite.config.definitions import CheckSpec, ModelSpec
from pcsuite.config.load import Suite
from pcsuite.config.model_names import at_address, changed_entry
from pcsuite.data.items import Item
from pcsuite.engines import adapter_of
from pcsuite.engines.session import check_model
from pcsuite.errors import ConfigError, PromptError, did_you_mean
from pcsuite.prompts.blocks import SplitPrompt, read_prompt
from pcsuite.prompts.prompt_files import read_prompt_files
from pcsuite.prompts.verbatim import render_jinja

SIMULATED = "simulated"
_SCRIPTS = (".py", ".sh", ".js", ".mjs", ".ts", ".rb", ".pl")


def takes_items(model: str, base: Suite) -> bool:
    """Whether a model gets items beside its prompt, as a system of the user's own does."""
    return model in base.models and adapter_of(base.models[model].provider).takes_items


def read_files(request: AblationRequest, base: Suite, models: Sequence[str]) -> SplitPrompt:
    """The prompt, split: one file, or several as one, at their places where the target works in a folder.

    ``models`` are all that are asked it: where each gets the item beside it, it is left as it stands. Raises
    ``ConfigError`` where only some of them work in a folder: the others would be asked without the prompt's files.
    """
    known = {name: base.models[name].provider_options() if name in base.models else {} for name in models}
    placed = [name for name, options in known.items() if options.get("in_folder")]
    if placed and (others := [name for name in models if name not in placed]):
        raise ConfigError(
            f"{placed[0]} finds the prompt's files in a folder, and {others[0]}, which is asked the same, works in"
            " none",
            hint="ask it in an ablation of its own, with another --name",
        )
    options = known.get(request.model, {})
    template = options.get("in_folder")
    if (request.check or request.block_checks) and not template:
        raise ConfigError(
            "--check and --block-check look at a folder, and no call works in one",
            hint="--in FOLDER with --target",
        )
    if not template and not request.more_prompts and not request.prompt.is_dir():
        return read_prompt(
            request.prompt,
            request.split,
            append_input=request.append_input,
            system=request.system,
            item_beside=all(takes_items(name, base) for name in models),
        )
    for name in ("append_input", "system"):
        if getattr(request, name):
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{flag} is for a prompt that is one text", hint="leave it out")
    prompt = read_prompt_files(request.prompts, request.split, folder=Path(template) if template else None)
    if template:
        folder = Template.read(template, leave_out=options.get("leave_out") or ())
        for path in prompt.files():
            folder.place(path)
        for check in request.checks().values():
            _refuse_scripts_left_behind(check, folder)
    return prompt


def _refuse_scripts_left_behind(check: CheckSpec, folder: Template) -> None:
    """Raise where a check names a program of this folder that its copy lacks: it would fail for every answer."""
    try:
        words = shlex.split(check.command)
    except ValueError:
        return  # the shell reads more than this does
    for word in words:
        is_script = word.endswith(_SCRIPTS) and not Path(word).is_absolute()
        if is_script and Path(word).is_file() and os.path.normpath(word) not in folder.entries:
            flag = "--block-check" if check.block else "--check"
            raise ConfigError(
                f"{flag} '{shorten(check.command, 60)}': {word} is not in the folder that a call works in, where the"
                " check runs",
                hint=f"name it by its whole path: $PWD/{os.path.normpath(word)}",
            )


def check_templates(request: AblationRequest, prompt: SplitPrompt, items: Sequence[Item]) -> None:
    """Raise where a template of the prompt cannot be rendered for an item: better now than when it is asked."""
    for block in prompt.blocks:
        for item in items if block.jinja else ():
            try:
                render_jinja(block.text, item.input_text, item.columns)
            except PromptError as error:
                raise PromptError(
                    f"{request.prompt}: line {block.line}: block '{block.name}', item '{item.item_id}': {error}"
                ) from error


def resolve_model(request: AblationRequest, base: Suite, free: Sequence[str]) -> ModelSpec:
    """The model that is meant: an id of the models file, ``simulated``, or ``provider/model``.

    Raises ``ConfigError`` for anything else, for effects of a model that is not simulated, and for wrong options.
    """
    name = request.model
    if name.startswith(f"{SIMULATED}/") and name not in base.models and SIMULATED in base.models:
        spec = base.models[SIMULATED]  # several of them, told apart by what follows
    elif name == SIMULATED and name not in base.models:
        spec = ModelSpec(provider=SIMULATED, family=SIMULATED, size="none", base_accuracy=0.6)
    elif name not in base.models:
        raise ConfigError(f"--model: no model '{name}'", hint=base.models.hint(name))
    else:
        spec = base.models[name]
        changes = dict(request.model_options)
        if request.base_url:
            changes |= at_address(name, spec, request.base_url)
        spec = changed_entry(name, spec, changes) if changes else spec
    if request.effects:
        if spec.provider != SIMULATED:
            raise ConfigError(f"--effect: model '{name}' is not simulated, its effects cannot be set")
        for key in request.effects:
            for block in key.split("*"):
                if plain_block(block) not in (*free, WHOLE):
                    raise ConfigError(f"--effect: no block '{block}'", hint=did_you_mean(block, free))
        single = {key: value for key, value in request.effects.items() if "*" not in key}
        joint = {key: value for key, value in request.effects.items() if "*" in key}
        spec = spec.model_copy(update={"operator_effects": single, "interaction_effects": joint})
    check_model(name, spec)
    return spec
