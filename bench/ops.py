#!/usr/bin/env python3
"""Single ops of ordinary sizes beside ONNX Runtime, the slowest first: `anydim compare` of a model
with one node each.

usage: ops.py FOLDER [NAME...] [--anydim PROGRAM] [--rounds R] [-- OPTION...]

Models and inputs are written to FOLDER. NAMEs are parts of the cases' names (default: all);
OPTIONs go to anydim. Printed are the case, ONNX Runtime's time over ours with quartiles, both in
milliseconds, and DIFFERS where results do; at the end the geometric mean. Needs onnx.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, F64, F16 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16
I8, U8, I32, I64 = TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64
U32, BOOL = TensorProto.UINT32, TensorProto.BOOL

RANDOM = numpy.random.default_rng(0)
CASES = {}


def weight(*shape):
    return RANDOM.standard_normal(shape).astype("float32") * 0.1


def whole(*numbers):
    return numpy.array(numbers, "int64")


def case(name, op, inputs, constants=(), *, attributes=None, outputs=1, result=F32, highest=200,
         opset=21):
    """A node `op` of inputs, (shape, dtype) each, and constants (None: left out) behind them. In a
    shape "b:4" is a dim named b that is 4. Integers are drawn below `highest`."""
    CASES[name] = (op, inputs, constants, attributes or {}, outputs, result, highest, opset)


def f32(*shape):
    return (shape, F32)


BLOCK = ("b:64", 256, 128)
IMAGE = ("b:4", 64, 56, 56)


def elementwise():
    functions = [
        "Relu", "Erf", "Tanh", "Sigmoid", "Gelu", "Exp", "Log", "Sqrt", "Softplus", "Mish",
        "HardSwish", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Elu", "Selu",
        "Abs", "Floor", "Round", "Reciprocal", "LeakyRelu", "Softsign", "Neg", "Sign", "Celu",
        "HardSigmoid"]
    for op in functions:
        case(op, op, [f32(*BLOCK)])
    for op in ["Add", "Mul", "Div", "Sub", "Pow", "Max", "Min"]:
        case(f"{op} of two", op, [f32(*BLOCK)] * 2)
        if op not in ("Div", "Pow"):
            case(f"{op} of i64", op, [(BLOCK, I64)] * 2, result=I64)
    case("Add of a row", "Add", [f32(*BLOCK)], [weight(128)])
    case("Add of channels", "Add", [f32(*IMAGE)], [weight(64, 1, 1)])
    case("PRelu", "PRelu", [f32(*IMAGE)], [weight(64, 1, 1)])
    case("Clip", "Clip", [f32(*BLOCK)], [numpy.float32(-0.5), numpy.float32(0.5)])
    for exponent in (0.5, 2, 3):
        case(f"Pow by {exponent}", "Pow", [f32(*BLOCK)], [numpy.float32(exponent)])
    case("Div of i64", "Div", [(BLOCK, I64)], [numpy.int64(7)], result=I64)
    case("Mod of i64", "Mod", [(BLOCK, I64)], [numpy.int64(7)], result=I64)
    case("Greater", "Greater", [f32(*BLOCK)] * 2, result=BOOL)
    case("Where", "Where", [(BLOCK, BOOL), f32(*BLOCK), f32(*BLOCK)])
    case("BitShift", "BitShift", [(BLOCK, U32)], [numpy.uint32(3)], result=U32,
         attributes={"direction": "RIGHT"})
    names = {F32: "f32", F16: "f16", I64: "i64", I32: "i32", I8: "i8", U8: "u8", BOOL: "bool"}
    for source, target in [(F32, I64), (F32, I32), (F32, I8), (F32, F16), (F32, BOOL), (F16, F32),
                           (I64, F32), (I64, I32), (U8, F32), (BOOL, F32)]:
        case(f"Cast {names[source]} to {names[target]}", "Cast", [(BLOCK, source)],
             attributes={"to": target}, result=target)
    for op in ("Relu", "Sigmoid", "Tanh", "Log", "Floor", "Softmax"):
        case(f"{op} of f16", op, [(BLOCK, F16)], result=F16)
    case("Max of f16", "Max", [(BLOCK, F16)] * 2, result=F16)
    case("Greater of f16", "Greater", [(BLOCK, F16)] * 2, result=BOOL)
    for op in ("Exp", "Log", "Tanh", "Sigmoid", "Softmax"):
        case(f"{op} of f64", op, [(BLOCK, F64)], result=F64)
    for dtype, name in [(I32, "i32"), (U8, "u8")]:
        case(f"Div of two {name}", "Div", [(BLOCK, dtype), (BLOCK, dtype)], result=dtype)
        case(f"Mod of two {name}", "Mod", [(BLOCK, dtype), (BLOCK, dtype)], result=dtype)
    case("QuantizeLinear", "QuantizeLinear", [f32(*BLOCK)],
         [numpy.float32(0.02), numpy.uint8(128)], result=U8)
    case("DequantizeLinear", "DequantizeLinear", [(BLOCK, U8)],
         [numpy.float32(0.02), numpy.uint8(128)])
    case("DynamicQuantizeLinear", "DynamicQuantizeLinear", [f32(*BLOCK)], outputs=3, result=U8)


def movement():
    for dtype, name in [(F16, "f16"), (U8, "u8")]:
        case(f"Slice backwards of {name}", "Slice", [(BLOCK, dtype)],
             [whole(-1), whole(-200), whole(2), whole(-1)], result=dtype)
        case(f"Gather of columns of {name}", "Gather", [(BLOCK, dtype)], [whole(*range(0, 128, 2))],
             attributes={"axis": 2}, result=dtype)
    for order in [(0, 2, 1), (2, 1, 0), (1, 0, 2), (1, 2, 0)]:
        case(f"Transpose {order}", "Transpose", [f32(*BLOCK)], attributes={"perm": order})
    case("Transpose of a matrix", "Transpose", [f32("m:2048", "n:1024")],
         attributes={"perm": (1, 0)})
    case("Transpose of heads", "Transpose", [f32("b:8", "s:128", 12, 64)],
         attributes={"perm": (0, 2, 1, 3)})
    case("Transpose to NHWC", "Transpose", [f32(*IMAGE)], attributes={"perm": (0, 2, 3, 1)})
    case("Transpose to NCHW", "Transpose", [f32("b:4", 56, 56, 64)],
         attributes={"perm": (0, 3, 1, 2)})
    for dtype, name in [(U8, "u8"), (F16, "f16"), (I64, "i64")]:
        case(f"Transpose of {name}", "Transpose", [(BLOCK, dtype)], attributes={"perm": (0, 2, 1)},
             result=dtype)
    case("Concat of rows", "Concat", [f32("b:64", 128, 128)] * 2, attributes={"axis": 1})
    case("Concat of columns", "Concat", [f32("b:64", 256, 64)] * 2, attributes={"axis": 2})
    case("Split", "Split", [f32(*BLOCK)], attributes={"axis": 2, "num_outputs": 4}, outputs=4)
    borders = whole(0, 0, 1, 1, 0, 0, 1, 1)
    for mode in ("constant", "reflect", "edge"):
        case(f"Pad {mode}", "Pad", [f32(*IMAGE)], [borders], attributes={"mode": mode})
    for axis in (1, 2):
        case(f"Slice of every second, axis {axis}", "Slice", [f32(*BLOCK)],
             [whole(0), whole(128), whole(axis), whole(2)])
    case("Slice backwards", "Slice", [f32(*BLOCK)],
         [whole(-1), whole(-1000), whole(2), whole(-1)])
    indices = RANDOM.integers(0, 128, 64)
    for axis in (1, 2):
        case(f"Gather, axis {axis}", "Gather", [f32(*BLOCK)], [indices],
             attributes={"axis": axis})
    case("Gather of rows", "Gather", [f32("v:30000", 384), (("b:8", "s:128"), I64)],
         highest=30000)
    case("GatherElements", "GatherElements", [f32(*BLOCK), (("b:64", 64, 128), I64)],
         attributes={"axis": 1})
    for reduction in ("none", "add"):
        case(f"ScatterND {reduction}", "ScatterND",
             [f32("v:1000", 64), (("b:500", 1), I64), f32("b:500", 64)],
             attributes={"reduction": reduction}, highest=1000)
    case("OneHot", "OneHot", [(("b:4096", ), I64)], [whole(1000), weight(2)])
    case("Expand", "Expand", [f32("b:64", 1, 128)], [whole(1, 256, 1)])
    case("Tile", "Tile", [f32("b:64", 16, 128)], [whole(1, 16, 1)])
    case("NonZero", "NonZero", [f32(*BLOCK)], result=I64)
    case("Compress", "Compress", [f32(*BLOCK)], [numpy.arange(256) % 3 == 0],
         attributes={"axis": 1})
    for op in ("DepthToSpace", "SpaceToDepth"):
        case(op, op, [f32(*IMAGE)], attributes={"blocksize": 2})
    for mode in ("nearest", "linear", "cubic"):
        case(f"Resize {mode} to twice", "Resize", [f32("b:2", 32, "h:56", "w:56")],
             [None, numpy.array([1, 1, 2, 2], "float32")], attributes={"mode": mode})
    case("Resize linear to half", "Resize", [f32("b:2", 32, "h:112", "w:112")],
         [None, numpy.array([1, 1, 0.5, 0.5], "float32")], attributes={"mode": "linear"})
    case("GridSample", "GridSample", [f32("b:2", 32, 56, 56), f32("b:2", 56, 56, 2)])


def reductions():
    for axis in (0, 1, 2):
        case(f"ReduceSum, axis {axis}", "ReduceSum", [f32(*BLOCK)], [whole(axis)])
        case(f"ArgMax, axis {axis}", "ArgMax", [f32(*BLOCK)], attributes={"axis": axis},
             result=I64)
        case(f"CumSum, axis {axis}", "CumSum", [f32("b:8", 512, 128)], [whole(axis)])
    for op in ("ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"):
        case(op, op, [f32(*BLOCK)], [whole(2)])
    case("ReduceSum of all", "ReduceSum", [f32(*BLOCK)])
    case("ReduceMean of images", "ReduceMean", [f32(*IMAGE)], [whole(2, 3)])
    for length in (10, 56, 128, 1000, 32000):
        case(f"Softmax of {length}", "Softmax", [f32(f"b:{max(8, 800000 // length)}", length)])
    case("Softmax, axis 1", "Softmax", [f32("b:8", 64, "s:1024")], attributes={"axis": 1})
    for count, length in [(5, 1000), (50, 32000), (300, 8400)]:
        case(f"TopK {count} of {length}", "TopK", [f32("b:8", length)], [whole(count)], outputs=2)
    case("LayerNormalization", "LayerNormalization", [f32("b:1024", 768)],
         [weight(768), weight(768)])
    case("RMSNormalization", "RMSNormalization", [f32("b:1024", 768)], [weight(768)], opset=23)
    scale = [weight(64), weight(64)]
    case("InstanceNormalization", "InstanceNormalization", [f32(*IMAGE)], scale)
    case("GroupNormalization", "GroupNormalization", [f32(*IMAGE)], scale,
         attributes={"num_groups": 8})
    for size, stride in [(2, 2), (3, 2), (3, 1)]:
        attributes = {
            "kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2 % 2] * 4
            if size == 3 else [0] * 4}
        for op in ("MaxPool", "AveragePool"):
            case(f"{op} {size}x{size} by {stride}", op, [f32(*IMAGE)], attributes=attributes)
    case("MaxPool of u8", "MaxPool", [(IMAGE, U8)], result=U8, attributes={
        "kernel_shape": [3, 3], "strides": [2, 2]})
    case("GlobalAveragePool", "GlobalAveragePool", [f32("b:8", 512, 14, 14)])


def products():
    pads = {"pads": [1] * 4}
    case("Conv 1x1", "Conv", [f32(*IMAGE)], [weight(256, 64, 1, 1)])
    case("Conv 3x3", "Conv", [f32(*IMAGE)], [weight(64, 64, 3, 3)], attributes=pads)
    case("Conv 3x3 of unknown sizes", "Conv", [f32("b:4", 64, "h:56", "w:56")],
         [weight(64, 64, 3, 3)], attributes=pads)
    case("Conv 3x3 by 2", "Conv", [f32(*IMAGE)], [weight(128, 64, 3, 3)],
         attributes=pads | {"strides": [2, 2]})
    case("Conv 3x3 of colours", "Conv", [f32("b:4", 3, 224, 224)], [weight(32, 3, 3, 3)],
         attributes=pads)
    case("Conv 7x7 of colours", "Conv", [f32("b:4", 3, 224, 224)], [weight(64, 3, 7, 7)],
         attributes={"pads": [3] * 4, "strides": [2, 2]})
    case("Conv 3x3 dilated", "Conv", [f32("b:4", 64, 28, 28)], [weight(64, 64, 3, 3)],
         attributes={"pads": [2] * 4, "dilations": [2, 2]})
    for size in (3, 7):
        case(f"Conv {size}x{size} of each channel", "Conv", [f32(*IMAGE)],
             [weight(64, 1, size, size)], attributes={"pads": [size // 2] * 4, "group": 64})
    case("Conv of texts", "Conv", [f32("b:8", 128, "s:500")], [weight(128, 128, 3)],
         attributes={"pads": [1, 1]})
    case("Conv of sound", "Conv", [f32("b:4", 1, "s:16000")], [weight(512, 1, 10)],
         attributes={"strides": [5]})
    case("Conv of volumes", "Conv", [f32("b:1", 16, 16, 56, 56)], [weight(32, 16, 3, 3, 3)],
         attributes={"pads": [1] * 6})
    case("ConvTranspose 2x2 by 2", "ConvTranspose", [f32("b:4", 64, 28, 28)],
         [weight(64, 32, 2, 2)], attributes={"strides": [2, 2]})
    case("ConvTranspose 4x4 by 2", "ConvTranspose", [f32("b:4", 64, 28, 28)],
         [weight(64, 32, 4, 4)], attributes=pads | {"strides": [2, 2]})
    quantised = [
        numpy.float32(0.02), numpy.uint8(128), None, numpy.float32(0.01), numpy.int8(0),
        numpy.float32(0.1), numpy.uint8(120)]
    for size in (1, 3):
        constants = list(quantised)
        constants[2] = RANDOM.integers(-127, 128, (64, 64, size, size)).astype("int8")
        case(f"QLinearConv {size}x{size}", "QLinearConv", [(IMAGE, U8)], constants, result=U8,
             attributes={"pads": [size // 2] * 4})
    case("Gemm of 1 row", "Gemm", [f32("b:1", 768)], [weight(768, 768), weight(768)])
    case("Gemm of 128 rows", "Gemm", [f32("b:128", 768)], [weight(768, 768), weight(768)])
    case("MatMul of batches", "MatMul", [f32("b:96", "s:128", 64), f32("b:96", 64, "t:128")])
    case("MatMul of unknown sizes", "MatMul", [f32("m:384", "k:384"), f32("k:384", "n:384")])
    case("MatMul of a vector", "MatMul", [f32(*BLOCK), f32(128)])
    case("MatMul of f64", "MatMul", [(("m:256", 256), F64)], [weight(256, 256).astype("float64")],
         result=F64)
    case("MatMulInteger", "MatMulInteger", [(("m:128", 768), U8)],
         [RANDOM.integers(-127, 128, (768, 768)).astype("int8")], result=I32)
    case("Einsum of heads", "Einsum",
         [f32("b:8", "s:128", 12, 64), f32("b:8", "t:128", 12, 64)],
         attributes={"equation": "bshd,bthd->bhst"})
    case("LSTM", "LSTM", [f32("s:64", "b:4", 128)], [weight(1, 512, 128), weight(1, 512, 128)],
         attributes={"hidden_size": 128})
    case("NonMaxSuppression", "NonMaxSuppression", [f32("b:1", "n:1000", 4), f32("b:1", 1, "n:1000")],
         [whole(100), numpy.float32(0.5), numpy.float32(0.1)], result=I64)


def drawn(shape, dtype, highest, op, position):
    if dtype in (F32, F64, F16):
        numbers = RANDOM.standard_normal(shape)
        if op in ("Log", "Sqrt", "Acos", "Asin") or op == "Pow" and position == 0:
            numbers = numpy.abs(numbers) % 1 + 0.01
    elif dtype == BOOL:
        numbers = RANDOM.random(shape) < 0.5
    elif op == "ScatterND":
        numbers = RANDOM.permutation(highest)[:shape[0]].reshape(shape)
    else:
        least = 1 if op in ("Div", "Mod") and position == 1 else 0
        numbers = RANDOM.integers(least, min(highest, 128) if dtype == I8 else highest, shape)
    return numpy.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(dtype))


def write(folder, name):
    """The model and the options that name its inputs."""
    op, inputs, constants, attributes, outputs, result, highest, opset = CASES[name]
    stem = folder / "".join(letter if letter.isalnum() else "_" for letter in name)
    given, names, options, initializers = [], [], [], []
    for i, (shape, dtype) in enumerate(inputs):
        pairs = [dim.split(":") if isinstance(dim, str) else (dim, dim) for dim in shape]
        given.append(helper.make_tensor_value_info(f"x{i}", dtype, [dim for dim, _ in pairs]))
        numpy.save(f"{stem}.x{i}.npy",
                   drawn([int(size) for _, size in pairs], dtype, highest, op, i))
        options += ["--input", f"x{i}={stem}.x{i}.npy"]
        names.append(f"x{i}")
    for i, constant in enumerate(constants):
        names.append("" if constant is None else f"c{i}")
        if constant is not None:
            initializers.append(numpy_helper.from_array(numpy.asarray(constant), f"c{i}"))
    results = [f"y{i}" for i in range(outputs)]
    wanted = [helper.make_tensor_value_info("y0", result, None)]
    wanted += [helper.make_empty_tensor_value_info(each) for each in results[1:]]
    graph = helper.make_graph([helper.make_node(op, names, results, **attributes)], "op", given,
                              wanted, initializers)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10),
        f"{stem}.onnx")
    return f"{stem}.onnx", options


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--anydim",
                        default=pathlib.Path(__file__).parent.parent / "build/release/bin/anydim")
    parser.add_argument("--rounds", type=int, default=5)
    words = sys.argv[1:]
    options = words[words.index("--") + 1:] if "--" in words else []
    arguments = parser.parse_intermixed_args(words[:words.index("--")] if "--" in words else words)
    for cases in (elementwise, movement, reductions, products):
        cases()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in CASES:
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        model, inputs = write(arguments.folder, name)
        done = subprocess.run([
            arguments.anydim, "compare", model, *inputs, "--python", sys.executable, "--rounds",
            str(arguments.rounds), "--json", *options], capture_output=True, text=True, check=False)
        said = json.loads(done.stdout) if done.stdout else {"error": done.stderr.strip()}
        if "ratio" not in said:
            print(f"{name}: {said.get('error')}", flush=True)
            continue
        rows.append((said["ratio"], name, said))
    for ratio, name, said in sorted(rows, key=lambda row: row[0]):
        low, high = said["ratio_quartiles"]
        print(f"{name}: {ratio:.2f} [{low:.2f}, {high:.2f}], {said['anydim_ms']:.3f} ms and "
              f"{said['onnxruntime_ms']:.3f} ms{'' if said['within'] else ', DIFFERS'}")
    if rows:
        mean = statistics.geometric_mean(ratio for ratio, _, _ in rows)
        print(f"{len(rows)} ops, geometric mean of the ratios {mean:.2f}")


if __name__ == "__main__":
    main()
