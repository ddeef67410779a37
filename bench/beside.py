#!/usr/bin/env python3
"""Times calls of a model at given shapes, builds of anydim and ONNX Runtime in turns.

usage: beside.py MODEL SHAPE[,SHAPE...] [--rounds R] [--threads T] [--anydim PROGRAM ...] [--
OPTION...]

SHAPE, e.g. 8x128, is that of every input; integers are ids from 3 to 999, masks 1, token types 0.
Each round times every program and ONNX Runtime, 30 calls each; printed are medians, in
milliseconds, and the median over rounds of ONNX Runtime's time over each program's. OPTIONs go to
anydim.
"""
import json
import statistics
import subprocess
import tempfile
import time

from encoder import OnnxRuntime, made_up, parser_beside, programs_of, settle, shape_of

CALLS = 30


def main():
    parser = parser_beside(__doc__)
    parser.add_argument("shapes")
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_intermixed_args()
    programs = programs_of(arguments)
    session = OnnxRuntime(arguments.model, arguments.threads).session
    for text in arguments.shapes.split(","):
        feeds = made_up(session.get_inputs(), shape_of(text))
        ours, theirs = [[] for _ in programs], []
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(arguments.rounds):
                for i, program in enumerate(programs):
                    command = [
                        program, "explain", arguments.model, "--json", "--repeat",
                        str(CALLS), "--threads",
                        str(arguments.threads), "--cache-dir", f"{folder}/{i}", *arguments.options]
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
                settle()
        line = f"{text}: ONNX Runtime {statistics.median(theirs):.3f} ms"
        for program, times in zip(programs, ours):
            ratio = statistics.median(b / a for a, b in zip(times, theirs))
            line += f"; {program} {statistics.median(times):.3f} ms ({ratio:.2f})"
        print(line, flush=True)


if __name__ == "__main__":
    main()
