"""Whatever does not fit is an error of its kind that says what, where and what to do; nothing is
changed by it."""

import numpy as np
import pytest

import anydim
from models import ADD, DENSE, Foreign, dense_inputs

ONES = np.ones(4, "float32")


class RaisingForeign(Foreign):
    def __dlpack__(self, **options):
        raise BufferError("tensors that require gradients are not exported")


BAD_INPUTS = {
    "wrong dtype": ({"x": ONES.astype("float64"),
                     "y": ONES}, "input 'x' does not fit: expected f32 (n), got f64 (4)"),
    "wrong rank": ({"x": ONES[None],
                    "y": ONES}, "input 'x' does not fit: expected f32 (n), got f32 (1, 4)"),
    "wrong extent": ({"x": ONES[:3], "y": ONES},
                     "input 'y', dimension 0 (n): expected 3 as in input 'x', dimension 0, got 4"),
    "unknown name": ({"x": ONES, "y": ONES, "v": ONES},
                     "the model has no input 'v'; its inputs are x: f32 (n); y: f32 (n)"),
    "another name": ({"x": ONES, "v": ONES}, "the model has no input 'v'"),
    "missing input":
        ({"x": ONES}, "input 'y' is missing; the model's inputs are x: f32 (n); y: f32 (n)"),
    "a name that is no string": ({"x": ONES, 3: ONES}, "inputs are named by strings, not by a int"),
    "no mapping": ([ONES, ONES], "inputs come as a mapping of names to arrays, not as a list"),
    "a list": ({"x": [1.0], "y": ONES},
               "input 'x' is a list: expected a NumPy array or a tensor that DLPack can hand over"),
    "None": ({"x": None, "y": ONES}, "input 'x' is a NoneType"),
    "objects": ({"x": np.array([1, None, 2, 3]),
                 "y": ONES}, "input 'x' is an array of Python objects"),
    "strings": ({"x": np.array(["a"] * 4), "y": ONES}, "input 'x' has elements of dtype <U1"),
    "complex numbers": ({"x": ONES.astype("complex64"),
                         "y": ONES}, "input 'x' has elements of dtype complex64"),
    "dates": ({"x": ONES.astype("datetime64[s]"),
               "y": ONES}, "input 'x' has elements of dtype datetime64[s]"),
    "records": ({"x": np.zeros(4, [("a", "f4")]), "y": ONES}, "input 'x' has elements of dtype"),
    "another device": ({"x": Foreign(ONES, device=(2, 1)),
                        "y": ONES}, "input 'x' lies on cuda:1: expected this process's memory"),
    "a strange device": ({"x": Foreign(ONES, device=(12, 0)),
                          "y": ONES}, "input 'x' lies on the device 12 of DLPack"),
    "refused by its library": ({"x": RaisingForeign(ONES),
                                "y": ONES}, "tensors that require gradients are not exported"),
    "complex numbers of DLPack": ({"x": Foreign(ONES.astype("complex64")),
                                   "y": ONES}, "input 'x' has elements of dtype code 5, 64 bits")}


@pytest.fixture(scope="module")
def add(build):
    return build(ADD)


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_inputs(add, case):
    inputs, message = BAD_INPUTS[case]
    with pytest.raises(anydim.InputError) as raised:
        add.run(inputs)
    assert message in str(raised.value)
    assert isinstance(raised.value, (anydim.Error, ValueError))
    assert (add.run({"x": ONES, "y": ONES})["z"] == 2).all()


def read_only(array):
    array.flags.writeable = False
    return array


SHARED = np.ones(8, "float32")
BAD_PLACES = {
    "too small": ({"z": np.zeros(3, "float32")},
                  "result 'z' is f32 (4) in this call, and the place for it f32 (3)"),
    "too large": ({"z": np.zeros(5, "float32")},
                  "result 'z' is f32 (4) in this call, and the place for it f32 (5)"),
    "another rank": ({"z": np.zeros((1, 4), "float32")}, "and the place for it f32 (1, 4)"),
    "wrong dtype": ({"z": np.zeros(4, "int32")}, "and the place for it i32 (4)"),
    "read-only": ({"z": read_only(np.zeros(4, "float32"))}, "the place of result 'z' is read-only"),
    "strided": ({"z": np.zeros(8, "float32")[::2]}, "the place of result 'z' is not contiguous"),
    "the other byte order": ({"z": np.zeros(4,
                                            ">f4")}, "the place of result 'z' is not contiguous"),
    "an input": ({"z": SHARED[:4]}, "the place of result 'z' shares memory with an input"),
    "half an input": ({"z": SHARED[2:6]}, "the place of result 'z' shares memory with an input"),
    "unknown name":
        ({"q": np.zeros(4, "float32")}, "the model has no result 'q' to write; its results are z"),
    "no mapping": (np.zeros(4, "float32"), "arrays to write to come as a mapping"),
    "a list": ({"z": [0.0] * 4}, "the place of result 'z' is a list"),
    "another device": ({"z": Foreign(np.zeros(4, "float32"),
                                     device=(2, 0))}, "the place of result 'z' lies on cuda:0"),
    "read-only by DLPack": ({"z": Foreign(read_only(np.zeros(4, "float32")))},
                            "the place of result 'z', a Foreign, cannot be read through DLPack")}


@pytest.mark.parametrize("case", BAD_PLACES)
def test_places(add, case):
    places, message = BAD_PLACES[case]
    before = SHARED.copy()
    with pytest.raises(anydim.InputError) as raised:
        add.run({"x": SHARED[:4], "y": ONES}, places)
    assert message in str(raised.value)
    assert (SHARED == before).all()


