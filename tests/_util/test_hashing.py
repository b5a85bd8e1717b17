"""Hashes of texts and values, and generators named by words."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from pydantic import BaseModel

from pcsuite._util.hashing import canonical_json, digest, named_rng, seed_from, sha256_hex


def test_sha256_of_text_and_bytes_agree():
    assert sha256_hex("é") == sha256_hex("é".encode()) == hashlib.sha256(b"\xc3\xa9").hexdigest()
    assert sha256_hex("\ud800") == hashlib.sha256(b"\xed\xa0\x80").hexdigest()


def test_canonical_json_is_order_free():
    assert canonical_json({"b": 1, "a": [1.5, None]}) == '{"a":[1.5,null],"b":1}'


def test_a_digest_takes_models_and_refuses_what_json_has_not():
    class Point(BaseModel):
        y: int
        x: int

    assert digest(Point(y=2, x=1)) == digest({"x": 1, "y": 2})
    with pytest.raises(TypeError, match="set has no canonical JSON form"):
        digest({1})


def test_seeds_fit_in_31_bits_and_follow_the_text():
    # sha256("abc") begins with ba7816bf; its first 31 bits are 0xba7816bf >> 1.
    assert seed_from("abc") == 0xBA7816BF >> 1
    assert seed_from("abd") != seed_from("abc")


def test_a_generator_depends_on_its_names_alone():
    first, again, other = named_rng("effects", 1), named_rng("effects", 1), named_rng("effects", 2)
    assert first.random() == again.random() != other.random()
    key = int.from_bytes(hashlib.sha256(b"effects\x1f1").digest()[:16], "big")
    assert named_rng("effects", 1).random() == np.random.default_rng(key).random()
