#!/usr/bin/env python3
"""Parallel efficiency on this machine's cores, measured and as the cost model has it, beside ONNX
Runtime: one text, a batch of texts, and several callers of one model, with 1, 2, 4, ... threads.

usage: cores.py MODEL TOKENS [--threads N,N,...] [--batch N] [--callers N] [--seconds S] [--rounds
N] [--memory-bandwidth GB/s] [--anydim PROGRAM] [--json]

TOKENS: one JSON list of ids a line (bench/corpus.py). The text is the one of median length, the
batch those nearest to it, and each caller calls with the one text. Each engine has one model with
so many threads to compute with; engines take turns of S seconds, who begins changes, and each
round's ratio is kept: medians, and quartiles of the ratio. Efficiency is the rate over that of one
thread and one caller, divided by the threads; the modelled one is `anydim explain --at-threads`,
for several callers that of the slice of threads that each has. By default threads are doubled up to
the processors that this process may use.
"""
import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import tempfile

import numpy

from callers import ENGINES, in_turns, ratio_of, turn
from encoder import OnnxRuntime, batches, programs_of, read_tokens


def doubled_up_to(most):
    """1, 2, 4, ... and the number itself."""
    threads = [1]
    while 2 * threads[-1] <= most:
        threads.append(2 * threads[-1])
    return threads + ([most] if threads[-1] < most else [])


def near_the_median(texts, count):
    """So many texts, those whose lengths are nearest to the median one's."""
    median = statistics.median_low(map(len, texts))
    return sorted(texts, key=lambda text: abs(len(text) - median))[:count]


def feeds_of(texts, names):
    batch = next(batches(texts, len(texts), "arrival"))
    return {name: batch[name] for name in names}


class Anydim:
    """The command, started for every turn; kernels stay in a folder between turns."""

    def __init__(self, program, model, folder, threads):
        self.words, self.threads, self.folder = [program, "bench", model], threads, folder

    def turn(self, feeds, callers, seconds):
        command = [
            *self.words, "--json", "--threads", self.threads, "--streams", callers, "--duration",
            seconds, "--warm-up", min(0.2, seconds), "--cache-dir", f"{self.folder}/kernels"]
        for name, array in feeds.items():
            numpy.save(f"{self.folder}/{name}.npy", array)
            command += ["--input", f"{name}={self.folder}/{name}.npy"]
        done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE,
                              text=True)
        figures = json.loads(done.stdout)
        return {"rate": figures["calls_per_s"], "p50_ms": figures["p50_ms"]}

    def close(self):
        pass


def serve_peer(pipe, model, threads):
    peer = OnnxRuntime(model, threads)
    while (asked := pipe.recv()) is not None:
        feeds, callers, seconds = asked
        peer.run(feeds)
        figures = turn(lambda: peer.run(feeds), callers, seconds)
        pipe.send({"rate": figures["rate"],
                   "p50_ms": 1e3 * statistics.median(figures["latencies"])})


class Peer:
    """ONNX Runtime in a process of its own, which does nothing between its turns."""

    def __init__(self, model, threads):
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        context.Process(target=serve_peer, args=(there, model, threads), daemon=True).start()

    def turn(self, feeds, callers, seconds):
        self.pipe.send((feeds, callers, seconds))
        return self.pipe.recv()

    def close(self):
        self.pipe.send(None)


def measure(engines, feeds, callers, seconds, rounds):
    turns = in_turns(rounds, lambda name: engines[name].turn(feeds, callers, seconds))
    row = {
        name: {figure: statistics.median(one[figure] for one in turns[name])
               for figure in ("rate", "p50_ms")} for name in ENGINES}
    return row | ratio_of(turns)


def modelled_launches(program, model, feeds, threads, folder, bandwidth):
    """Seconds of each launch of a call, by the number of threads that it has to itself."""
    command = [
        program, "explain", model, "--json", "--repeat", 1, "--at-threads",
        ",".join(map(str, threads)), "--cache-dir", f"{folder}/kernels"]
    if bandwidth:
        command += ["--memory-bandwidth", bandwidth]
    for name, array in feeds.items():
        command += ["--shape", f"{name}={'x'.join(map(str, array.shape))}"]
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE,
                          text=True)
    return {
        at["threads"]: [1e-6 * launch["modelled_us"] for launch in at["launches"]]
        for at in json.loads(done.stdout)["scaling"]}