def test_places_that_share_memory(build):
    model = build(
        "fn @main(%x: Tensor[(n), f32]) {\n  %y = exp(%x)\n  %z = neg(%x)\n  return %y, %z\n}\n")
    block = np.zeros(6, "float32")
    with pytest.raises(anydim.InputError, match="the places of results 'y' and 'z' share memory"):
        model.run({"x": ONES}, {"y": block[:4], "z": block[2:]})
    out = np.zeros(8, "float32")
    model.run({"x": ONES}, {"y": out[:4], "z": out[4:]})
    np.testing.assert_allclose(out, [np.e] * 4 + [-1] * 4, rtol=1e-6)


BAD_OPTIONS = {
    "device": ({"device": "tpu"}, "option 'device' cannot be 'tpu': it takes cpu or cuda"),
    "precision": ({"precision": "f8"}, "option 'precision' cannot be 'f8'"),
    "precision of another device": ({"precision": "f16"}, "f16 is not generated for the CPU"),
    "masked rows":
        ({"masked_rows": "drop"}, "option 'masked_rows' cannot be 'drop': it takes keep or zero"),
    "dims": ({"dims": {"batch": (5, 2)}}, "option 'dim' cannot be 'batch=5:2'"),
    "an unknown symbol": ({"dims": {"width": (1, 2)}}, "width"),
    "policy": ({"policies": "fast"}, "option 'policy' cannot be 'fast'"),
    "an unknown region": ({"policies": {"conv_9": "symbolic"}}, "the program has no such region"),
    "threads": ({"threads": 0}, "option 'threads' cannot be '0'"),
    "an unknown result": ({"outputs": ["q"]}, "q"),
    "results as a string":
        ({"outputs": "r"}, "outputs are a list of names, e.g. ['r'], not a string"),
    "a device that is no string":
        ({"device": 0}, "option 'device' is given as a string, not as a int")}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_options(build, case):
    options, message = BAD_OPTIONS[case]
    with pytest.raises(anydim.OptionError) as raised:
        build(DENSE, **options)
    assert message in str(raised.value)


def test_models(tmp_path):
    with pytest.raises(anydim.MalformedError, match="there is no such file"):
        anydim.compile(tmp_path / "none.onnx")
    with pytest.raises(anydim.MalformedError):
        anydim.compile(b"fn @main(")
    with pytest.raises(anydim.MalformedError):
        anydim.compile(b"\x08\x07\x12\x00garbage")
    with pytest.raises(anydim.MalformedError):
        anydim.compile(b"")
    with pytest.raises(anydim.OptionError,
                       match="a model is a path, bytes or an onnx.ModelProto, not a int"):
        anydim.compile(3)
    with pytest.raises(anydim.MalformedError):
        anydim.compile(DENSE.encode(), database=tmp_path / "none.db")


def test_ragged_calls(encoder, add):
    ids = np.zeros(5, "int64")
    for offsets, message in (
        (np.array([0, 3]), "offsets end with 3, but input 'ids' has 5 rows"),
        (np.array([1, 5]), "offsets[0] is 1: expected 0"),
        (np.array([0, 4, 2, 5]), "offsets never decrease"),
        (np.array([0, 5], "int32"), "offsets are i32 (2): expected i64 of rank 1"),
        (np.zeros(0, "int64"), "offsets are i64 (0)"),
        ([0, 5], "offsets is a list"),
    ):
        with pytest.raises(anydim.InputError) as raised:
            encoder.run_ragged(ids, offsets)
        assert message in str(raised.value)
    with pytest.raises(anydim.InputError, match="input 'ids' is missing"):
        encoder.run_ragged({}, np.array([0, 5]))
    with pytest.raises(anydim.UnsupportedError, match="the model does not take ragged input"):
        add.run_ragged({"x": ids}, np.array([0, 5]))


def test_a_closed_model(build):
    model = build(ADD)
    held = model.run({"x": ONES, "y": ONES})["z"]
    with model:
        pass
    assert model.closed and repr(model) == "<anydim.Model, closed>"
    for call in (lambda: model.run({"x": ONES, "y": ONES}), lambda: model.inputs,
                 lambda: model.stats(), lambda: model.explain({"x": (1,), "y": (1,)})):
        with pytest.raises(anydim.ClosedError, match="the model was closed"):
            call()
    model.close()
    assert (held == 2).all()


@pytest.mark.filterwarnings("ignore:nanobind")
def test_a_model_that_was_never_made():
    with pytest.raises((TypeError, RuntimeError)):
        anydim.Model.__new__(anydim.Model).run({})


def test_arrays_of_a_kind_that_there_is_not(add):
    with pytest.raises(anydim.OptionError,
                       match="arrays can be 'numpy', 'torch' or 'dlpack', not 'jax'"):
        add.run({"x": ONES, "y": ONES}, arrays="jax")


def test_memory_that_there_is_not(build, random):
    model = build(DENSE, memory_limit=6000)
    with pytest.raises(anydim.ResourceError):
        model.run(dense_inputs(random, 64, 64))
    assert model.run(dense_inputs(random, 1, 1))["r"].shape == (1, 1, 4)


def test_names_of_others_are_escaped(add):
    with pytest.raises(anydim.InputError) as raised:
        add.run({"x": ONES, "\x1b[31mred": ONES})
    assert "\x1b" not in str(raised.value)


def test_a_capsule_does_not_say_where_it_lies(add):
    with pytest.raises(anydim.InputError, match="input 'x' is a PyCapsule"):
        add.run({"x": ONES.__dlpack__(), "y": ONES})
