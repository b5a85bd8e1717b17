"""What the backends that steer a transformers model share."""

from __future__ import annotations

import numpy as np
import pytest

from pcsuite.constraints import _steering
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.simulated import SimulatedAdapter, SimulatedOptions
from pcsuite.engines.constrained import CONSTRAINTS
from pcsuite.errors import ConstraintUnavailableError
from support.hf_model import NEEDED, shared_hf_model
from support.tiny_hf import tiny_chat_adapter

D0 = Decoding("d0", 0.0, 1.0, 72)
D1 = Decoding("d1", 0.7, 0.95, 72)
LIBRARY = {"guidance_cfg": "guidance", "lmql_program": "lmql"}


def test_a_model_of_another_provider_cannot_be_steered():
    with pytest.raises(
        ConstraintUnavailableError, match="'guidance_cfg' steers models of provider hf; 'm' is none"
    ):
        CONSTRAINTS.get("guidance_cfg")().steered(SimulatedAdapter("m", SimulatedOptions()))


def test_a_refusal_is_one_line_with_the_whole_reason():
    error = _steering.cannot_enforce("x", "this regex", "too\n  deep " + "." * 400)
    assert error.message == "constraint backend 'x' cannot enforce this regex: too deep " + "." * 400


def test_what_no_grammar_says_is_refused_in_the_backends_name():
    with pytest.raises(
        ConstraintUnavailableError, match="^constraint backend 'guidance_cfg': this regex cannot"
    ):
        CONSTRAINTS.get("guidance_cfg")().grammar(Constraint("regex", "(unclosed"), None)


@pytest.mark.model
@pytest.mark.parametrize("name", ["guidance_cfg", "lmql_program"])
def test_a_prompt_is_read_once_for_its_replicates_and_texts_stay(name, monkeypatch):
    pytest.importorskip(LIBRARY[name], reason=NEEDED)
    backend, model = CONSTRAINTS.get(name)(), tiny_chat_adapter()
    read = []
    reading = _steering.EagerSteps
    monkeypatch.setattr(_steering, "EagerSteps", lambda *arguments: read.append(1) or reading(*arguments))
    constraint = Constraint("regex", "[a-z]{3,9} (river|sea|lake)[a-z ]{0,8}", name)
    prompts = ("Name a water.", "Name a water, and say in a few words where it is.")
    rows = [(prompt, decoding, seed) for prompt in prompts for decoding, seed in ((D0, 0), (D1, 1), (D1, 2))]

    def ask(prompt, decoding, seed):
        return backend.generate_constrained(model, Request(prompt, decoding, seed, constraint), constraint)[
            "text"
        ]

    model.backend_state.pop("prompt", None)
    together = {row: ask(*row) for row in rows}
    assert len(read) == len(prompts)
    apart = {row: ask(*row) for row in sorted(rows, key=lambda row: row[2])}
    assert apart == together
    assert len(read) == len(prompts) + len(rows)
    assert len(set(together.values())) > 2


@pytest.mark.model
def test_logits_after_a_prompt_and_after_parts_of_it():
    model = shared_hf_model()
    prompt = model.prompt_tokens("Name a water.")
    whole = _steering.PrefixForward(model, prompt)
    # guidance asks for less than the prompt first where the last token may yet grow.
    for length in (len(prompt) - 1, len(prompt), len(prompt) - 3, len(prompt)):
        fresh = _steering.PrefixForward(model, [])
        expected = fresh.logits(prompt[:length])
        np.testing.assert_allclose(whole.logits(prompt[:length]), expected, rtol=1e-3, atol=1e-3)
