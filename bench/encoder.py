"""What the measuring scripts share: token files, padded batches, and ONNX Runtime over a text
encoder."""
import argparse
import json
import pathlib
import time

import numpy

MODES = {
    "one by one": (1, "arrival"), "arrival, 32": (32, "arrival"), "sorted, 8": (8, "sorted"),
    "sorted, 32": (32, "sorted")}


def read_tokens(path, count=None):
    with open(path, encoding="utf8") as lines:
        return [json.loads(line) for line in lines][:count]


def batches(texts, size, order):
    """Batches of `size` texts in file order or by length, padded with zeros: int64 arrays by the
    encoder's input names."""
    ranked = sorted(range(len(texts)), key=lambda i: len(texts[i])) if order == "sorted" else list(
        range(len(texts)))
    for start in range(0, len(ranked), size):
        rows = [texts[i] for i in ranked[start : start + size]]
        ids = numpy.zeros((len(rows), max(map(len, rows))), numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, text in enumerate(rows):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}


MODEL_DTYPES = {
    "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(float)": numpy.float32}


def made_up(inputs, shape):
    """Feeds of a session's inputs, all of one shape: ids from 3 to 999, masks 1, token types 0,
    normal reals."""
    feeds = {}
    for entry in inputs:
        random, dtype = numpy.random.default_rng(0), MODEL_DTYPES[entry.type]
        if dtype == numpy.float32:
            feeds[entry.name] = random.standard_normal(shape).astype(dtype)
        elif "mask" in entry.name or "type" in entry.name:
            feeds[entry.name] = numpy.full(shape, "mask" in entry.name, dtype)
        else:
            feeds[entry.name] = random.integers(3, 1000, shape).astype(dtype)
    return feeds


def shape_of(text):
    """Extents of a shape such as 8x128."""
    return [int(extent) for extent in text.split("x")]


def parser_beside(doc):
    """Options of the scripts that hold programs of anydim and ONNX Runtime beside each other; a
    model and what they compute are the callers' own."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--anydim", action="append",
                        help="a program; default: this tree's release build")
    return parser


def programs_of(arguments):
    return arguments.anydim or [
        str(pathlib.Path(__file__).parent.parent / "build/release/bin/anydim")]


def settle():
    """Waits, a second at most, until this process's threads sleep: ONNX Runtime's spin for some 50
    ms after a call, on processors that the next turn is measured on."""
    for _ in range(100):
        used = time.process_time()
        time.sleep(0.01)
        if time.process_time() - used < 0.002:
            return


class OnnxRuntime:
    """ONNX Runtime on the CPU with its default options."""

    def __init__(self, model, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(model), options,
                                                    providers=["CPUExecutionProvider"])
        self.inputs = [each.name for each in self.session.get_inputs()]
        self.outputs = [each.name for each in self.session.get_outputs()]

    def run(self, batch):
        return self.session.run(None, {name: batch[name] for name in self.inputs})


class OpenVino:
    """OpenVINO on the CPU, tuned for latency; precision is f32 or bf16. Needs the PyPI package
    openvino."""

    def __init__(self, model, threads, precision):
        import openvino

        settings = {
            "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads}
        compiled = openvino.Core().compile_model(str(model), "CPU", settings)
        self.inputs = [each.get_any_name() for each in compiled.inputs]
        self.request = compiled.create_infer_request()

    def run(self, batch):
        return self.request.infer({name: batch[name] for name in self.inputs})
