#!/usr/bin/env python3
"""Many callers of one model: throughput and latency with 1, 2, 4 and 8 calling threads, and of 2
processes, beside ONNX Runtime's InferenceSession in the same set-up.

usage: PYTHONPATH=build/release/python callers.py MODEL.onnx [--batch N] [--length N] [--threads N]
[--seconds S] [--rounds N] [--callers N,N,...] [--json]

Each of the engines has one model with so many threads to compute with (one session, one Model),
which all callers share; with 2 processes each has a model of its own with half of the threads. A
turn lets every caller call for S seconds; engines take turns, who begins changes, and each round's
ratio is kept: medians, and quartiles of the ratio. p99 is over all calls of all turns. Callers are
Python threads; both engines release the GIL. Every engine is a process of its own that does nothing
between its turns; processor seconds are those of the engine's turns, spinning included.
"""
import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import threading
import time

import numpy

from encoder import OnnxRuntime, settle

ENGINES = ("anydim", "onnxruntime")


def feeds_of(names, batch, length):
    random = numpy.random.default_rng(1)
    known = {
        "attention_mask": numpy.ones((batch, length), "int64"), "token_type_ids": numpy.zeros(
            (batch, length), "int64")}
    return {name: known.get(name, random.integers(1000, 20000, (batch, length))) for name in names}


def caller_of(engine, model, threads, batch, length):
    """A function that calls the model once."""
    if engine == "anydim":
        import anydim

        compiled = anydim.compile(model, threads=threads)
        feeds = feeds_of([info.name for info in compiled.inputs], batch, length)
        return lambda: compiled.run(feeds)
    peer = OnnxRuntime(model, threads)
    feeds = feeds_of(peer.inputs, batch, length)
    return lambda: peer.session.run(None, feeds)


def turn(call, callers, seconds):
    """Calls of all threads: how many a second, and each one's latency; processor seconds
    meanwhile."""
    gate, latencies = threading.Barrier(callers), [[] for _ in range(callers)]
    spent = resource.getrusage(resource.RUSAGE_SELF)

    def work(mine):
        gate.wait()
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            call()
            mine.append(time.perf_counter() - began)

    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(mine,)) for mine in latencies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasted, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    every = [latency for mine in latencies for latency in mine]
    return {
        "rate": len(every) / lasted, "latencies": every,
        "processor": (now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime) / lasted}


def serve(pipe, engine, model, threads, batch, length):
    call = caller_of(engine, model, threads, batch, length)
    for _ in range(5):
        call()
    while (asked := pipe.recv()) is not None:
        done = turn(call, *asked)
        settle()
        pipe.send(done)


class Engine:
    """One or more processes that hold a model each and take their turns together."""

    def __init__(self, name, processes, arguments):
        context = multiprocessing.get_context("spawn")
        self.pipes = []
        for _ in range(processes):
            here, there = context.Pipe()
            context.Process(
                target=serve,
                args=(there, name, arguments.model, max(1, arguments.threads // processes),
                      arguments.batch, arguments.length), daemon=True).start()
            self.pipes.append(here)

    def turn(self, callers, seconds):
        for pipe in self.pipes:
            pipe.send((callers, seconds))
        turns = [pipe.recv() for pipe in self.pipes]
        return {
            "rate": sum(one["rate"] for one in turns),
            "latencies": [latency for one in turns for latency in one["latencies"]],
            "processor": sum(one["processor"] for one in turns)}

    def close(self):
        for pipe in self.pipes:
            pipe.send(None)


def in_turns(rounds, take):
    """What take(engine's name) gives, of each engine, who begins changing from round to round."""
    turns = {name: [] for name in ENGINES}
    for number in range(rounds):
        for name in ENGINES if number % 2 == 0 else ENGINES[::-1]:
            turns[name].append(take(name))
    return turns


def ratio_of(turns):
    """Of the engines' rates in each round: the median, and quartiles."""
    ratios = [
        ours["rate"] / theirs["rate"]
        for ours, theirs in zip(turns["anydim"], turns["onnxruntime"])]
    return {
        "ratio": statistics.median(ratios), "quartiles": [
            float(numpy.percentile(ratios, share)) for share in (25, 75)]}


def measure(engines, callers, arguments):
    for name in ENGINES:
        engines[name].turn(callers, arguments.seconds / 4)
    turns = in_turns(arguments.rounds, lambda name: engines[name].turn(callers, arguments.seconds))
    row = {}
    for name in ENGINES:
        latencies = [latency for one in turns[name] for latency in one["latencies"]]
        row[name] = {
            "rate": statistics.median(one["rate"] for one in turns[name]
                                      ), "p50_ms": 1e3 * float(numpy.percentile(latencies, 50)),
            "p99_ms": 1e3 * float(numpy.percentile(latencies, 99)),
            "processors": statistics.median(one["processor"] for one in turns[name])}
    return row | ratio_of(turns)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--callers", default="1,2,4,8")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    setups = [(f"{callers} thread{'s' if callers > 1 else ''}", 1, callers)
              for callers in map(int, arguments.callers.split(","))] + [("2 processes", 2, 1)]
    for name, processes, callers in setups:
        engines = {engine: Engine(engine, processes, arguments) for engine in ENGINES}
        rows.append({"callers": name} | measure(engines, callers, arguments))
        for engine in engines.values():
            engine.close()
        print(f"measured {name}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(
        "| callers | Anydim calls/s | p50, p99 ms | processors | ONNX Runtime calls/s | p50, p99 ms | processors | ratio [quartiles] |\n|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        cells = [
            f"{row[name]['rate']:.1f} | {row[name]['p50_ms']:.2f}, {row[name]['p99_ms']:.2f} | {row[name]['processors']:.2f}"
            for name in ENGINES]
        print(
            f"| {row['callers']} | {' | '.join(cells)} | {row['ratio']:.2f} [{row['quartiles'][0]:.2f}, {row['quartiles'][1]:.2f}] |"
        )


if __name__ == "__main__":
    main()
