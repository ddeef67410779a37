#!/usr/bin/env python3
"""What Anydim's Python package costs: a call of a model of a microsecond beside the call itself and
beside ONNX Runtime's session, importing it, the first result beside the command's, sizes.

usage: PYTHONPATH=build/release/python python_overhead.py [--anydim COMMAND]
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import anydim

CALLS, ROUNDS, STARTS = 20_000, 9, 15
FIRST = "import time; began = time.perf_counter(); import anydim; anydim.compile('m.onnx', cache_dir='kernels').run({'x': numpy.load('x.npy')}); print(time.perf_counter() - began)"


def dense_model():
    """relu(x w + b) of 16 rows of 8 numbers."""
    random = numpy.random.default_rng(1)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape, "float32"), name)
        for name, shape in (("w", (8, 4)), ("b", (4,)))]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Add", ["y", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"])]
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
        for name, width in (("x", 8), ("r", 4))]
    graph = helper.make_graph(nodes, "dense", info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                             ir_version=9).SerializeToString()


def microseconds(call):
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - began) / CALLS * 1e6


def seconds_of(command, **options):
    began = time.perf_counter()
    output = subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    return time.perf_counter() - began, output


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anydim", default="build/release/bin/anydim")
    command = str(pathlib.Path(parser.parse_args().anydim).resolve())

    data = dense_model()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    model = anydim.compile(data, threads=1)
    feeds = {"x": numpy.random.default_rng(2).standard_normal((16, 8), "float32")}
    place = {"r": numpy.empty((16, 4), "float32")}
    assert numpy.allclose(model.run(feeds)["r"], session.run(None, feeds)[0], atol=1e-5)
    calls = {
        "Model.run": lambda: model.run(feeds), "Model.run, out=": lambda: model.run(feeds, place),
        "onnxruntime's InferenceSession.run": lambda: session.run(None, feeds)}
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(microseconds(call))
    inside = model.stats().calls.latency.p50 * 1e6
    for name, values in times.items():
        print(f"{name}: {statistics.median(values):.2f} us a call")
    print(
        f"the call in C++: {inside:.2f} us; Python adds {statistics.median(times['Model.run']) - inside:.2f} us"
    )

    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "m.onnx").write_bytes(data)
        numpy.save(place / "x.npy", feeds["x"])
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {
            "PYTHONPATH": os.path.abspath(pathlib.Path(anydim.__file__).parents[1]),
            "PYTHONPYCACHEPREFIX": str(place / "compiled")}
        imports, ours, theirs = [], [], []
        for _ in range(STARTS):
            program = "import time; began = time.perf_counter(); import anydim; print(time.perf_counter() - began)"
            imports.append(float(seconds_of([sys.executable, "-c", program], env=environment)[1]))
            ours.append(
                float(
                    seconds_of([sys.executable, "-c", "import numpy; " + FIRST], env=environment,
                               cwd=folder)[1]))
            theirs.append(
                seconds_of(
                    [command, "run", "m.onnx", "--input", "x=x.npy", "--cache-dir", "kernels"],
                    cwd=folder)[0])
    print(f"import anydim: {1e3 * statistics.median(imports):.0f} ms")
    print(
        f"first result with warm kernels, from importing anydim on: {1e3 * statistics.median(ours):.0f} ms; the command's, from its start: {1e3 * statistics.median(theirs):.0f} ms"
    )
    print(f"extension: {pathlib.Path(anydim._anydim.__file__).stat().st_size / 1e6:.1f} MB")
    for wheel in pathlib.Path("build/wheels").glob("anydim-*.whl"):
        print(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB, {wheel.name}")


if __name__ == "__main__":
    main()
