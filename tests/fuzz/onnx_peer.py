"""Random graphs in ONNX Runtime against the reference evaluator.

usage: onnx_peer.py FUZZ_GRAPHS SEED COUNT [--keep FOLDER] `fuzz_graphs --onnx` writes the graphs
that have an ONNX form, laid out like ONNX's node tests, with the evaluator's outputs. Floats agree
within 2e-3 (f16, bf16: 6e-2), absolute or relative. What ONNX Runtime does not take (types it has
no kernel for) is counted, not compared; where it gives no elements only the element type counts,
because its reductions over nothing keep dims that they should drop; its mean of nothing is 0 where
0 / 0 is expected. Ends with a JSON line; exits 1 where anything differs. With --keep the folders
stay.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper


def tensors(folder, kind):
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


def fault(got, want, tolerance, has_means):
    if got.dtype == want.dtype and got.size == 0:
        return None
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"expected {want.dtype}{want.shape}, got {got.dtype}{got.shape}"
    if want.dtype.kind != "f":
        return None if numpy.array_equal(got, want) else "values differ"
    if has_means:
        got = numpy.where(numpy.isnan(want) & (got == 0), want, got)
    same = numpy.allclose(got.astype(numpy.float64), want.astype(numpy.float64), atol=tolerance,
                          rtol=tolerance, equal_nan=True)
    return None if same else "values differ"


def faults(folder, model, session):
    halves = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    tolerance = 6e-2 if any(each.op_type == "Cast" and each.attribute[0].i in halves
                            for each in model.graph.node) or any(
                                each.type.tensor_type.elem_type in halves
                                for each in model.graph.input) else 2e-3
    has_means = b"ReduceMean" in model.SerializeToString()
    names = [each.name for each in model.graph.input]
    for call in sorted(folder.glob("test_data_set_*")):
        got = session.run(None, dict(zip(names, tensors(call, "input"))))
        for index, (mine, want) in enumerate(zip(got, tensors(call, "output"))):
            why = fault(mine, want, tolerance, has_means)
            if why:
                yield f"{call.name}, output {index}: {why}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fuzz_graphs")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    counts = dict.fromkeys(("graphs", "exported", "refused", "equal", "differ"), 0)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(arguments.keep or folder)
        command = [
            arguments.fuzz_graphs, "--onnx",
            str(arguments.seed),
            str(arguments.count),
            str(folder)]
        written = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        reasons = collections.Counter(
            line.split(": no export: ")[1] for line in written.splitlines())
        print("without an ONNX form:",
              ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()))
        counts["graphs"] = arguments.count
        for each in sorted(folder.glob("seed_*")):
            counts["exported"] += 1
            model = onnx.load(str(each / "model.onnx"))
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            try:
                session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                       providers=["CPUExecutionProvider"])
                found = next(faults(each, model, session), None)
            except Exception as problem:
                counts["refused"] += 1
                print(f"{each.name}: refused: {str(problem).splitlines()[0][:200]}")
                continue
            counts["differ" if found else "equal"] += 1
            if found:
                print(f"{each.name}: {found}")
    print(json.dumps(counts))
    sys.exit(counts["differ"] > 0)


main()
