"""What a call gives, and what it copies."""

import ast
import gc
import pathlib
import warnings

import ml_dtypes
import numpy as np
import onnx
import pytest

import anydim
from models import (ADD, DENSE, ENCODER, IDENTITY, TRANSPOSE, Foreign, address, dense_inputs,
                    peak_bytes, resident_bytes)
from models import dense as expected_dense

DTYPES = [
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
    "uint16", "uint8", "bool"]
SHORT = {"float64": "f64", "float32": "f32", "float16": "f16", "bool": "bool"}


def short(dtype):
    return SHORT.get(dtype) or dtype.replace("uint", "u").replace("int", "i")


def numbers(dtype, shape):
    return (np.arange(np.prod(shape)) %
            2 if dtype == "bool" else np.arange(np.prod(shape))).reshape(shape).astype(dtype)


def test_results(dense, random):
    for batch, seq in ((1, 1), (2, 7), (0, 3), (64, 64), (3, 0)):
        inputs = dense_inputs(random, batch, seq)
        results = dense.run(inputs)
        assert list(results) == ["r"]
        np.testing.assert_allclose(results["r"], expected_dense(**inputs), rtol=1e-5, atol=1e-5)


def test_what_a_model_says_of_itself(dense):
    assert dense.inputs == [
        anydim.TensorInfo("x", "float32", ("batch", "seq", 8)),
        anydim.TensorInfo("w", "float32", (8, 4)),
        anydim.TensorInfo("b", "float32", (4,)),
    ]
    assert dense.outputs == [anydim.TensorInfo("r", "float32", ("batch", "seq", 4))]
    assert dense.symbols["batch"] == anydim.Symbol(0, 64, 1, dense.symbols["batch"].reason)
    assert repr(dense) == "<anydim.Model x, w, b -> r>"


def test_models_come_as_paths_bytes_and_messages(tmp_path, cache, random):
    file = pathlib.Path(__file__).parents[1] / "models/tiny_bert.onnx"
    given = [file, str(file), file.read_bytes(), bytearray(file.read_bytes()), onnx.load(file)]
    models = [anydim.compile(one, cache_dir=cache, threads=2) for one in given]
    inputs = {info.name: np.ones((2, 3), info.dtype) for info in models[0].inputs}
    first, *others = [model.run(inputs) for model in models]
    for other in others:
        assert all((other[name] == first[name]).all() for name in first)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_type_there_and_back(build, dtype):
    model = build(TRANSPOSE.replace("DTYPE", short(dtype)))
    assert model.inputs[0].dtype == dtype
    given = numbers(dtype, (3, 5))
    result = model.run({"x": given})["y"]
    assert result.dtype == given.dtype and (result == given.T).all()
    assert (np.from_dlpack(model.run({"x": Foreign(given)}, arrays="dlpack")["y"]) == given.T).all()


def test_bfloat16_of_ml_dtypes(build):
    model = build(TRANSPOSE.replace("DTYPE", "bf16"))
    assert model.inputs[0].dtype == "bfloat16"
    given = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    result = model.run({"x": given})["y"]
    assert result.dtype == ml_dtypes.bfloat16 and (result == given.T).all()
    patterns = model.run({"x": given.view("uint16")})["y"]
    assert (patterns == given.T).all()
    out = np.zeros((3, 2), ml_dtypes.bfloat16)
    assert model.run({"x": given[:, ::-1]}, {"y": out})["y"] is out and (out
                                                                         == given[:, ::-1].T).all()


def test_inputs_are_read_where_they_lie(build):
    """A model that gives its input back would hand out the caller's memory: that alone is
    copied."""
    model = build(ADD)
    x, y = np.ones(1000, "float32"), np.full(1000, 2, "float32")
    x.flags.writeable = y.flags.writeable = False
    assert (model.run({"x": x, "y": y})["z"] == 3).all()
    foreign = Foreign(x)
    with pytest.raises(BufferError):
        x.__dlpack__()  # NumPy hands read-only memory over by version 1 of DLPack alone
    assert (model.run({"x": foreign, "y": y})["z"] == 3).all() and foreign.exports > 0
    echoed = build(IDENTITY.replace("DTYPE", "f32"))
    given = np.ones((2, 3), "float32")
    result = echoed.run({"x": given})["x"]
    assert not np.shares_memory(result, given) and result.flags.writeable


def test_copied_inputs_are_counted(build, random):
    """None where layouts allow; one for each array where they do not."""
    model = build(DENSE)
    inputs = dense_inputs(random, 4, 6)
    out = np.zeros((4, 6, 4), "float32")
    for _ in range(3):
        model.run(inputs)
        model.run(inputs, {"r": out})
        model.run({name: Foreign(array) for name, array in inputs.items()}, arrays="dlpack")
    assert model.stats().copied_inputs == 0
    model.run({
        **inputs, "x": np.asfortranarray(inputs["x"]),
        "w": Foreign(np.asfortranarray(inputs["w"]))})
    assert model.stats().copied_inputs == 2


