#!/usr/bin/env python3
"""Several callers of one model on a machine that is not here, simulated from the cost model: each
with a slice of the threads (runtime/worker_pool.h), and, to compare, all threads for one caller's
launch at a time while the others compute theirs alone.

usage: slices.py MODEL SHAPE [--threads T] [--callers N,N,...] [--memory-bandwidth GB/s] [--anydim
PROGRAM]

SHAPE, e.g. 1x32, is that of every input. Every caller calls again as soon as its call has ended.
Printed are calls a second of all of them together, and milliseconds of a caller's median and
slowest call.
"""
import heapq
import statistics
import tempfile

from cores import modelled_launches, slices
from encoder import OnnxRuntime, made_up, parser_beside, programs_of, shape_of

CALLS = 100  # of each caller, on average


def sliced(launches, threads, callers):
    """Latencies of the callers, one each: a call takes what it takes on its slice."""
    return [sum(launches[count]) for count in slices(threads, callers)] + [
        sum(launches[1])] * max(0, callers - threads)


def one_at_a_time(launches, threads, callers):
    """Latencies of all calls: whoever finds the workers free has them for a launch."""
    together, alone = launches[threads], launches[1]
    free_at, latencies = 0.0, []
    # When a caller comes to its next launch, which caller, which launch, when its call began.
    # Callers begin apart, as they would after a while.
    queue = [(number * sum(alone) / callers, number, 0, number * sum(alone) / callers)
             for number in range(callers)]
    while len(latencies) < CALLS * callers:
        now, caller, launch, began = heapq.heappop(queue)
        if launch == len(together):
            latencies.append(now - began)
            heapq.heappush(queue, (now, caller, 0, now))
        elif free_at <= now:
            free_at = now + together[launch]
            heapq.heappush(queue, (free_at, caller, launch + 1, began))
        else:
            heapq.heappush(queue, (now + alone[launch], caller, launch + 1, began))
    return latencies, now


def main():
    parser = parser_beside(__doc__)
    parser.add_argument("shape")
    parser.add_argument("--callers", default="1,2,4,8,16")
    parser.add_argument("--memory-bandwidth", type=float)
    parser.set_defaults(threads=64)
    arguments = parser.parse_args()
    threads, callers = arguments.threads, list(map(int, arguments.callers.split(",")))
    session = OnnxRuntime(arguments.model, 1).session
    feeds = made_up(session.get_inputs(), shape_of(arguments.shape))
    counts = sorted({1, threads} | {count for many in callers for count in slices(threads, many)})
    with tempfile.TemporaryDirectory() as folder:
        launches = modelled_launches(
            programs_of(arguments)[0], arguments.model, feeds, counts, folder,
            arguments.memory_bandwidth)
    print(f"| callers | slices of {threads} threads: calls/s | median, slowest ms | one launch at a time: calls/s | median, slowest ms |\n|---|---|---|---|---|")
    for many in callers:
        each = sliced(launches, threads, many)
        latencies, lasted = one_at_a_time(launches, threads, many)
        print(f"| {many} | {sum(1 / one for one in each):.0f} | {1e3 * statistics.median(each):.2f}, "
              f"{1e3 * max(each):.2f} | {len(latencies) / lasted:.0f} | "
              f"{1e3 * statistics.median(latencies):.2f}, {1e3 * max(latencies):.2f} |")


if __name__ == "__main__":
    main()