def slices(threads, callers):
    """Threads of each of so many callers (runtime/worker_pool.h)."""
    callers = min(callers, threads)
    return [(rank + 1) * threads // callers - rank * threads // callers for rank in range(callers)]


def modelled_efficiency(seconds, threads, callers):
    """`seconds` of a call by its threads."""
    rate = sum(1 / seconds[count] for count in slices(threads, callers))
    return rate * seconds[1] / threads


def text_of(rows, machine):
    lines = [
        f"{machine['date']}, {machine['processor']}, {machine['processors']} processors, "
        f"{machine['nodes']} nodes of memory.", "",
        "| calls | threads | Anydim calls/s | p50 ms | efficiency | modelled | ONNX Runtime calls/s | p50 ms | efficiency | ratio [quartiles] |",
        "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        ours, theirs = row["anydim"], row["onnxruntime"]
        lines.append(
            f"| {row['calls']} | {row['threads']} | {ours['rate']:.1f} | {ours['p50_ms']:.2f} | "
            f"{ours['efficiency']:.0%} | {row['modelled']:.0%} | {theirs['rate']:.1f} | "
            f"{theirs['p50_ms']:.2f} | {theirs['efficiency']:.0%} | {row['ratio']:.2f} "
            f"[{row['quartiles'][0]:.2f}, {row['quartiles'][1]:.2f}] |")
    return "\n".join(lines)


def this_machine(program):
    told = subprocess.run([program, "doctor", "--json"], check=True, stdout=subprocess.PIPE)
    nodes = len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")))
    return {
        "date": datetime.date.today().isoformat(),
        "processor": json.loads(told.stdout)["processor"],
        "processors": len(os.sched_getaffinity(0)), "nodes": max(1, nodes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens")
    parser.add_argument("--threads", help="default: 1, 2, 4, ... up to this machine's")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--memory-bandwidth", type=float,
                        help="of this machine, GB/s, for the cost model; default: no limit")
    parser.add_argument("--anydim", action="append",
                        help="the program; default: this tree's release build")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = programs_of(arguments)[0]
    machine = this_machine(program)
    numbers = sorted({1} | set(
        map(int, arguments.threads.split(",")) if arguments.
        threads else doubled_up_to(machine["processors"])))
    texts = read_tokens(arguments.tokens)
    names = OnnxRuntime(arguments.model, 1).inputs
    one = feeds_of(near_the_median(texts, 1), names)
    many = feeds_of(near_the_median(texts, arguments.batch), names)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        counts = sorted(set(numbers) | {
            count for threads in numbers for count in slices(threads, arguments.callers)})
        seconds = {
            name: {
                count: sum(launches) for count, launches in modelled_launches(
                    program, arguments.model, feeds, counts, folder,
                    arguments.memory_bandwidth).items()}
            for name, feeds in (("one", one), ("many", many))}
        setups = [("one text", "one", one, 1),
                  (f"{len(next(iter(many.values())))} texts", "many", many, 1),
                  (f"one text each of {arguments.callers} callers", "one", one, arguments.callers)]
        first = {}
        for threads in numbers:
            engines = {
                "anydim": Anydim(program, arguments.model, folder, threads),
                "onnxruntime": Peer(arguments.model, threads)}
            for calls, which, feeds, callers in setups:
                row = measure(engines, feeds, callers, arguments.seconds, arguments.rounds)
                if threads == 1 and callers == 1:
                    first[which] = row
                for name in ENGINES:
                    alone = first[which][name]["rate"]
                    row[name]["efficiency"] = row[name]["rate"] / alone / threads
                row["modelled"] = modelled_efficiency(seconds[which], threads, callers)
                rows.append({"calls": calls, "threads": threads} | row)
            for engine in engines.values():
                engine.close()
    if arguments.json:
        print(json.dumps({"machine": machine, "rows": rows}, indent=1))
    else:
        print(text_of(rows, machine))


if __name__ == "__main__":
    main()