def test_large_arrays_take_no_memory_twice(build):
    """128 MiB in and out, both the caller's: what is resident does not grow by a copy of either."""
    model = build(ADD)
    x, out = np.ones(1 << 25, "float32"), np.zeros(1 << 25, "float32")
    out[:] = 0
    peak_bytes()
    before = peak_bytes()
    model.run({"x": x, "y": x}, {"z": out})
    assert out[-1] == 2 and peak_bytes() - before < 32 << 20


def test_results_are_handed_over_and_not_copied(build):
    """The runtime's own block is NumPy's memory: it lies on a page of its own, and is used again
    once the result is dropped."""
    model = build(ADD)
    x = np.ones(100_000, "float32")
    result = model.run({"x": x, "y": x})["z"]
    assert address(result) % 4096 == 0 and result.base is not None and result.flags.writeable
    first = address(result)
    del result
    gc.collect()
    again = model.run({"x": x, "y": x})["z"]
    assert address(again) == first
    other = model.run({"x": x, "y": x})["z"]
    assert not np.shares_memory(again, other)


def test_results_where_the_caller_wants_them(dense, random):
    inputs = dense_inputs(random, 3, 5)
    expected = dense.run(inputs)["r"]
    out = np.full((3, 5, 4), np.nan, "float32")
    assert dense.run(inputs, {"r": out})["r"] is out
    assert (out == expected).all()
    block = np.zeros((10, 5, 4), "float32")
    dense.run(inputs, out={"r": block[2:5]})
    assert (block[2:5] == expected).all() and (block[5:] == 0).all() and (block[:2] == 0).all()
    foreign = Foreign(np.zeros((3, 5, 4), "float32"))
    assert dense.run(inputs, {"r": foreign})["r"] is foreign and (foreign.array == expected).all()


def test_every_layout_of_inputs(dense, random):
    inputs = dense_inputs(random, 6, 10)
    expected = dense.run(inputs)["r"]
    x = inputs["x"]
    wide = np.zeros((6, 10, 16), "float32")
    wide[..., ::2] = x
    flipped = np.ascontiguousarray(x[::-1, :, ::-1])
    unaligned = np.frombuffer(b"\0" + x.tobytes(), "uint8")[1:].view("float32").reshape(x.shape)
    layouts = {
        "fortran": np.asfortranarray(x),
        "strided": wide[..., ::2],
        "negative strides": flipped[::-1, :, ::-1],
        "not aligned": unaligned,
        "the other byte order": x.astype(">f4"),
        "transposed": np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
    }
    assert not unaligned.flags.aligned
    for name, given in layouts.items():
        assert (dense.run({**inputs, "x": given})["r"] == expected).all(), name
        if name not in ("not aligned", "the other byte order"):
            assert (dense.run({**inputs, "x": Foreign(given)})["r"] == expected).all(), name
    stretched = np.broadcast_to(np.float32(2), (6, 10, 8))
    assert (dense.run({**inputs, "x": stretched
                       })["r"] == dense.run({**inputs, "x": stretched.copy()})["r"]).all()


def test_numbers_of_rank_zero(build):
    model = build(
        "fn @main(%x: Tensor[(n), f32], %y: Tensor[(), f32]) {\n  %z = mul(%x, %y)\n  return %z\n}\n"
    )
    for three in (np.float32(3), np.array(3, "float32")):
        assert (model.run({"x": np.ones(4, "float32"), "y": three})["z"] == 3).all()


def test_any_mapping_of_inputs(dense, random):
    import collections
    import types

    inputs = dense_inputs(random, 2, 2)
    expected = dense.run(inputs)["r"]
    for mapping in (types.MappingProxyType(inputs), collections.OrderedDict(inputs),
                    collections.ChainMap(inputs)):
        assert (dense.run(mapping)["r"] == expected).all()


def padded(encoder, random, lengths):
    ids = random.integers(0, 50, (len(lengths), max(lengths)))
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype("int64")
    return ids, mask


def test_ragged_calls_are_padded_ones_without_padding(encoder, random):
    lengths = [3, 9, 1, 6]
    ids, mask = padded(encoder, random, lengths)
    rows = encoder.run({"ids": ids, "mask": mask})["rows"]
    assert (rows[mask == 0] == 0).all()
    flat, offsets = ids[mask == 1], np.concatenate([[0], np.cumsum(lengths)])
    for given in (flat, {"ids": flat}):
        ragged = encoder.run_ragged(given, offsets)["rows"]
        np.testing.assert_allclose(ragged, rows[mask == 1], rtol=1e-4, atol=1e-5)
    out = np.zeros((sum(lengths), 16), "float32")
    assert encoder.run_ragged(flat, offsets, {"rows": out})["rows"] is out and (out == ragged).all()
    calls = encoder.stats().calls
    assert calls.ragged == 3 and calls.packed >= 1


