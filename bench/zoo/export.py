#!/usr/bin/env python3
"""Exports architectures of models.py as ONNX with recorded cases, each in a process of its own.

usage: export.py FOLDER dynamo|legacy [NAME ...]   # default: all that are not of full size

Runs with an interpreter that has torch, transformers, onnx, onnxscript and onnxruntime. Writes
FOLDER/NAME.EXPORTER.onnx and .npz (keys `case.in.name` and `case.out.name`, as ONNX Runtime
computes them); prints one line a model, and says what could not be exported and why.
"""
import pathlib
import subprocess
import sys

import models

CALLS = [(2, 9), (1, 1), (3, 17), (2, 64)]
CALLS_OF_FULL_SIZE = [(1, 16), (1, 128), (8, 128)]
STEPS = [(2, 1, 9), (1, 5, 0), (3, 2, 17), (2, 1, 64)]
STEPS_OF_FULL_SIZE = [(1, 128, 0), (1, 1, 128), (8, 1, 128)]


def calls_of(row):
    """Batch, length and what is cached of the recorded calls; length is of no matter but to texts
    and vectors."""
    if row.kind in models.STEPS:
        return STEPS_OF_FULL_SIZE if row.full else STEPS
    if not row.full:
        return CALLS
    long = row.kind in ("text", "decoder", "vectors")
    return CALLS_OF_FULL_SIZE if long else CALLS_OF_FULL_SIZE[1:]


def export(folder, exporter, name):
    import numpy
    import onnxruntime
    import torch
    import transformers

    row, module = models.build(torch, transformers, name)
    dims = models.dims_of(row)
    outputs = models.outputs_of(row)
    inputs = models.example(torch, row, 2, 12, 5)
    path = folder / f"{name}.{exporter}.onnx"
    arguments = tuple(inputs.values())
    if exporter == "dynamo":
        program = torch.onnx.export(module, arguments, input_names=list(inputs),
                                    output_names=outputs,
                                    dynamic_shapes=(tuple(dims[each] for each in inputs),),
                                    dynamo=True, verbose=False)
        program.save(str(path), external_data=False)
    else:
        torch.onnx.export(module, arguments, str(path), input_names=list(inputs),
                          output_names=outputs, dynamic_axes=dims, dynamo=False,
                          opset_version=17)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    recorded = {}
    for number, call in enumerate(calls_of(row)):
        feeds = {key: value.numpy() for key, value in models.example(torch, row, *call).items()}
        feeds = {given.name: feed for given, feed in zip(session.get_inputs(), feeds.values())}
        for output, value in zip(session.get_outputs(), session.run(None, feeds)):
            recorded[f"{number}.out.{output.name}"] = value
        recorded |= {f"{number}.in.{key}": value for key, value in feeds.items()}
    numpy.savez(path.with_suffix(".npz"), **recorded)


def main(argv):
    if len(argv) < 2 or argv[1] not in ("dynamo", "legacy"):
        sys.exit(__doc__)
    folder, exporter, names = pathlib.Path(argv[0]), argv[1], argv[2:]
    if len(names) == 2 and names[0] == "--one":
        export(folder, exporter, names[1])
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names or [name for name, row in models.TABLE.items() if not row.full]:
        if (folder / f"{name}.{exporter}.npz").exists():
            continue
        command = [sys.executable, __file__, str(folder), exporter, "--one", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900)
            why = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1][:200]
        except subprocess.TimeoutExpired:
            why = "no end in 900 s"
        failed += bool(why)
        print(f"{name}.{exporter}: {'not exported: ' + why if why else 'exported'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
