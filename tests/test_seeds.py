"""Generators: one stream for every purpose, the same on every call."""

import hashlib

import numpy as np

from robotrl import seeds


def test_a_stream_is_that_of_philox_under_the_hashed_key():
    digest = hashlib.blake2b(b"7\0chunk\x003", digest_size=16).digest()
    expected = np.random.Generator(np.random.Philox(key=np.frombuffer(digest, np.uint64)))
    found = seeds.generator(7, "chunk", 3)
    np.testing.assert_array_equal(found.standard_normal(100), expected.standard_normal(100))
    np.testing.assert_array_equal(found.integers(0, 1000, 100), expected.integers(0, 1000, 100))


def test_streams_of_different_purposes_differ_and_equal_ones_repeat():
    draws = [seeds.generator(*keys).random(4) for keys in ((1, "a"), (1, "b"), (2, "a"), (1, "a", 0), (1, "a"))]
    np.testing.assert_array_equal(draws[0], draws[4])
    assert len(np.unique(draws, axis=0)) == 4