def test_statistics(build, random):
    model = build(ENCODER, masked_rows="zero")
    ids, mask = padded(model, random, [2, 5])
    for _ in range(3):
        model.run({"ids": ids, "mask": mask})
    with pytest.raises(anydim.InputError):
        model.run({"ids": ids, "mask": mask[:, :3]})
    calls = model.stats().calls
    assert (calls.calls, calls.failed, calls.packed, calls.padded) == (3, 1, 3, 0)
    assert (calls.tokens_given, calls.tokens_computed, calls.tokens_useful) == (30, 21, 21)
    assert 0 < calls.latency.p50 <= calls.latency.most * 17 / 16 and calls.seconds > 0
    assert model.stats().kernels.entries > 0 and model.stats().memory.held_bytes > 0


def test_memory_ceiling_and_explanation(encoder):
    shapes = {"ids": (4, 16), "mask": (4, 16)}
    ceiling = encoder.memory_ceiling(shapes)
    assert ceiling.arena_bytes > 0 and ceiling.constant_bytes > 0 and ceiling.unbounded_because ==""
    # Calls of other shapes, whose program has other bounds.
    encoder.run_ragged(np.zeros(4, "int64"), np.array([0, 4]))
    assert encoder.memory_ceiling(shapes).arena_bytes == ceiling.arena_bytes
    explanation = encoder.explain(shapes)
    assert all(launch.warnings == () for launch in explanation.launches)  # no assembler
    assert explanation.launches and explanation.padding.startswith("removed")
    assert explanation.launches[0].region in str(
        explanation) and explanation.arena_bytes <= ceiling.arena_bytes
    with pytest.raises(anydim.InputError, match="shape of input 'mask' is missing"):
        encoder.explain({"ids": (4, 16)})
    with pytest.raises(anydim.InputError):
        encoder.memory_ceiling({"ids": (4, 99), "mask": (4, 99)})


def test_padding_that_stays_is_told(build):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packed = build(ENCODER, masked_rows="zero")
        kept = build(ENCODER)
    assert packed.padded_because == "" and packed.hidden_rows_kept_because == ""
    assert kept.hidden_rows_kept_because == ""
    with pytest.warns(anydim.PaddingWarning, match="no attention was recognised") as told:
        model = build(DENSE, masked_rows="zero")
    assert len(told) == 1 and told[0].filename == __file__
    assert "no attention was recognised" in model.padded_because and model.hidden_rows_kept_because in str(
        told[0].message)


def test_options_reach_the_compiler(build, random):
    model = build(DENSE, dims={"batch": (1, 4)}, policies="symbolic", precision="bf16")
    assert (model.symbols["batch"].low, model.symbols["batch"].high) == (1, 4)
    inputs = dense_inputs(random, 4, 4)
    np.testing.assert_allclose(model.run(inputs)["r"], expected_dense(**inputs), rtol=0.1, atol=0.1)
    with pytest.raises(anydim.InputError, match="batch"):
        model.run(dense_inputs(random, 5, 4))


def test_stubs_name_what_the_extension_has():
    tree = ast.parse(pathlib.Path(anydim.__file__).with_name("_anydim.pyi").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name, node in classes.items():
        stubbed = {function.name for function in node.body if isinstance(function, ast.FunctionDef)}
        attributes = set(vars(getattr(anydim._anydim, name)))
        assert stubbed <= attributes
        assert {attribute for attribute in attributes if not attribute.startswith("__")} <= stubbed
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in vars(anydim._anydim)
            if not name.startswith("__")} == functions | set(classes)


def test_everything_has_a_docstring():
    for name in anydim.__all__:
        thing = getattr(anydim, name)
        if not callable(thing):
            continue
        assert thing.__doc__, name
        for attribute, value in vars(thing).items() if isinstance(thing, type) else ():
            if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{attribute}"
    assert "offsets" in anydim.Model.run_ragged.__doc__


def test_many_small_results_can_be_held(build):
    """Each on a page of its own would take 4 KiB."""
    model = build(ADD)
    x = np.ones(4, "float32")
    model.run({"x": x, "y": x})
    before = resident_bytes()
    held = [model.run({"x": x, "y": x})["z"] for _ in range(50_000)]
    assert all(result[0] == 2 for result in held)
    assert (resident_bytes() - before) / len(held) < 2048
