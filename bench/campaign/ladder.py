"""The ladder's rungs, the cases of each, and the sweeps that follow. Models are texts; weights and inputs come from generators."""

import json
import pathlib
import random

from encoder import encoder

PRIMITIVES = pathlib.Path(__file__).resolve().parent / "primitives"
MATMUL_PAIRS = [(1152, 384), (384, 384), (1536, 384), (384, 1536), (2304, 768), (768, 768), (3072, 768), (768, 3072)]  # (N, K)
MATMUL_ROWS = [1, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192]
LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096]

MAP = """fn @main(%x: Tensor[(n, 96), DTYPE], %y: Tensor[(n, 96), DTYPE]) where n in [0, 65536] {
  %s = add(%x, %y)
  %t = tanh(%s)
  %z = mul(%t, %x)
  return %z
}
"""
REDUCE = """fn @main(%x: Tensor[(n, w), f32]) where n in [0, 65536], w in [1, 8192] {
  %p = softmax(%x) {axis = -1}
  %m = reduce_mean(%x) {axes = (1), keepdims = 1}
  %c = sub(%x, %m)
  %q = mul(%c, %c)
  %v = reduce_mean(%q) {axes = (1)}
  return %p, %v
}
"""
GATHER = """fn @main(%ids: Tensor[(b, s), i64]) where b in [0, 1024], s in [1, 512] {
  %table = constant(f32 (50, 64) @random(1))
  %x = gather(%table, %ids) {axis = 0}
  return %x
}
"""
MATMUL = """fn @main(%x: Tensor[(m, K), DTYPE]) where m in [0, 65536] {
  %w = constant(DTYPE (K, N) @random(1))
  %b = constant(DTYPE (N) @random(2))
  %p = matmul(%x, %w)
  %y = add(%p, %b)
  return %y
}
"""
ATTENTION = """fn @main(%q: Tensor[(b, 3, s, D), DTYPE], %k: Tensor[(b, 3, s, D), DTYPE], %v: Tensor[(b, 3, s, D), DTYPE])
  where b in [0, 1024], s in [1, 4096] {
  %qw = cast(%q) {to = f32}
  %kw = cast(%k) {to = f32}
  %vw = cast(%v) {to = f32}
  %yw = attention(%qw, %kw, %vw) {scale = 0.125}
  %y = cast(%yw) {to = DTYPE}
  return %y
}
"""
CHAIN = """fn @main(%x: Tensor[(m, 64), f32]) where m in [0, 65536] {
  %w = constant(f32 (64, 64) @random(1))
  %a = matmul(%x, %w)
  %p = softmax(%a) {axis = -1}
  %b = matmul(%p, %w)
  %q = softmax(%b) {axis = -1}
  return %q
}
"""


def program(name, text, inputs, tolerance=1e-4, **more):
    return {"id": name, "kind": "program", "text": text, "inputs": inputs, "tolerance": tolerance, **more}


def rows(count, *rest):
    return {"dims": [count, *rest]}


def matmul_cases(rung, schedule, shapes, dtype="bf16"):
    for m, n, k in shapes:
        text = MATMUL.replace("DTYPE", dtype).replace("K", str(k)).replace("N", str(n))
        for checked in (True, False):
            yield program(f"{rung}/{dtype}/{m}x{n}x{k}{'/checked' if checked else ''}", text, {"x": rows(m, k)}, 0.02 if dtype != "f32" else 1e-4,
                          schedule=schedule, checked=checked)


def attention_cases(rung, schedule, lengths, heads, dtype="bf16"):
    for head in heads:
        text = ATTENTION.replace("DTYPE", dtype).replace("D)", f"{head})")
        for length in lengths:
            inputs = {name: rows(2, 3, length, head) for name in "qkv"}
            for checked in (True, False):
                yield program(f"{rung}/{dtype}/{length}x{head}{'/checked' if checked else ''}", text, inputs, 0.02, schedule=schedule, checked=checked)


# Sizes around the edges of every tile: one row, and one before, at and past a tile.
EDGES = [1, 7, 63, 64, 65, 127, 129]


def rungs():
    """(name, rungs that it needs, cases), in order."""
    yield "map", ["empty"], [program(f"map/{dtype}/{n}", MAP.replace("DTYPE", dtype), {"x": rows(n, 96), "y": rows(n, 96)}, 0.01 if dtype != "f32" else 1e-5)
                             for dtype in ("f32", "bf16", "f16") for n in (1, 33, 1000)]
    yield "gather", ["map"], [program(f"gather/{b}x{s}", GATHER, {"ids": {"dims": [b, s], "below": 50}}) for b, s in ((1, 1), (3, 17))]
    yield "reduce", ["map"], [program(f"reduce/{n}x{w}", REDUCE, {"x": rows(n, w)}) for n, w in ((1, 1), (5, 31), (64, 384), (17, 1025))]
    yield "matmul_simt", ["map"], list(matmul_cases("matmul_simt", "matmul_simt", [(1, 64, 64), (65, 80, 96)], "f32"))
    yield "matmul_mma", ["map"], list(matmul_cases("matmul_mma", "matmul_mma", [(m, 96, 160) for m in EDGES]))
    yield "attention_mma", ["matmul_mma", "reduce"], list(attention_cases("attention_mma", "attention_mma", (1, 17, 64, 100), (32, 64)))
    yield "wgmma_tile", ["matmul_mma"], list(matmul_cases("wgmma_tile", "matmul_wgmma persistent=0 swap=0 split=1", [(64, 64, 64)]))
    yield "ring", ["wgmma_tile"], list(matmul_cases("ring", "matmul_wgmma persistent=0 swap=0 split=1", [(m, 128, k) for m in EDGES for k in (64, 448, 768)]))
    yield "swapped", ["ring"], list(matmul_cases("swapped", "matmul_wgmma swap=1", [(m, 192, 384) for m in (1, 7, 8, 9, 31)]))
    yield "persistent", ["ring"], list(matmul_cases("persistent", "matmul_wgmma persistent=1", [(m, 384, 256) for m in (65, 1000, 4100)]))
    yield "split_k", ["ring"], list(matmul_cases("split_k", "matmul_wgmma split=2", [(m, 128, 1536) for m in (1, 65, 129)]))
    yield "attention_wgmma", ["ring", "attention_mma"], list(attention_cases("attention_wgmma", "attention_wgmma", (1, 65, 200), (64, 128)))
    yield "dependent", ["map", "reduce", "matmul_simt"], [program(f"dependent/{m}", CHAIN, {"x": rows(m, 64)}, passes=1) for m in (1, 65, 1000)]
    yield "graph", ["map", "reduce", "matmul_mma"], [program(f"graph/{m}", CHAIN, {"x": rows(m, 64)}, passes=6) for m in (1, 63, 65, 1000)]


