"""Tensors of torch in and out, without a copy, and torch in the same process."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import anydim
from models import ADD, IDENTITY, TRANSPOSE

BF16 = TRANSPOSE.replace("DTYPE", "bf16")


def build(text, **options):
    return anydim.compile(text.encode(), threads=2, **options)


@pytest.mark.parametrize("dtype", [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"
])
def test_every_element_type(dtype):
    short = dtype.replace("bfloat", "bf").replace("float", "f").replace("uint",
                                                                        "u").replace("int", "i")
    model = build(TRANSPOSE.replace("DTYPE", short))
    given = (torch.arange(6) % 2).reshape(2, 3).to(getattr(torch, dtype))
    result = model.run({"x": given}, arrays="torch")["y"]
    assert isinstance(result, torch.Tensor) and result.dtype == given.dtype and torch.equal(
        result, given.T)


def test_bfloat16_from_either_library():
    model = build(BF16)
    given = torch.randn(3, 4).to(torch.bfloat16)
    from_torch = model.run({"x": given})["y"]
    assert from_torch.dtype == ml_dtypes.bfloat16
    from_numpy = model.run({"x": given.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)},
                           arrays="torch")["y"]
    assert torch.equal(from_numpy, given.T) and (from_torch.astype("float32")
                                                 == given.T.float().numpy()).all()


def test_tensors_are_read_and_written_where_they_lie():
    model = build(ADD)
    x, y, out = torch.ones(1000), torch.full((1000,), 2.0), torch.zeros(1000)
    assert model.run({"x": x, "y": y}, {"z": out})["z"] is out and (out == 3).all()
    result = model.run({"x": x, "y": y}, arrays="torch")["z"]
    result += 1
    assert (result == 4).all() and not result.is_cuda
    del model
    assert (result == 4).all()
    echoed = build(IDENTITY.replace("DTYPE", "f32")).run({"x": x.reshape(10, 100)},
                                                         arrays="torch")["x"]
    assert echoed.data_ptr() != x.data_ptr()
    large = build(ADD).run({"x": torch.ones(100_000), "y": torch.ones(100_000)},
                           arrays="torch")["z"]
    assert large.data_ptr() % 4096 == 0


def test_views(subtests=None):
    model = build(ADD)
    grid = torch.arange(12.0).reshape(3, 4)
    for view in (grid[:,
                      1], grid.T[2], grid.flatten()[::3], grid[1].flip(0), torch.ones(1).expand(4)):
        result = model.run({"x": view, "y": torch.zeros(len(view))}, arrays="torch")["z"]
        assert torch.equal(result, view)


def test_tensors_that_do_not_fit():
    model = build(ADD)
    x = torch.ones(4)
    with pytest.raises(anydim.InputError, match="require"):
        model.run({"x": x.clone().requires_grad_(), "y": x})
    with pytest.raises(anydim.InputError, match="Unknown device type meta"):
        model.run({"x": torch.ones(4, device="meta"), "y": x})
    with pytest.raises(anydim.InputError, match="expected f32"):
        model.run({"x": x.double(), "y": x})
    with pytest.raises(anydim.InputError):
        model.run({"x": x.to_sparse(), "y": x})
    with pytest.raises(anydim.InputError, match="not contiguous"):
        model.run({"x": x, "y": x}, {"z": torch.zeros(8)[::2]})
    with pytest.raises(anydim.InputError, match="shares memory"):
        model.run({"x": x, "y": x}, {"z": x})
    assert (model.run({"x": x, "y": x})["z"] == 2).all()


@pytest.mark.parametrize("order", [
    "torch, anydim", "anydim, torch", "anydim, onnxruntime, torch", "torch, onnxruntime, anydim"])
def test_one_process_for_all(order):
    """Each brings libraries of its own: LLVM, protobuf, OpenMP."""
    program = f"""
import {order}
import numpy as np
model = anydim.compile({ADD!r}.encode(), cache=False, threads=2)
x = torch.ones(4)
assert (model.run({{"x": x, "y": x}}, arrays="torch")["z"] == 2).all()
assert (torch.ones(64, 64) @ torch.ones(64, 64) == 64).all()
compiled = torch.jit.script(torch.nn.Linear(4, 4))(x)
print(compiled.shape)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == "torch.Size([4])\n", done.stderr


def test_threads_of_both():
    from concurrent.futures import ThreadPoolExecutor

    model = build(ADD)

    def work(i):
        x = torch.full((100 + i,), float(i))
        return torch.equal(model.run({"x": x, "y": x}, arrays="torch")["z"], x + x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))


def test_numpy_results_are_numpys():
    assert isinstance(
        build(ADD).run({"x": torch.ones(2), "y": np.ones(2, "float32")})["z"], np.ndarray)
