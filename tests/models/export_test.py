"""Small graphs as exporters write them (exports.py) through `anydim run` against ONNX Runtime, at
several sizes.

usage: export_test.py [NAME...]   (ANYDIM names the command) The first and the last size also run
under the policies symbolic and exact, and on the graph executor where the graph has no control
flow. Floats agree within 1e-4 absolute plus 1e-3 relative; everything else is equal.
"""
import os
import pathlib
import sys
import tempfile

import numpy
import onnx
import onnxruntime

import compare
import exports


WAYS = ([], ["--policy", "symbolic"], ["--policy", "exact"], ["--executor", "graph"])


def fault(name, got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"output {name}: expected {want.dtype}{want.shape}, got {got.dtype}{got.shape}"
    same = numpy.allclose(got, want, atol=1e-4,
                          rtol=1e-3) if want.dtype.kind == "f" else numpy.array_equal(got, want)
    return None if same else f"output {name}: values differ"


def main():
    failed = 0
    for name in sys.argv[1:] or exports.ALL:
        model, inputs, sizes = exports.ALL[name]()
        onnx.checker.check_model(model)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1  # they decide which rows share a range (quantised_tagger)
        peer = onnxruntime.InferenceSession(model.SerializeToString(), settings,
                                            providers=["CPUExecutionProvider"])
        outputs = [each.name for each in peer.get_outputs()]
        random = numpy.random.default_rng(7)
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / f"{name}.onnx")
            onnx.save(model, path)
            for size in sizes:
                batch = inputs(random, *size)
                wanted = peer.run(None, batch)
                for options in WAYS if size in (sizes[0], sizes[-1]) else WAYS[:1]:
                    if "graph" in options and name in exports.CONTROL_FLOW:
                        continue
                    got = compare.run_anydim(os.environ["ANYDIM"], path, batch, outputs, 2, options)
                    faults = [
                        each for each in (fault(n, got[n], want)
                                          for n, want in zip(outputs, wanted)) if each]
                    failed += bool(faults)
                    print(f"{name} {size} {' '.join(options)}: {'; '.join(faults) or 'passed'}")
    sys.exit(failed != 0)


main()
