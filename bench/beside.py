#!/usr/bin/env python3
"""Times calls of a model at given shapes, builds of anydim and ONNX Runtime in turns.

usage: beside.py MODEL SHAPE[,SHAPE...] [--rounds R] [--threads T] [--anydim PROGRAM ...] [-- OPTION...]

SHAPE, e.g. 8x128, is that of every input; integers are ids from 3 to 999, masks 1, token types 0. Each
round times every program and ONNX Runtime, 30 calls each; printed are medians, in milliseconds, and
the median over rounds of ONNX Runtime's time over each program's. OPTIONs go to anydim.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime

HERE = pathlib.Path(__file__).parent
DTYPES = {"tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(float)": numpy.float32}
CALLS = 30


def value(name, dtype, shape):
    random = numpy.random.default_rng(0)
    if dtype == numpy.float32:
        return random.standard_normal(shape).astype(dtype)
    if "mask" in name or "type" in name:
        return numpy.full(shape, "mask" in name, dtype)
    return random.integers(3, 1000, shape).astype(dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("shapes")
    parser.add_argument("options", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--anydim", action="append")
    arguments = parser.parse_intermixed_args()
    programs = arguments.anydim or [str(HERE.parent / "build/release/bin/anydim")]
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(arguments.model, settings)
    for text in arguments.shapes.split(","):
        shape = [int(extent) for extent in text.split("x")]
        feeds = {entry.name: value(entry.name, DTYPES[entry.type], shape) for entry in session.get_inputs()}
        ours, theirs = [[] for _ in programs], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(arguments.rounds):
                for i, program in enumerate(programs):
                    command = [program, "explain", arguments.model, "--json", "--repeat", str(CALLS),
                               "--threads", str(arguments.threads), "--cache-dir", f"{folder}/{i}",
                               *arguments.options]
                    for name in feeds:
                        command += ["--shape", f"{name}={text}"]
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    ours[i].append(json.loads(done.stdout)["call_us"] / 1e3)
                calls = []
                for _ in range(CALLS):
                    begin = time.perf_counter()
                    session.run(None, feeds)
                    calls.append(1e3 * (time.perf_counter() - begin))
                theirs.append(statistics.median(calls))
        line = f"{text}: ONNX Runtime {statistics.median(theirs):.3f} ms"
        for program, times in zip(programs, ours):
            ratio = statistics.median(b / a for a, b in zip(times, theirs))
            line += f"; {program} {statistics.median(times):.3f} ms ({ratio:.2f})"
        print(line, flush=True)


if __name__ == "__main__":
    main()
