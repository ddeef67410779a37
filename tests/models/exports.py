"""Small ONNX graphs as exporters write them, with random weights: what export_test.py runs.

Each function gives (model, inputs): a model and a function that makes the inputs of one call from a
size.
"""
import math
import pathlib
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Graph:
    """Nodes with made-up names for what lies between; the last node's outputs carry the names they
    are given."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.initialisers = [], [], [], []

    def input(self, name, dtype, dims):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, name, dtype, dims):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, dims))

    def constant(self, value, dtype=numpy.float32):
        name = f"c{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(numpy.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.constant(values, numpy.int64)

    def index(self, value):
        return self.constant(value, numpy.int64)

    def weight(self, *dims):
        return self.constant(self.random.standard_normal(dims) / math.sqrt(dims[0]))

    def op(self, kind, *operands, to=None, outputs=1, **attributes):
        names = [to] if to else [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(kind, operands, names, name=f"/{kind}_{len(self.nodes)}",
                             **attributes))
        return names[0] if len(names) == 1 else names

    def dim(self, value, axis):
        """As torch.onnx writes x.shape[axis]: a scalar."""
        return self.op("Gather", self.op("Shape", value), self.index(axis), axis=0)

    def vector(self, *parts):
        """Scalars side by side."""
        return self.op("Concat", *[self.op("Unsqueeze", part, self.ints(0)) for part in parts],
                       axis=0)

    def model(self, opset):
        graph = helper.make_graph(self.nodes, "main", self.inputs, self.outputs, self.initialisers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                 ir_version=8)


def rms_norm(graph, x, size):
    """x / sqrt(mean(x^2) + 1e-6) * weight, as T5 and Llama have it."""
    squares = graph.op("ReduceMean", graph.op("Pow", x, graph.constant(2.0)), axes=[-1])
    root = graph.op("Sqrt", graph.op("Add", squares, graph.constant(1e-6)))
    return graph.op("Mul", graph.op("Div", x, root), graph.weight(size))


def split_heads(graph, x, heads, size):
    shape = graph.vector(graph.dim(x, 0), graph.index(-1), graph.index(heads), graph.index(size))
    return graph.op("Transpose", graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def join_heads(graph, x, size):
    joined = graph.op("Transpose", x, perm=[0, 2, 1, 3])
    return graph.op("Reshape", joined,
                    graph.vector(graph.dim(joined, 0), graph.index(-1), graph.index(size)))


def t5_bucket(graph, query, key, buckets, furthest):
    """Bucket of every relative position, in both directions: exact when near, logarithmic further
    away."""
    one, zero = graph.index(1), graph.index(0)
    there = graph.op("Unsqueeze", graph.op("Range", zero, query, one), graph.ints(1))
    position = graph.op("Sub",
                        graph.op("Unsqueeze", graph.op("Range", zero, key, one), graph.ints(0)),
                        there)
    half = buckets // 2
    sign = graph.op("Mul", graph.op("Where", graph.op("Greater", position, zero), one, zero),
                    graph.index(half))
    distance = graph.op("Abs", position)
    exact = half // 2
    small = graph.op("Less", distance, graph.index(exact))
    near_one = graph.op("Max", cast(graph, distance, FLOAT), graph.constant(1.0))
    ratio = graph.op("Log", graph.op("Div", near_one, graph.constant(float(exact))))
    scaled = graph.op("Mul", graph.op("Div", ratio, graph.constant(math.log(furthest / exact))),
                      graph.constant(float(half - exact)))
    # The small constant keeps logarithms of whole powers away from the edge, where libraries round
    # differently.
    far = graph.op("Add", cast(graph, graph.op("Add", scaled, graph.constant(1e-3)), INT64),
                   graph.index(exact))
    far = graph.op("Min", far, graph.index(half - 1))
    return graph.op("Add", sign, graph.op("Where", small, distance, far))


def cast(graph, value, dtype):
    name = f"v{len(graph.nodes)}_0"
    graph.nodes.append(
        helper.make_node("Cast", [value], [name], name=f"/Cast_{len(graph.nodes)}", to=dtype))
    return name


def t5_encoder():
    """Two layers of T5: relative position bias from buckets, RMS norm, ReLU feed-forward, no
    biases; opset 14."""
    graph, heads, size, width = Graph(1), 4, 8, 32
    ids, mask = graph.input("input_ids", INT64,
                            ["batch", "seq"]), graph.input("attention_mask", INT64,
                                                           ["batch", "seq"])
    x = graph.op("Gather", graph.weight(100, width), ids)
    length = graph.dim(ids, 1)
    bias = graph.op("Gather", graph.weight(16, heads), t5_bucket(graph, length, length, 16, 20))
    bias = graph.op("Unsqueeze", graph.op("Transpose", bias, perm=[2, 0, 1]), graph.ints(0))
    kept = graph.op("Unsqueeze", cast(graph, mask, FLOAT), graph.ints(1, 2))
    bias = graph.op(
        "Add", bias,
        graph.op("Mul", graph.op("Sub", graph.constant(1.0), kept), graph.constant(-1e9)))
    for _ in range(2):
        normal = rms_norm(graph, x, width)
        q, k, v = (split_heads(graph, graph.op("MatMul", normal, graph.weight(width, width)), heads,
                               size) for _ in range(3))
        scores = graph.op("Add", graph.op("MatMul", q, graph.op("Transpose", k, perm=[0, 1, 3, 2])),
                          bias)
        context = join_heads(graph, graph.op("MatMul", graph.op("Softmax", scores, axis=-1), v),
                             width)
        x = graph.op("Add", x, graph.op("MatMul", context, graph.weight(width, width)))
        hidden = graph.op("Relu",
                          graph.op("MatMul", rms_norm(graph, x, width), graph.weight(width, 64)))
        x = graph.op("Add", x, graph.op("MatMul", hidden, graph.weight(64, width)))
    graph.op("Mul", rms_norm(graph, x, width), graph.constant(0.5), to="last_hidden_state")
    graph.output("last_hidden_state", FLOAT, ["batch", "seq", width])

    def inputs(random, batch, length):
        valid = random.integers(1, length + 1, batch)
        mask = (numpy.arange(length) < valid[:, None]).astype(numpy.int64)
        return {"input_ids": random.integers(0, 100, (batch, length)), "attention_mask": mask}

    return graph.model(14), inputs, [(1, 1), (2, 7), (3, 33), (1, 64)]


def cached_decoder():
    """One decoder layer with key and value of the past as inputs and outputs: past length 0 is the
    first step; opset 17."""
    graph, heads, size, width = Graph(2), 2, 8, 16
    ids = graph.input("input_ids", INT64, ["batch", "step"])
    past = [
        graph.input(f"past_{kind}", FLOAT, ["batch", heads, "past", size])
        for kind in ("key", "value")]
    step, before = graph.dim(ids, 1), graph.dim(past[0], 2)
    total = graph.op("Add", step, before)
    positions = graph.op("Range", before, total, graph.index(1))
    x = graph.op("Add", graph.op("Gather", graph.weight(50, width), ids),
                 graph.op("Gather", graph.weight(128, width), positions))
    normal = graph.op("LayerNormalization", x, graph.weight(width), graph.weight(width), axis=-1)
    parts = graph.op("Split", graph.op("MatMul", normal, graph.weight(width, 3 * width)),
                     graph.ints(width, width, width), outputs=3, axis=-1)
    q, k, v = (split_heads(graph, part, heads, size) for part in parts)
    key = graph.op("Concat", past[0], k, axis=2, to="present_key")
    value = graph.op("Concat", past[1], v, axis=2, to="present_value")
    scores = graph.op("MatMul", graph.op("Div", q, graph.constant(math.sqrt(size))),
                      graph.op("Transpose", key, perm=[0, 1, 3, 2]))
    columns = graph.op("Range", graph.index(0), total, graph.index(1))
    visible = graph.op("LessOrEqual", graph.op("Unsqueeze", columns, graph.ints(0)),
                       graph.op("Unsqueeze", positions, graph.ints(1)))
    scores = graph.op("Where", visible, scores, graph.constant(-3.4e38))
    context = join_heads(graph, graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value),
                         width)
    x = graph.op("Add", x, graph.op("MatMul", context, graph.weight(width, width)))
    graph.op("MatMul", x, graph.weight(width, 50), to="logits")
    graph.output("logits", FLOAT, ["batch", "step", 50])
    for name in ("present_key", "present_value"):
        graph.output(name, FLOAT, ["batch", heads, "total", size])

    def inputs(random, batch, step, past):
        made = {"input_ids": random.integers(0, 50, (batch, step))}
        for kind in ("key", "value"):
            made[f"past_{kind}"] = random.standard_normal(
                (batch, heads, past, size)).astype(numpy.float32)
        return made

    return graph.model(17), inputs, [(1, 5, 0), (2, 1, 0), (2, 1, 1), (1, 3, 17), (3, 1, 64)]


def grouped_rotary():
    """Attention with rotary positions and fewer key heads than query heads, as Llama exports have
    it; opset 17."""
    graph, heads, groups, size, width = Graph(3), 4, 2, 8, 32
    x = graph.input("hidden", FLOAT, ["batch", "seq", width])
    batch, length = graph.dim(x, 0), graph.dim(x, 1)
    frequency = graph.constant(1.0 / 10000 ** (numpy.arange(0, size, 2) / size))
    position = cast(graph, graph.op("Range", graph.index(0), length, graph.index(1)), FLOAT)
    angle = graph.op("Einsum", position, frequency, equation="i,j->ij")
    angle = graph.op("Concat", angle, angle, axis=-1)
    cosine, sine = graph.op("Cos", angle), graph.op("Sin", angle)

    def turned(value):
        first = graph.op("Slice", value, graph.ints(0), graph.ints(size // 2), graph.ints(3))
        second = graph.op("Slice", value, graph.ints(size // 2), graph.ints(2**63 - 1),
                          graph.ints(3))
        turned = graph.op("Concat", graph.op("Neg", second), first, axis=-1)
        return graph.op("Add", graph.op("Mul", value, cosine), graph.op("Mul", turned, sine))

    def repeated(value):
        wide = graph.op("Unsqueeze", value, graph.ints(2))
        shape = graph.vector(batch, graph.index(groups), graph.index(heads // groups), length,
                             graph.index(size))
        wide = graph.op("Expand", wide, shape)
        return graph.op("Reshape", wide,
                        graph.vector(batch, graph.index(heads), length, graph.index(size)))

    normal = rms_norm(graph, x, width)
    q = turned(
        split_heads(graph, graph.op("MatMul", normal, graph.weight(width, heads * size)), heads,
                    size))
    k = turned(
        split_heads(graph, graph.op("MatMul", normal, graph.weight(width, groups * size)), groups,
                    size))
    v = split_heads(graph, graph.op("MatMul", normal, graph.weight(width, groups * size)), groups,
                    size)
    scores = graph.op("MatMul", q, graph.op("Transpose", repeated(k), perm=[0, 1, 3, 2]))
    scores = graph.op("Mul", scores, graph.constant(1 / math.sqrt(size)))
    ones = graph.op("ConstantOfShape", graph.vector(length, length),
                    value=helper.make_tensor("", FLOAT, [1], [-1e9]))
    scores = graph.op("Add", scores, graph.op("Trilu", ones, graph.index(1), upper=1))
    context = join_heads(graph, graph.op("MatMul", graph.op("Softmax", scores, axis=-1),
                                         repeated(v)), heads * size)
    graph.op("Add", x, graph.op("MatMul", context, graph.weight(heads * size, width)), to="out")
    graph.output("out", FLOAT, ["batch", "seq", width])

    def inputs(random, batch, length):
        return {"hidden": random.standard_normal((batch, length, width)).astype(numpy.float32)}

    return graph.model(17), inputs, [(1, 1), (2, 9), (1, 40), (3, 16)]


def newer_exporter():
    """Operators in the forms of opset 18: axes as inputs, Split by number, functions' bodies in
    domains of their own."""
    graph, width = Graph(4), 24
    x = graph.input("x", FLOAT, ["batch", "seq", width])
    mean = graph.op("ReduceMean", x, graph.ints(-1), keepdims=1)
    variance = graph.op("ReduceSumSquare", graph.op("Sub", x, mean), graph.ints(-1), keepdims=1)
    parts = graph.op("Split", graph.op("Div", x, graph.op("Sqrt", variance)), outputs=3, axis=-1,
                     num_outputs=3)
    names = ["gate", "up", "left"]
    graph.nodes.append(
        helper.make_node("GatedUnit", [parts[0], parts[1]], [names[0]], name="/unit",
                         domain="pkg.functions", alpha=1.5))
    padded = graph.op("Pad", names[0], graph.ints(1, 1), graph.constant(0.25), graph.ints(1))
    order = graph.op("TopK", parts[2], graph.ints(3), outputs=2, axis=-1)
    best = graph.op("ScatterElements", parts[2], order[1], graph.op("Neg", order[0]), axis=-1,
                    reduction="add")
    summed = graph.op("CumSum", best, graph.index(1))
    graph.op("Add", graph.op("ReduceMax", padded, graph.ints(1), keepdims=1), summed, to="y")
    graph.op("ArgMax", summed, axis=-1, keepdims=0, to="z")
    graph.output("y", FLOAT, ["batch", "seq", width // 3])
    graph.output("z", INT64, ["batch", "seq"])
    # gate = x * sigmoid(alpha * x) * y, in terms of another function.
    swish = helper.make_function("pkg.functions", "Swish", ["a"], ["b"], [
        attribute_node("Constant", [], ["alpha"], "value_float", "alpha"),
        helper.make_node("Mul", ["a", "alpha"], ["scaled"]),
        helper.make_node("Sigmoid", ["scaled"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["b"])], [helper.make_opsetid("", 18)],
                                 attributes=["alpha"])
    inner = helper.make_node("Swish", ["x"], ["t"], domain="pkg.functions")
    inner.attribute.append(reference("alpha", "alpha"))
    unit = helper.make_function("pkg.functions", "GatedUnit", ["x", "y"], ["z"],
                                [inner, helper.make_node("Mul", ["t", "y"], ["z"])], [
                                    helper.make_opsetid("", 18),
                                    helper.make_opsetid("pkg.functions", 1)], attributes=["alpha"])
    model = graph.model(18)
    model.opset_import.append(helper.make_opsetid("pkg.functions", 1))
    model.functions.extend([swish, unit])

    def inputs(random, batch, length):
        return {"x": random.standard_normal((batch, length, width)).astype(numpy.float32)}

    return model, inputs, [(1, 1), (2, 5), (4, 31)]


def lstm_tagger():
    """Tags for words: embedding, two bidirectional LSTM layers as torch.onnx writes
    nn.LSTM(batch_first=True) of packed sequences, a linear layer; opset 14."""
    graph, width, hidden, tags = Graph(5), 12, 8, 5
    ids, lengths = graph.input("ids", INT64,
                               ["batch", "seq"]), graph.input("lengths", INT64, ["batch"])
    x = graph.op("Transpose", graph.op("Gather", graph.weight(60, width), ids), perm=[1, 0, 2])
    counts = cast(graph, lengths, TensorProto.INT32)
    for layer in range(2):
        state = graph.op("ConstantOfShape",
                         graph.vector(graph.index(2), graph.dim(ids, 0), graph.index(hidden)),
                         value=helper.make_tensor("", FLOAT, [1], [0.0]))
        inner = width if layer == 0 else 2 * hidden
        operands = [
            x,
            graph.weight(2, 4 * hidden, inner),
            graph.weight(2, 4 * hidden, hidden),
            graph.weight(2, 8 * hidden), counts, state, state]
        y, last, _ = graph.op("LSTM", *operands, outputs=3, hidden_size=hidden,
                              direction="bidirectional")
        merged = graph.op("Transpose", y, perm=[0, 2, 1, 3])
        x = graph.op("Reshape", merged, graph.ints(0, 0, -1))
    back = graph.op("Transpose", x, perm=[1, 0, 2])
    logits = graph.op("Add", graph.op("MatMul", back, graph.weight(2 * hidden, tags)),
                      graph.weight(tags), to="logits")
    graph.op("ArgMax", logits, axis=-1, keepdims=0, to="tags")
    graph.op("Identity", last, to="last_state")
    graph.output("logits", FLOAT, ["batch", "seq", tags])
    graph.output("tags", INT64, ["batch", "seq"])
    graph.output("last_state", FLOAT, [2, "batch", hidden])

    def inputs(random, batch, length):
        lengths = numpy.sort(random.integers(1, length + 1, batch))[::-1].copy()
        lengths[0] = length
        return {"ids": random.integers(0, 60, (batch, length)), "lengths": lengths}

    return graph.model(14), inputs, [(1, 1), (2, 6), (3, 33)]


def quantised_tagger():
    """lstm_tagger as quantize_dynamic of ONNX Runtime leaves it; weights of 7 bits, whose products
    no processor makes it saturate."""
    plain, inputs, _ = lstm_tagger()
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("plain.onnx", "quantised.onnx")]
        onnx.save(plain, paths[0])
        quantize_dynamic(*paths, reduce_range=True)
        quantised = onnx.load(paths[1])
    assert sum(node.op_type == "DynamicQuantizeLSTM" for node in quantised.graph.node) == 2
    return quantised, inputs, [(1, 1), (2, 6), (3, 9)]


def sequences():
    """Parts of a tensor as a sequence: taken, put in, dropped, mapped and joined again; an optional
    on the way; opset 17."""
    graph = Graph(6)
    x, size, place = graph.input("x", FLOAT,
                                 ["rows", 3]), graph.input("size", INT64,
                                                           []), graph.input("place", INT64, [])
    parts = graph.op("SplitToSequence", x, size, axis=0)
    graph.op("SequenceLength", parts, to="count")
    taken = graph.op("SequenceAt", parts, place)
    body = helper.make_graph([
        helper.make_node("Mul", ["part", "factor"], ["scaled"]),
        helper.make_node("Add", ["scaled", "factor"], ["sum"])], "body", [
            helper.make_tensor_value_info(name, FLOAT, None) for name in ("part", "factor")],
                             [helper.make_tensor_value_info("sum", FLOAT, None)])
    mapped = graph.op("SequenceMap", parts, graph.constant(0.5), body=body)
    longer = graph.op("SequenceInsert", mapped, taken, place)
    graph.op("ConcatFromSequence", graph.op("SequenceErase", longer, graph.index(0)), axis=0,
             to="joined")
    rows = graph.op("SplitToSequence", x, axis=0, keepdims=0)
    graph.op("ConcatFromSequence", rows, axis=1, new_axis=1, to="turned")
    pair = graph.op("SequenceConstruct", x, x, taken)
    some = graph.op("Optional", pair)
    graph.op("OptionalHasElement", some, to="there")
    graph.op("SequenceAt", graph.op("OptionalGetElement", some), graph.index(-1), to="last")
    empty = graph.op("SequenceEmpty", dtype=FLOAT)
    graph.op("SequenceLength", graph.op("SequenceInsert", empty, x), to="one")
    for name, dtype, dims in (("count", INT64, []), ("joined", FLOAT, ["joined", 3]),
                              ("turned", FLOAT, [3, "rows"]), ("there", BOOL, []),
                              ("last", FLOAT, ["part", 3]), ("one", INT64, [])):
        graph.output(name, dtype, dims)

    def inputs(random, rows, size, place):
        return {
            "x": random.standard_normal((rows, 3)).astype(numpy.float32), "size": numpy.array(size),
            "place": numpy.array(place)}

    return graph.model(17), inputs, [(1, 1, 0), (7, 2, -1), (6, 2, 1), (40, 33, 1)]


def optimised_convolutions():
    """What ONNX Runtime's optimiser writes at the extended level: convolutions with an activation
    and, by hand, one with an addend; opset 17."""
    graph = Graph(7)
    x = graph.input("x", FLOAT, ["batch", 3, "rows", "columns"])

    def convolution(x, channels, *more, of=8, **attributes):
        weight = graph.constant(graph.random.standard_normal((of, channels, 3, 3)) / 5)
        kind, attributes = ("FusedConv", {"domain": "com.microsoft"}
                            | attributes) if "activation" in attributes else ("Conv", attributes)
        return graph.op(kind, x, weight, graph.weight(of), *more, pads=[1] * 4, **attributes)

    first = graph.op("Relu", convolution(x, 3))
    y = graph.op("LeakyRelu", convolution(first, 8), alpha=0.2)
    y = graph.op("Clip", convolution(y, 8), graph.constant(0), graph.constant(6))
    y = convolution(y, 8, first, activation="Relu")
    y = graph.op("HardSigmoid", convolution(y, 8), alpha=0.3, beta=0.4)
    y = graph.op("Sigmoid", convolution(y, 2, group=4))
    y = graph.op("Tanh", convolution(y, 1, group=8, strides=[2, 2]))
    y = convolution(y, 8, activation="HardSwish")
    graph.op("Identity", convolution(y, 8, of=4), to="y")
    graph.output("y", FLOAT, ["batch", 4, "half_rows", "half_columns"])
    plain = graph.model(17)
    plain.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(pathlib.Path(folder) / "optimised.onnx")
        onnxruntime.InferenceSession(plain.SerializeToString(), options,
                                     providers=["CPUExecutionProvider"])
        optimised = onnx.load(options.optimized_model_filepath)
    assert sum(node.op_type == "FusedConv" for node in optimised.graph.node) == 8

    def inputs(random, batch, rows, columns):
        return {"x": random.standard_normal((batch, 3, rows, columns)).astype(numpy.float32)}

    return optimised, inputs, [(1, 1, 1), (2, 10, 7), (1, 33, 18)]


def reference(name, of):
    attribute = onnx.AttributeProto()
    attribute.name, attribute.ref_attr_name, attribute.type = name, of, onnx.AttributeProto.FLOAT
    return attribute


def attribute_node(kind, inputs, outputs, name, of):
    node = helper.make_node(kind, inputs, outputs)
    node.attribute.append(reference(name, of))
    return node


ALL = {
    each.__name__: each for each in (t5_encoder, cached_decoder, grouped_rotary, newer_exporter,
                                     lstm_tagger, quantised_tagger, sequences,
                                     optimised_convolutions)}
CONTROL_FLOW = {"lstm_tagger", "quantised_tagger", "sequences"}  # loops and lists: nothing for the graph executor
