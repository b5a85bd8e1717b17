"""Loading: what a model is prepared to, and what cannot be loaded."""

from __future__ import annotations

import hashlib
import json

import pytest

from pcsuite.engines.adapters import _hf_loading
from pcsuite.engines.adapters._hf_loading import STAMP, converted_folder, load_model, prepare_model
from pcsuite.errors import EngineError
from support.tiny_hf import tiny_adapter


@pytest.fixture(scope="module")
def loaded():
    adapter = tiny_adapter("full")
    yield adapter.loaded
    adapter.close()


@pytest.mark.slow
def test_a_prepared_model_decodes_by_our_sampler_alone(loaded):
    assert loaded.model.generation_config.do_sample is False
    assert loaded.model.generation_config.eos_token_id is None
    assert (loaded.tokenizer.padding_side, loaded.filler) == ("left", 0)
    assert 0 in loaded.stop_tokens  # the tokenizer's end of text
    assert (loaded.dtype, loaded.device) == ("float32", "cpu")


def test_weights_are_known_by_stamp_by_hash_or_by_name(loaded, tmp_path):
    def identity(source):
        return prepare_model(loaded.model, loaded.tokenizer, str(source)).weights_sha256

    assert identity("some/name") == "some/name"
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    inner = hashlib.sha256(b"weights").hexdigest()
    assert identity(tmp_path) == hashlib.sha256(inner.encode()).hexdigest()
    (tmp_path / STAMP).write_text(json.dumps({"source_sha256": "abc"}))
    assert identity(tmp_path) == "abc"


def test_what_cannot_be_loaded_says_what_to_give(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(EngineError, match="cannot load model") as caught:
        load_model(tmp_path, dtype="float32", device_map="cpu")
    assert caught.value.hint == "give a folder of safetensors or a reachable hub name"


def test_a_file_that_was_not_pulled_names_the_command(tmp_path):
    with pytest.raises(EngineError, match="not on this computer") as caught:
        converted_folder("smollm2-135m-instruct-q4_1", tmp_path)
    assert caught.value.hint == "pcsuite models pull smollm2-135m-instruct-q4_1"


def test_a_plain_prompt_begins_with_the_token_that_the_file_asks_for(tmp_path):
    gguf = pytest.importorskip("gguf")
    for wanted in (True, False):
        writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
        writer.add_bos_token_id(7)
        writer.add_add_bos_token(wanted)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        assert _hf_loading._first_token(tmp_path / "m.gguf") == (7 if wanted else None)
    adapter = tiny_adapter("full")
    adapter.close()
    adapter.loaded.first_token = 7
    assert adapter.prompt_tokens("w20 w21") == [7, 20, 21]
    assert adapter.prompt_tokens("w7 w21") == [7, 21]
