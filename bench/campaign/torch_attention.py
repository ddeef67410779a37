"""Median time of PyTorch's attention in bf16 at shapes read as JSON from standard input, replayed in a graph: the fastest of its fused backends where lengths
are equal, its attention over sequences laid end to end where they are not. Writes after each shape what it has, so that a limit of time loses nothing."""
import itertools
import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
CALLS, REPETITIONS = 4, 15


def median_us(call):
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


def equal_calls(shape):
    operands = [torch.randn(shape["batch"], shape["heads"], shape["length"], shape["head"], device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def run(backend):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(*operands)

    return {backend.name: lambda backend=backend: run(backend) for backend in BACKENDS}


def ragged_calls(shape):
    lengths = shape["lengths"]
    operands = [torch.randn(sum(lengths), shape["heads"], shape["head"], device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    offsets = torch.tensor([0, *itertools.accumulate(lengths)], device="cuda", dtype=torch.int32)
    longest = max(lengths)
    calls = {"flash varlen": lambda: torch.ops.aten._flash_attention_forward(*operands, offsets, offsets, longest, longest, 0.0, False, False)}
    try:
        from torch.nn.attention.varlen import varlen_attn
        calls["varlen_attn"] = lambda: varlen_attn(*operands, offsets, offsets, longest, longest)
    except ImportError:
        pass  # an older PyTorch
    return calls


def main():
    for shape in json.load(sys.stdin):
        times, refusals = {}, {}
        for name, call in (ragged_calls(shape) if "lengths" in shape else equal_calls(shape)).items():
            try:
                times[name] = median_us(call)
            except (RuntimeError, TypeError) as error:  # this backend does not serve the shape, or this PyTorch has another signature
                refusals[name] = str(error).split("\n", 1)[0][:200]
                torch.cuda.synchronize()
        best = min(times, key=times.get, default=None)
        print(json.dumps({**shape, "median_us": times.get(best), "backend": best, "refused": refusals}), flush=True)


main()
