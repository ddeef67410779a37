"""What the measuring scripts share: token files, padded batches, and ONNX Runtime over a text encoder."""
import json

import numpy

MODES = {"one by one": (1, "arrival"), "arrival, 32": (32, "arrival"), "sorted, 8": (8, "sorted"), "sorted, 32": (32, "sorted")}


def read_tokens(path, count=None):
    with open(path, encoding="utf8") as lines:
        return [json.loads(line) for line in lines][:count]


def batches(texts, size, order):
    """Batches of `size` texts in file order or by length, padded with zeros: int64 arrays by the encoder's input names."""
    ranked = sorted(range(len(texts)), key=lambda i: len(texts[i])) if order == "sorted" else list(range(len(texts)))
    for start in range(0, len(ranked), size):
        rows = [texts[i] for i in ranked[start : start + size]]
        ids = numpy.zeros((len(rows), max(map(len, rows))), numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, text in enumerate(rows):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}


class OnnxRuntime:
    """ONNX Runtime on the CPU with its default options."""

    def __init__(self, model, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.inputs = [each.name for each in self.session.get_inputs()]
        self.outputs = [each.name for each in self.session.get_outputs()]

    def run(self, batch):
        return self.session.run(None, {name: batch[name] for name in self.inputs})


class OpenVino:
    """OpenVINO on the CPU, tuned for latency; precision is f32 or bf16. Needs the PyPI package openvino."""

    def __init__(self, model, threads, precision):
        import openvino

        settings = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        compiled = openvino.Core().compile_model(str(model), "CPU", settings)
        self.inputs = [each.get_any_name() for each in compiled.inputs]
        self.request = compiled.create_infer_request()

    def run(self, batch):
        return self.request.infer({name: batch[name] for name in self.inputs})
