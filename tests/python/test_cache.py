"""Keys and values that stay in a cache."""

import asyncio
import threading

import numpy as np
import pytest

import anydim

DECODER = """
fn @main(%x: Tensor[(b, s, 8), f32], %past_key: Tensor[(b, p, 8), f32])
  where b in [0, 9], s in [0, 64], p in [0, 900] {
  %key = concat(%past_key, %x) {axis = 1}
  %turned = transpose(%key) {perm = (0, 2, 1)}
  %scores = matmul(%x, %turned)
  %weights = softmax(%scores) {axis = -1}
  %y = matmul(%weights, %key)
  return %y, %key
}
"""


@pytest.fixture(scope="module")
def decoder(build):
    return build(DECODER, append_in_place=True)


def expected(x, key):
    scores = np.exp(x @ key.transpose(0, 2, 1))
    return scores / scores.sum(-1, keepdims=True) @ key


def test_steps(decoder, random):
    kept = decoder.cache()
    assert (kept.length, kept.nbytes) == (0, 0)
    key = np.empty((3, 0, 8), "float32")
    for rows in (5, 1, 0, 1, 64, 30):
        x = random.standard_normal((3, rows, 8), "float32")
        key = np.concatenate((key, x), 1)
        results = decoder.run({"x": x}, cache=kept)
        assert list(results) == ["y"]
        np.testing.assert_allclose(results["y"], expected(x, key), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(kept.get("key"), key)
        assert kept.length == key.shape[1]
    kept.truncate(4)
    np.testing.assert_array_equal(kept.get("past_key"), key[:, :4])
    kept.set("key", key[:1, :7])
    x = key[:1, :1]
    out = np.empty((1, 1, 8), "float32")
    asyncio.run(decoder.run_async({"x": x}, {"y": out}, cache=kept))
    np.testing.assert_allclose(out, expected(x, np.concatenate((key[:1, :7], x), 1)), rtol=1e-4,
                               atol=1e-5)


def test_memory_is_taken_at_once_where_it_is_reserved(decoder, random):
    kept = decoder.cache()
    kept.reserve(500)
    x = random.standard_normal((2, 1, 8), "float32")
    decoder.run({"x": x}, cache=kept)
    assert kept.nbytes == 2 * 500 * 8 * 4
    for _ in range(20):
        decoder.run({"x": x}, cache=kept)
    assert kept.nbytes == 2 * 500 * 8 * 4


def test_without_a_cache_a_call_gives_all_results(decoder, random):
    x, past = (random.standard_normal((2, n, 8), "float32") for n in (3, 6))
    results = decoder.run({"x": x, "past_key": past})
    np.testing.assert_array_equal(results["key"], np.concatenate((past, x), 1))
    np.testing.assert_allclose(results["y"], expected(x, results["key"]), rtol=1e-4, atol=1e-5)


def test_wrong_use(decoder, build, random):
    x = random.standard_normal((2, 1, 8), "float32")
    kept = decoder.cache()
    decoder.run({"x": x}, cache=kept)
    with pytest.raises(anydim.InputError, match="has no input 'past_key'"):
        decoder.run({"x": x, "past_key": x}, cache=kept)
    with pytest.raises(anydim.InputError, match="has no result 'key' to write"):
        decoder.run({"x": x}, {"key": x}, cache=kept)
    with pytest.raises(anydim.InputError, match="nothing is appended to 'y'"):
        kept.get("y")
    with pytest.raises(anydim.InputError, match="at least 0, got -3"):
        kept.truncate(-3)
    plain = build(DECODER)
    with pytest.raises(anydim.UnsupportedError, match="compiled without append_in_place"):
        plain.cache()
    with pytest.raises(anydim.InputError, match="another model's"):
        plain.run({"x": x}, cache=kept)
    assert kept.length == 1


def test_a_cache_outlives_its_model(build, random):
    model = build(DECODER, append_in_place=True)
    kept = model.cache()
    x = random.standard_normal((2, 1, 8), "float32")
    model.run({"x": x}, cache=kept)
    model.close()
    np.testing.assert_array_equal(kept.get("key"), x)
    with pytest.raises(anydim.ClosedError):
        model.run({"x": x}, cache=kept)


def test_caches_of_threads_grow_beside_each_other(decoder, random):
    steps = random.standard_normal((4, 50, 1, 1, 8), "float32")
    kept = [decoder.cache() for _ in steps]

    def decode(cache, rows):
        for x in rows:
            decoder.run({"x": x}, cache=cache)

    threads = [threading.Thread(target=decode, args=pair) for pair in zip(kept, steps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cache, rows in zip(kept, steps):
        np.testing.assert_array_equal(cache.get("key"), rows.reshape(1, 50, 8))
