"""The cost model beside what is counted: for every kernel of a model's default tables (padded and
packed, bf16 and f32), cycles of a multiprocessor that its schedulers, its tensor cores and its
share of the L2 cache are busy for, as the model has them and as the machine code and its traffic
say. No GPU runs.

  cuda_counts.py MODEL [--part h200] [--program build/release/bin/cuda_counts]

Counted: warps of a few blocks of each launch are followed through the kernel's SASS (lanes.py), at
a size in the middle of its bucket. Issue: instructions, a quarter of a cycle each (the special
function unit's keep a scheduler's lanes for 8 cycles, and count so). Tensor: multiplications at the
data sheet's rate. Memory: bytes of loads, boxes and stores, of all lanes that take part (once where
all have the same address, by sectors of 32 bytes where they lie apart), at the cost model's
rate."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import lanes
import sass

SPECIAL = 8  # cycles that an instruction of the special function unit keeps a scheduler's lanes
SAMPLES = 5  # clusters of blocks of a launch that are followed
SEQUENCE_SAMPLES = 48  # where rows of several sequences lie end to end: some blocks have no work
GOLDEN = (5**0.5 - 1) / 2
# Bytes of an element, and its bits where it is a number: 1.
ELEMENTS = {"bool": (1, 0), "i8": (1, 0), "u8": (1, 0), "i16": (2, 0), "u16": (2, 0), "i32": (4, 0),
            "u32": (4, 0), "i64": (8, 0), "u64": (8, 0), "f16": (2, 0x3C00), "bf16": (2, 0x3F80),
            "f32": (4, 0x3F800000), "f64": (8, 0x3FF << 52)}
SPREAD = 7919  # a prime: of neighbouring indices, so that they choose rows apart from each other
BUFFER = 1 << 36  # address of the first, and between two
NEAR = 0.15
SMALL = 0.1  # of a kernel's longest: less is not looked at


def memory_of(kernel):
    """What is read of buffers: extents, offsets of sequences and the order of their work, indices
    spread over what they choose from; numbers are 1, and anything else 0."""
    buffers = kernel["buffers"]
    segments = kernel["segments"]

    def element(number, at):
        buffer = buffers[number]
        if segments and number == segments["offsets"]:
            return min(at, segments["count"]) * segments["rows"]
        if segments and number == segments["work"]:
            return at // 2 if at % 2 == 0 else at // 2 * segments["rows"]
        if buffer["below"]:
            return at * SPREAD % buffer["below"]
        return ELEMENTS[buffer["dtype"]][1]

    def memory(address, size):
        number, offset = address // BUFFER - 1, address % BUFFER
        if number == len(buffers):
            at = offset // 8
            extents = kernel["extents"]
            value = extents[at] if at < len(extents) else 0
            return value >> offset % 8 * 8
        if not 0 <= number < len(buffers):
            return 0
        item = ELEMENTS[buffers[number]["dtype"]][0]
        first = offset // item
        value = sum(element(number, first + i) << 8 * item * i
                    for i in range(max(1, size // item)))
        return value >> offset % item * 8

    return memory


def warps_of(kernel, threads):
    """Warps that are followed, each with how many it stands for: of each warpgroup the first, which
    may do what others do not, and the next; of kernels that stream, whose last warps may have
    nothing to do, all."""
    warps = threads // 32
    if kernel["schedule"].split()[0] in ("map", "rows"):
        yield from ((warp, 1) for warp in range(warps))
        return
    for first in range(0, warps, 4):
        last = min(first + 4, warps)
        yield first, 1
        if last > first + 1:
            yield first + 1, last - first - 1


def counted(kernel, launch, code):
    buffers = len(kernel["buffers"])
    constants = {}

    def parameter(number, value):
        for i in range(2):
            constants[sass.CONSTANTS + 8 * number + 4 * i] = value >> 32 * i & sass.MASK

    for number in range(buffers + 3):  # and extents, the error's slot, the workspace
        parameter(number, BUFFER * (number + 1))
    first_map = (sass.CONSTANTS + 8 * (buffers + 3) + 63) // 64 * 64
    constants[sass.BASE] = sass.CONSTANTS
    threads, cluster, grid = launch["threads"], launch["cluster"], launch["grid"]
    for offset, value in {0x0: threads, 0x4: 1, 0x8: 1, 0xc: grid, 0x10: 1, 0x14: 1}.items():
        constants[offset] = value
    memory = memory_of(kernel)

    def boxes(address):
        number = (address - first_map) // 128
        if not 0 <= number < len(launch["boxes"]):
            raise sass.Unknown(f"a tensor map at {address:#x}, and the first lies at {first_map:#x}")
        return launch["boxes"][number]

    total = Counter()
    clusters = grid // cluster
    if kernel["segments"]:  # whether a block has work follows a pattern: no equal distances
        chosen = sorted({int((i + 0.5) * GOLDEN % 1 * clusters) for i in range(SEQUENCE_SAMPLES)})
    else:
        chosen = sorted({(2 * i + 1) * clusters // (2 * SAMPLES) for i in range(SAMPLES)})
    for number in chosen:
        for rank in range(cluster):
            read = set()
            for warp, stands_for in warps_of(kernel, threads):
                place = {"SR_TID.X": 32 * warp, "SR_CTAID.X": number * cluster + rank,
                         "SR_CgaCtaId": rank}
                counts = lanes.follow(code, place, constants, memory, boxes, read)
                for name, count in counts.items():
                    total[name] += count * stands_for
    scale = clusters / len(chosen)
    return {name: count * scale for name, count in total.items()}


def cycles_of(arguments):
    kernel, disassembler = arguments
    text = subprocess.run([disassembler, "-c", kernel["cubin"]], capture_output=True, text=True,
                          check=True).stdout
    entries = sass.Code(text).entries
    counts = Counter()
    for launch in kernel["launches"]:
        if launch["grid"] == 0:
            continue
        try:
            counts.update(counted(kernel, launch, entries[launch["entry"]]))
        except (sass.Unknown, KeyError, ValueError, AttributeError, IndexError, TypeError) as error:
            return kernel, None, f"{launch['entry']}: {type(error).__name__} {error}"
    multiprocessors = kernel["multiprocessors"]
    return kernel, {
        "issue": (counts["issued"] + (SPECIAL - 1) * counts["special"]) / 4 / multiprocessors,
        "tensor": counts["flops"] / kernel["tensor_flops"] / multiprocessors,
        "memory": (counts["loaded"] + counts["stored"]) / kernel["l2_bytes_per_clock"] /
                  multiprocessors}, None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--part", default="h200")
    parser.add_argument("--program", default="build/release/bin/cuda_counts")
    parser.add_argument("--only", default="", help="kernels whose schedule has this word")
    options = parser.parse_args()
    disassembler = os.environ.get("ANYDIM_NVDISASM", "nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        lines = subprocess.run([options.program, options.model, options.part, folder, options.only],
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        kernels = [json.loads(line) for line in lines.splitlines()]
        with ProcessPoolExecutor(2) as pool:
            results = list(pool.map(cycles_of, [(each, disassembler) for each in kernels]))
    print("| kernel | rows | schedule | issue: model, counted | tensor | memory | off |")
    print("|---|---|---|---|---|---|---|")
    far = 0
    for kernel, cycles, fault in results:
        label = (f"{kernel['precision']}{' packed' if kernel['packed'] else ''} {kernel['region']} | "
                 f"{' x '.join(map(str, kernel['keys']))} | `{kernel['schedule']}`")
        if fault:
            print(f"| {label} | {fault} | | | |")
            far += 1
            continue
        cells, off = [], []
        longest = max(*cycles.values(), *kernel["model"].values())
        for name in ("issue", "tensor", "memory"):
            model, found = kernel["model"][name], cycles[name]
            digits = 1 if longest < 100 else 0
            cells.append(f"{model:.{digits}f}, {found:.{digits}f}")
            if max(model, found) > SMALL * longest and abs(model - found) > NEAR * found:
                off.append(f"{name} {model / found if found else float('inf'):.2f}")
        far += bool(off)
        print(f"| {label} | {' | '.join(cells)} | {', '.join(off)} |")
    print(f"\n{len(results)} kernels, {len(results) - far} within {NEAR:.0%} in each of the three")
    return 0


if __name__ == "__main__":
    sys.exit(main())
