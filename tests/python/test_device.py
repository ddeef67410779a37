"""Arrays on a GPU: a driver that interprets PTX, with real NVRTC, is on the loader's path
(tests/python/CMakeLists.txt)."""

import numpy as np
import pytest

import anydim
from fake_gpu import Gpu, GpuArray

MODEL = """fn @main(%x: Tensor[(n, 3), f32]) where n in [0, 100] {
  %one = constant(f32 () [1])
  %y = add(%x, %one)
  return %y
}
"""
GATHER = """fn @main(%i: Tensor[(n), i64]) where n in [0, 100] {
  %table = constant(f32 (4) [0, 1, 2, 3])
  %y = gather(%table, %i) {axis = 0}
  return %y
}
"""
DEFAULT = 1


@pytest.fixture(scope="module")
def gpu():
    return Gpu()


@pytest.fixture(scope="module")
def model(build):
    return build(MODEL, device="cuda")


@pytest.fixture
def x(random):
    return random.standard_normal((5, 3), "float32")


def test_results_stay_on_the_stream(gpu, model, x):
    stream = gpu.stream()
    for _ in range(3):
        given = GpuArray(gpu, x, stream)
        y = model.run({"x": given}, arrays="dlpack", stream=stream)["y"]
        assert given.asked == [stream], "its library makes it ready for the call's stream"
        assert isinstance(y, anydim.DeviceArray) and y.shape == (5, 3) and y.dtype == "float32"
        assert y.__dlpack_device__() == (2, 0)
        np.testing.assert_array_equal(gpu.read(y.__dlpack__(stream=stream), stream), x + 1)
    model.synchronize()


@pytest.mark.parametrize("consumer", [None, 1, "another"])
def test_consumers_on_other_streams_come_behind_the_call(gpu, model, x, consumer):
    stream = gpu.stream()
    y = model.run({"x": GpuArray(gpu, x, stream)}, arrays="dlpack", stream=stream)["y"]
    reading = gpu.stream() if consumer == "another" else consumer
    capsule = y.__dlpack__(stream=reading)
    del y  # the capsule keeps the memory
    np.testing.assert_array_equal(gpu.read(capsule, reading or DEFAULT), x + 1)


def test_a_consumer_may_order_by_itself(gpu, model, x):
    stream = gpu.stream()
    y = model.run({"x": GpuArray(gpu, x, stream)}, arrays="dlpack", stream=stream)["y"]
    capsule = y.__dlpack__(stream=-1, max_version=(0, 8))
    gpu.synchronize(stream)
    np.testing.assert_array_equal(gpu.read(capsule, DEFAULT), x + 1)
    with pytest.raises(anydim.InputError) as raised:
        y.__dlpack__(stream=0)
    assert str(raised.value
               ) == "__dlpack__(stream=0): expected None, -1, 1, 2 or the address of a CUDA stream"


def test_without_a_stream_numpy_comes_out(gpu, model, x):
    given = GpuArray(gpu, x, None)
    result = model.run({"x": given})["y"]
    assert given.asked == [DEFAULT]
    np.testing.assert_array_equal(result, x + 1)
    stream = gpu.stream()
    np.testing.assert_array_equal(model.run({"x": x}, stream=stream)["y"], x + 1)


class TorchStream:
    def __init__(self, handle):
        self.cuda_stream = handle


class CudaStream:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


@pytest.mark.parametrize("named", [int, TorchStream, CudaStream])
def test_arrays_to_write_to(gpu, model, x, named):
    stream = gpu.stream()
    out = GpuArray(gpu, np.zeros_like(x), stream)
    results = model.run({"x": GpuArray(gpu, x, stream)}, {"y": out}, stream=named(stream))
    assert results["y"] is out
    np.testing.assert_array_equal(out.read(), x + 1)


def test_what_does_not_fit_is_refused(gpu, model, build, x):
    stream = gpu.stream()
    given = GpuArray(gpu, x, stream)
    strided = GpuArray(gpu, x, stream, strides=(1, 5))

    def refusal(call, error=anydim.InputError):
        with pytest.raises(error) as raised:
            call()
        return str(raised.value)

    assert refusal(lambda: model.run(
        {"x": strided}, stream=stream
    )) == "input 'x' is not contiguous on its device: make it so first, e.g. with .contiguous()"
    assert refusal(lambda: model.run(
        {"x": given}, {"y": given}, stream=stream
    )) == "the place of result 'y' shares memory with an input: expected memory of its own"
    given.address = x.ctypes.data
    text = refusal(lambda: model.run({"x": given}, stream=stream))
    assert text.startswith(
        "input 'x': a tensor f32 (5, 3) on GPU 0 at 0x") and "this is no device memory" in text
    assert refusal(lambda: model.run({"x": x}, stream="a stream"), anydim.OptionError) == (
        "a stream is the address of a CUDA stream or an object that has one (torch.cuda.Stream, cupy.cuda.Stream), not 'a stream'"
    )
    on_cpu = build(MODEL)
    assert refusal(lambda: on_cpu.run({"x": GpuArray(gpu, x, stream)})) == (
        "input 'x' lies on cuda:0: expected this process's memory; move it there first, e.g. with .cpu()"
    )
    assert "was given a stream" in refusal(lambda: on_cpu.run({"x": x}, stream=stream))


def test_what_fails_under_way_is_raised_later(gpu, build):
    model, stream = build(GATHER, device="cuda"), gpu.stream()
    bad, good = GpuArray(gpu, np.array([1, 7]), stream), GpuArray(gpu, np.array([1, 3]), stream)
    model.run({"i": good}, arrays="dlpack", stream=stream)  # kernels are waited for once
    model.run({"i": bad}, arrays="dlpack", stream=stream)
    with pytest.raises(anydim.InputError, match="expected from -4 to 3, got 7"):
        model.synchronize()
    model.synchronize()
    model.run({"i": bad}, arrays="dlpack", stream=stream)
    gpu.synchronize(stream)
    with pytest.raises(anydim.InputError, match="expected from -4 to 3, got 7"):
        model.run({"i": good}, arrays="dlpack", stream=stream)