def matmul_sweep(passed):
    for n, k in MATMUL_PAIRS:
        for m in (MATMUL_ROWS[:8], MATMUL_ROWS[8:]):
            yield {"id": f"matmul/{n}x{k}/{m[0]}", "kind": "matmul", "n": n, "k": k, "m": m, "cublas": True, "needs": ["matmul_mma"]}
    for size in (4096, 8192):
        yield {"id": f"matmul/square/{size}", "kind": "matmul", "n": size, "k": size, "m": [size], "cublas": True, "copies": 1, "needs": ["ring"]}


def attention_sweep(passed):
    for head in (32, 64, 128):
        for length in LENGTHS:
            heads, batch = 12, max(1, 65536 // (12 * length) * 2)
            yield {"id": f"attention/{head}/{length}", "kind": "attention", "shapes": [[batch, heads, length, head]], "needs": ["attention_mma"]}


def ragged_lengths(mean, rows=65536):
    """Uniform between 1 and twice the mean, so that the longest is about twice the mean; the same on every machine."""
    draw = random.Random(mean)
    return [1 + int(draw.random() * 2 * mean) for _ in range(rows // mean)]


def ragged_sweep(passed):
    """As many rows as the equal lengths have, in sequences of different lengths laid end to end."""
    for head in (32, 64, 128):
        for mean in (32, 128, 512, 2048):
            yield {"id": f"ragged/{head}/{mean}", "kind": "attention", "ragged": [{"heads": 12, "head": head, "lengths": ragged_lengths(mean)}],
                   "needs": ["attention_mma"]}


def calls_sweep(passed):
    """What a call and each of its launches cost beside the kernels: chains of kernels over one row, each too small to matter. A softmax along the other axis
    is one that fusion cannot join."""
    for kernels in (1, 10, 100):
        lines = [f"  %x{i + 1} = softmax(%x{i}) {{axis = {i % 2}}}" for i in range(kernels)]
        text = "\n".join(["fn @main(%x0: Tensor[(n, m), f32]) where n in [0, 4096], m in [0, 4096] {", *lines, f"  return %x{kernels}", "}", ""])
        sizes = [{"x0": {"dims": dims}} for dims in ([1, 1], [2, 2], [64, 64])]
        yield program(f"calls/{kernels}", text, sizes[0], compare=False, sizes=sizes, repetitions=101, needs=["graph"])


def matrix_sweep(passed):
    """latency[schedule][shape]: first what the cost model would choose among, then each of them at every size."""
    for n, k in MATMUL_PAIRS:
        yield {"id": f"matrix/{n}x{k}", "kind": "schedules", "n": n, "k": k, "m": MATMUL_ROWS, "top": 3, "needs": ["matmul_mma"], "expands": True}


def matrix_cases(case, result):
    """Cases that follow from the answer to one of matrix_sweep."""
    for schedule, shapes in result.get("schedules", {}).items():
        yield {"id": f"{case['id']}/{schedule}", "kind": "matmul", "n": case["n"], "k": case["k"], "m": sorted({each["m"] for each in shapes}),
               "schedule": schedule, "repetitions": 9, "needs": case["needs"]}


def texts(batch, length, below):
    """Ids and mask of texts whose lengths are uniform between 1 and that of the longest, the same on every machine; a server computes no padding."""
    draw = random.Random(batch * 4096 + length)
    lengths = [length] + [1 + int(draw.random() * length) for _ in range(batch - 1)]
    return {"ids": {"dims": [batch, length], "below": below}, "mask": {"dims": [batch, length], "lengths": lengths}}


def model_sweep(passed):
    """Over packed rows. First a small encoder that the reference evaluator can follow, then the real sizes, timed."""
    yield program("models/small", encoder(2, 64, 2, 128, 97), texts(2, 9, 97), 0.05, packed=True, needs=["graph"])
    for name, sizes in (("minilm", (6, 384, 12, 1536, 30522)), ("bert_base", (12, 768, 12, 3072, 30522))):
        shapes = [texts(*dims, 30522) for dims in ((1, 16), (1, 128), (8, 128), (32, 64), (32, 128), (64, 512))]
        yield program(f"models/{name}", encoder(*sizes), shapes[0], compare=False, packed=True, time=True, sizes=shapes, needs=["graph", "attention_mma"])


def primitive_cases(folder, capability):
    for primitive in json.loads((PRIMITIVES / "primitives.json").read_text(encoding="utf8")):
        if capability >= primitive.pop("capability", 80):
            yield {"id": f"primitives/{primitive['name']}", "kind": "raw", "source": str(PRIMITIVES / f"{primitive['name']}.cu"), "folder": str(folder), **primitive}
