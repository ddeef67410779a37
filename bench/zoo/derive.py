#!/usr/bin/env python3
"""Writes exports in another form, with cases.

usage: derive.py FOLDER O1|O2|O3|f16 NAME.EXPORTER ...

Runs with an interpreter that has torch, onnx and onnxruntime. O1 to O3 are what optimum calls so:
ONNX Runtime's basic optimisations; its extended ones and those for transformers; these with gelu by
tanh. f16 is computed in f16 between inputs and outputs of f32. The cases of O1 and O2 are those of
the export, which they must equal; those of O3 and f16, which change the numbers, are recorded anew.
Writes FOLDER/NAME.EXPORTER.FORM.onnx and .npz and prints one line a model.
"""
import pathlib
import sys

import numpy
import onnx
import onnxruntime
from onnxruntime.transformers import float16, optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

# The optimizer knows families of architectures; what is not named here is like bert.
FAMILIES = ["bart", "clip", "gpt2", "gpt_neox", "phi", "qwen3", "t5", "vit", "swin"]


def derived(model, form):
    """The model in that form, as onnx.ModelProto."""
    if form == "f16":
        return float16.convert_float_to_float16(onnx.load(model), keep_io_types=True)
    family = next((each for each in FAMILIES if model.name.startswith(each)), "bert")
    options = FusionOptions(family)
    options.enable_gelu_approximation = form == "O3"
    return optimizer.optimize_model(str(model), family, opt_level=1 if form == "O1" else 2,
                                    optimization_options=options,
                                    only_onnxruntime=form == "O1").model


def cases_of(model, cases):
    """The recorded cases without the inputs that the optimizer found to be of no use."""
    inputs = {each.name for each in model.graph.input}
    return {key: value for key, value in cases.items()
            if key.split(".")[1] == "out" or key.split(".", 2)[2] in inputs}


def recorded_anew(path, cases):
    """The cases' inputs with what ONNX Runtime gives for them."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    recorded = {key: value for key, value in cases.items() if key.split(".")[1] == "in"}
    for number in sorted({key.split(".")[0] for key in recorded}):
        feeds = {key.split(".", 2)[2]: value for key, value in recorded.items()
                 if key.split(".")[0] == number}
        for output, value in zip(session.get_outputs(), session.run(None, feeds)):
            recorded[f"{number}.out.{output.name}"] = value
    return recorded


def main(argv):
    if len(argv) < 3:
        sys.exit(__doc__)
    folder, form, failed = pathlib.Path(argv[0]), argv[1], 0
    for name in argv[2:]:
        model, path = folder / f"{name}.onnx", folder / f"{name}.{form}.onnx"
        try:
            made = derived(model, form)
            onnx.save(made, path)
            cases = cases_of(made, numpy.load(folder / f"{name}.npz"))
            if form in ("O3", "f16"):
                cases = recorded_anew(path, cases)
            numpy.savez(path.with_suffix(".npz"), **cases)
            print(f"{path.stem}: written", flush=True)
        except Exception as error:  # of any kind: the optimizer is not ours
            failed += 1
            print(f"{path.stem}: not written: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
