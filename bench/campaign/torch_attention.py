"""Median time of PyTorch's scaled_dot_product_attention at shapes read as JSON from standard input: the fastest of its backends, replayed in a graph."""
import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
CALLS, REPETITIONS = 4, 15


def median_us(backend, operands):
    def call():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(*operands)

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    times = []
    for _ in range(REPETITIONS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / CALLS)
    return sorted(times)[REPETITIONS // 2]


def main():
    rows = []
    for batch, heads, length, head in json.load(sys.stdin):
        operands = [torch.randn(batch, heads, length, head, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        times = {}
        for backend in BACKENDS:
            try:
                times[backend.name] = median_us(backend, operands)
            except RuntimeError:
                torch.cuda.synchronize()  # this backend does not serve the shape
        if times:
            best = min(times, key=times.get)
            rows.append({"batch": batch, "heads": heads, "length": length, "head": head, "median_us": times[best], "backend": best})
    json.dump(rows, sys.stdout)


main()
