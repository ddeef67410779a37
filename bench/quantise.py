#!/usr/bin/env python3
"""Quantises a text encoder with ONNX Runtime's tools, the ways that people do.

usage: quantise.py MODEL FOLDER [NAME]

Writes FOLDER/NAME.WAY.onnx (NAME: the model's): dynamic-u8, dynamic-s8 and dynamic-s8-channels
(quantize_dynamic), static-qdq (quantize_static, QDQ, u8 by s8 per channel, its ranges from random
ids), and of weights alone, in blocks of 32 with zero points, weights-4 and weights-8 (MatMulNBits),
weights-4-bytes (with accuracy_level 4, so that bytes are multiplied) and weights-4-qdq (UINT4
behind DequantizeLinear). The model is optimised first (basic level, as
quant_pre_process does), which makes constants of transposed weights.
"""
import pathlib
import sys
import tempfile

import numpy
import onnx
import onnx.version_converter
import onnxruntime
from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType,
                                      quantize_dynamic, quantize_static)
from onnxruntime.quantization.matmul_nbits_quantizer import (DefaultWeightOnlyQuantConfig,
                                                             MatMulNBitsQuantizer)


class RandomTexts(CalibrationDataReader):
    def __init__(self, inputs):
        self.inputs, self.left = inputs, 8
        self.random = numpy.random.default_rng(0)

    def get_next(self):
        if self.left == 0:
            return None
        self.left -= 1
        ids = self.random.integers(3, 1000, (2, 32))
        values = {"input_ids": ids, "attention_mask": numpy.ones_like(ids),
                  "token_type_ids": numpy.zeros_like(ids)}
        return {name: values[name] for name in self.inputs}


def self_contained(path):
    """The model with its weights inside, from files that may be links."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        place = {entry.key: entry.value for entry in tensor.external_data}
        with open((path.parent / place["location"]).resolve(), "rb") as file:
            file.seek(int(place.get("offset", 0)))
            tensor.raw_data = file.read(int(place["length"]))
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return model.SerializeToString()


def quantise_weights(model, path, bits, quant_format, accuracy_level=None):
    """Matrices of a model alone, in blocks."""
    settings = DefaultWeightOnlyQuantConfig(block_size=32, bits=bits, quant_format=quant_format,
                                            accuracy_level=accuracy_level)
    quantizer = MatMulNBitsQuantizer(model, algo_config=settings)
    quantizer.process()
    quantizer.model.save_model_to_file(str(path), False)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    model, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    name = sys.argv[3] if len(sys.argv) == 4 else model.stem
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        basic = f"{scratch}/basic.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = basic
        onnxruntime.InferenceSession(self_contained(model), options,
                                     providers=["CPUExecutionProvider"])
        inputs = [entry.name for entry in onnx.load(basic, load_external_data=False).graph.input]
        ways = {"dynamic-u8": {"weight_type": QuantType.QUInt8},
                "dynamic-s8": {"weight_type": QuantType.QInt8},
                "dynamic-s8-channels": {"weight_type": QuantType.QInt8, "per_channel": True}}
        for way, settings in ways.items():
            quantize_dynamic(basic, folder / f"{name}.{way}.onnx", **settings)
        quantize_static(basic, folder / f"{name}.static-qdq.onnx", RandomTexts(inputs),
                        quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8, per_channel=True)
        for bits in (4, 8):
            quantise_weights(onnx.load(basic), folder / f"{name}.weights-{bits}.onnx", bits,
                             QuantFormat.QOperator)
        quantise_weights(onnx.load(basic), folder / f"{name}.weights-4-bytes.onnx", 4,
                         QuantFormat.QOperator, accuracy_level=4)
        newer = onnx.version_converter.convert_version(onnx.load(basic), 21)  # has UINT4
        quantise_weights(newer, folder / f"{name}.weights-4-qdq.onnx", 4, QuantFormat.QDQ)


if __name__ == "__main__":
    main()
