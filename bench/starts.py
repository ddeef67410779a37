#!/usr/bin/env python3
"""First results and memory: processes of anydim and of ONNX Runtime from their start to a result.

usage: starts.py MODEL [SHAPE] [--rounds R] [--threads T] [--anydim PROGRAM ...] [-- OPTION...]

SHAPE (1x16) and inputs are those of beside.py. Each round starts every program with an empty cache of
kernels, again with the cache that this left, and a Python that imports onnxruntime, loads and runs the
model. Printed are medians of seconds from start to exit and of the largest resident size.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime

from beside import DTYPES, HERE, value

PEER = """
import sys, numpy, onnxruntime
settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads = int(sys.argv[3])
session = onnxruntime.InferenceSession(sys.argv[1], settings)
with numpy.load(sys.argv[2]) as feeds:
    session.run(None, dict(feeds))
"""
# Runs its arguments and prints the largest resident size of what it ran, in KiB.
MEASURED = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


def measure(command):
    """Seconds and MB of a process."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], check=True, stdout=subprocess.PIPE, text=True)
    return seconds, int(done.stdout) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("shape", nargs="?", default="1x16")
    parser.add_argument("options", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--anydim", action="append")
    arguments = parser.parse_intermixed_args()
    programs = arguments.anydim or [str(HERE.parent / "build/release/bin/anydim")]
    inputs = onnxruntime.InferenceSession(arguments.model).get_inputs()
    shape = [int(extent) for extent in arguments.shape.split("x")]
    feeds = {entry.name: value(entry.name, DTYPES[entry.type], shape) for entry in inputs}
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.savez(folder / "feeds.npz", **feeds)
        given = []
        for entry, array in feeds.items():
            numpy.save(folder / f"{entry}.npy", array)
            given += ["--input", f"{entry}={folder / entry}.npy"]
        threads = str(arguments.threads)
        for turn in range(arguments.rounds):
            for program in programs:
                command = [program, "run", arguments.model, "--quiet", "--threads", threads, *given, *arguments.options]
                cold = command + ["--cache-dir", str(folder / f"cache{turn}{programs.index(program)}")]
                begin = time.perf_counter()
                subprocess.run(cold, check=True, stdout=subprocess.DEVNULL)
                rows.setdefault(f"{program}, empty cache", []).append((time.perf_counter() - begin, 0.0))
                rows.setdefault(f"{program}, warm cache", []).append(measure(cold))
            peer = [sys.executable, "-c", PEER, arguments.model, str(folder / "feeds.npz"), threads]
            rows.setdefault("ONNX Runtime", []).append(measure(peer))
    for name, taken in rows.items():
        seconds, size = (statistics.median(column) for column in zip(*taken))
        print(f"{name}: {seconds:.3f} s" + (f", {size:.0f} MB" if size else ""))


if __name__ == "__main__":
    main()
