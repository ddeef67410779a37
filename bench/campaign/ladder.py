"""The ladder's rungs, the cases of each, and the sweeps that follow. Models are texts; weights and
inputs come from generators."""

import json
import pathlib
import random

from encoder import encoder

PRIMITIVES = pathlib.Path(__file__).resolve().parent / "primitives"
# Results of models, made on a CPU (expected.py).
EXPECTED = pathlib.Path(__file__).resolve().parent / "expected"
# (N, K), and layers of the model that has it: as many weights take turns.
MATMUL_PAIRS = [
    *((n, k, 6) for n, k in ((1152, 384), (384, 384), (1536, 384), (384, 1536))),
    *((n, k, 12) for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072)))]
MATMUL_ROWS = [1, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192]
LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096]
MEANS = [32, 128, 512, 2048]  # of sequences laid end to end
HEADS = [32, 64, 128]  # their dims
SQUARES = [4096, 8192]
# About how many rows all sequences have together where they are laid end to end, and all heads of
# equal ones; heads.
ROWS_OF_ATTENTION = [65536, 12]
CHAINS = [1, 10, 100]  # launches of a call of tiny kernels
CASE_FIELDS = {}  # of every case of a sweep
# What a first contact measures of each part, and what comes first at any time: (M, N, K, layers);
# (head, length); (head, mean); (model, texts, longest).
HEADLINES = {
    "matmul": [(16, 768, 768, 12), (512, 3072, 768, 12), (4096, 768, 3072, 12),
               (4096, 4096, 4096, 1)], "attention": [(64, 512), (64, 128), (32, 128), (128, 2048)],
    "ragged": [(64, 512), (64, 128), (32, 32), (128, 2048)], "models": [("minilm", 1, 16),
                                                                        ("minilm", 32, 128),
                                                                        ("bert_base", 1, 128),
                                                                        ("bert_base", 32, 128)]}

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
MATMUL = """fn @main(%x: Tensor[(m, K), DTYPE]) where m in [LOW, 65536] {
  %w = constant(DTYPE (K, N) @random(1))
  %b = constant(DTYPE (N) @random(2))
  %p = matmul(%x, %w)
  %y = add(%p, %b)
  return %y
}
"""
# Operands of 16 bits are multiplied in f32.
WIDE_MATMUL = """fn @main(%x: Tensor[(m, K), DTYPE]) where m in [LOW, 65536] {
  %w = constant(DTYPE (K, N) @random(1))
  %b = constant(f32 (N) @random(2))
  %xw = cast(%x) {to = f32}
  %ww = cast(%w) {to = f32}
  %p = matmul(%xw, %ww)
  %y = add(%p, %b)
  return %y
}
"""
ATTENTION = """fn @main(%q: Tensor[(b, 3, s, D), DTYPE], %k: Tensor[(b, 3, s, D), DTYPE], \
%v: Tensor[(b, 3, s, D), DTYPE])
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
    return {
        "id": name, "kind": "program", "text": text, "inputs": inputs, "tolerance": tolerance,
        **more}


def rows(count, *rest):
    return {"dims": [count, *rest]}


def matmul_cases(rung, schedule, shapes, dtype="bf16", template=MATMUL, least=0):
    """Each first as its checked form. `least`: rows that the program is declared for, which decides
    what the cost model has to choose among."""
    for m, n, k in shapes:
        text = template.replace("DTYPE",
                                dtype).replace("K",
                                               str(k)).replace("N",
                                                               str(n)).replace("LOW", str(least))
        for checked in (True, False):
            yield program(
                f"{rung}/{dtype}/{m}x{n}x{k}{'/wide' if template is WIDE_MATMUL else ''}{'/checked' if checked else ''}",
                text, {"x": rows(m, k)}, 0.02 if dtype != "f32" else 1e-4, schedule=schedule,
                checked=checked)


def attention_cases(rung, schedule, lengths, heads, dtype="bf16", batch=2):
    for head in heads:
        text = ATTENTION.replace("DTYPE", dtype).replace("D)", f"{head})")
        for length in lengths:
            # Scores that differ.
            inputs = {name: {**rows(batch, 3, length, head), "times": 32} for name in "qkv"}
            for checked in (True, False):
                yield program(f"{rung}/{dtype}/{length}x{head}{'/checked' if checked else ''}",
                              text, inputs, 0.02, schedule=schedule, checked=checked)


# Sizes around the edges of every tile: one row, and one before, at and past a tile.
EDGES = [1, 7, 63, 64, 65, 127, 129]


# What schedules do on a GPU that something else does not: (rungs that show it, the last of which
# must have passed before anything else may do it; filters of the schedules that do it).
FEATURES = [
    (("matmul_mma",), ["matmul_mma"]),
    (("split_mma",), ["matmul_mma split>1"]),
    (("attention_mma",), ["attention_mma"]),
    (("wgmma_tile", "ring"), ["matmul_wgmma"]),
    # Warpgroups may trade registers.
    (("registers",), ["matmul_wgmma bm=128 bn>192", "matmul_wgmma blocks>1"]),
    (("swap_ab",), ["matmul_wgmma swap_ab=1"]),
    (("persistent",), ["matmul_wgmma persistent=1"]),
    (("tma_store",), ["matmul_wgmma tma_store>0"]),
    (("fragments",), ["matmul_wgmma fragments>0"]),
    (("pingpong",), ["matmul_wgmma pingpong>0"]),
    (("split_k",), ["matmul_wgmma split>1"]),
    (("multicast_columns",), ["matmul_wgmma multicast_columns>1"]),
    (("multicast_rows",), ["matmul_wgmma multicast_rows>1"]),
    (("attention_wgmma",), ["attention_wgmma"]),
    (("attention_turns",), ["attention_wgmma pingpong>0"]),
    (("attention_persistent",), ["attention_wgmma persistent=1"]),
]
# Rungs whose schedules wait for barriers, and so have a checked form that gives up: what may use
# them is run as its checked form first.
WAITING = {"wgmma_tile", "attention_wgmma"}


def avoided(passed, rung=None):
    """Filters of the schedules that a case must not get, on the rung it stands on or in a sweep."""
    return [
        each for names, filters in FEATURES if rung not in names and names[-1] not in passed
        for each in filters]


def unit_kernels(rung, names, capability):
    known = {each["case"]["name"]: each for each in unit_kernel_cases(capability)}
    return [{**known[name]["case"], "id": f"{rung}/{name}"} for name in names if name in known]


def rungs(capability):
    """(name, rungs that it needs, cases), in order; `capability`: 90 for a device of compute
    capability 9.0."""
    yield "map", ["empty"], [
        program(f"map/{dtype}/{n}", MAP.replace("DTYPE", dtype),
                {"x": rows(n, 96), "y": rows(n, 96)}, 0.01 if dtype != "f32" else 1e-5)
        for dtype in ("f32", "bf16", "f16")
        for n in (1, 33, 1000)]
    yield "gather", ["map"], [
        program(f"gather/{b}x{s}", GATHER, {"ids": {"dims": [b, s], "below": 50}})
        for b, s in ((1, 1), (3, 17))]
    yield "reduce", ["map"], [
        program(f"reduce/{n}x{w}", REDUCE, {"x": rows(n, w)})
        for n, w in ((1, 1), (5, 31), (64, 384), (17, 1025))]
    yield "matmul_simt", ["map"], list(
        matmul_cases("matmul_simt", "matmul_simt", [(1, 64, 64), (65, 80, 96)], "f32"))
    yield "matmul_mma", ["map"], list(
        matmul_cases("matmul_mma", "matmul_mma", [(m, 96, 160) for m in EDGES]))
    yield "attention_mma", ["matmul_mma", "reduce"], list(
        attention_cases("attention_mma", "attention_mma", (1, 17, 64, 100), (32, 64)))
    yield "tma", ["map"], unit_kernels("tma", ("tma_load", "tma_store"), capability)
    yield "cluster", ["map"], unit_kernels("cluster", ("cluster",), capability)
    yield "wgmma_tile", ["matmul_mma", "tma"], list(
        matmul_cases("wgmma_tile", "matmul_wgmma persistent=0 swap_ab=0 split=1", [(64, 64, 64)]))
    yield "ring", ["wgmma_tile"], list(
        matmul_cases("ring", "matmul_wgmma persistent=0 swap_ab=0 split=1",
                     [(m, 128, k) for m in EDGES for k in (64, 448, 768)]))
    yield "registers", ["ring"], [
        *matmul_cases("registers", "matmul_wgmma bm=64 blocks=3", [
            (m, 192, 256) for m in (65, 200)]),
        *matmul_cases("registers", "matmul_wgmma bm=128 bn=256", [(1030, 256, 256)], least=1024)]
    yield "swap_ab", ["ring"], list(
        matmul_cases("swap_ab", "matmul_wgmma swap_ab=1",
                     [(m, 192, 384) for m in (1, 7, 8, 9, 31)]))
    yield "persistent", ["ring"], list(
        matmul_cases("persistent", "matmul_wgmma persistent=1",
                     [(m, 384, 256) for m in (65, 1000, 4100)]))
    yield "tma_store", ["ring"], [
        case for template in (MATMUL, WIDE_MATMUL)
        for case in matmul_cases("tma_store", "matmul_wgmma tma_store>0 swap_ab=0", [(
            m, 128, 256) for m in sorted(EDGES, key=lambda m: m != 65)], template=template)]
    yield "fragments", ["tma_store"], list(
        matmul_cases("fragments", "matmul_wgmma fragments>0",
                     [(m, n, 256) for m in (1, 65, 200) for n in (72, 256)]))
    yield "pingpong", ["persistent"], list(
        matmul_cases("pingpong", "matmul_wgmma pingpong>0",
                     [(m, 384, 256) for m in (65, 1000, 20000)]))
    yield "split_mma", ["cluster", "matmul_mma"], list(
        matmul_cases("split_mma", "matmul_mma split>1", [(m, 64, 1024) for m in (1, 17, 65)]))
    yield "split_k", ["cluster", "ring"], list(
        matmul_cases("split_k", "matmul_wgmma split=2", [(m, 128, 1536) for m in (1, 65, 129)]))
    yield "tma_multicast", ["cluster", "tma"], unit_kernels("tma_multicast", ("tma_multicast",),
                                                            capability)
    yield "multicast_columns", ["tma_multicast", "ring"], list(
        matmul_cases("multicast_columns", "matmul_wgmma multicast_columns=2",
                     [(m, 192, 256) for m in (513, 1000)], least=512))
    yield "multicast_rows", ["tma_multicast", "ring"], list(
        matmul_cases("multicast_rows", "matmul_wgmma multicast_rows=2",
                     [(m, 256, 256) for m in (1, 65, 200)]))
    yield "attention_wgmma", ["ring", "attention_mma"], list(
        attention_cases("attention_wgmma", "attention_wgmma", (1, 65, 200), (64, 128)))
    yield "attention_turns", ["attention_wgmma"], list(
        attention_cases("attention_turns", "attention_wgmma pingpong>0", (65, 600), (64, 128)))
    # More places than a GPU has blocks at a time.
    yield "attention_persistent", ["attention_turns"], list(
        attention_cases("attention_persistent", "attention_wgmma persistent=1", (129,),
                        (64, 128), batch=30))
    yield "dependent", ["map", "reduce", "matmul_simt"], [
        program(f"dependent/{m}", CHAIN, {"x": rows(m, 64)}, passes=1) for m in (1, 65, 1000)]
    yield "graph", ["map", "reduce", "matmul_mma"], [
        program(f"graph/{m}", CHAIN, {"x": rows(m, 64)}, passes=6) for m in (1, 63, 65, 1000)]


def rehearse():
    """Shapes of every part that the interpreter computes in seconds, in place of those that mean
    something on a GPU."""
    MATMUL_PAIRS[:], MATMUL_ROWS[:], SQUARES[:], LENGTHS[:], MEANS[:], HEADS[:] = [
        (64, 64, 2)], [1, 40], [], [20], [8], [32]
    FIT_PAIRS[:], FIT_ROWS[:] = [(64, 64, 2)], [1, 40]
    HEADLINES.update({
        "matmul": [(40, 64, 64, 2)], "attention": [(32, 20)], "ragged": [(32, 8)],
        "models": [("small", 2, 9)]})
    ROWS_OF_ATTENTION[:], CHAINS[:] = [64, 2], [1, 3]
    for name in [each for each in MODELS if each != "small"]:
        del MODELS[name]
    CASE_FIELDS.update({"policy": "symbolic", "repetitions": 1})


def first_cases(cases):
    """Of a rung: one of each schedule that it asks for, with its checked form, and every unit
    kernel."""
    chosen, met = [], set()
    for case in cases:
        kind = (case.get("schedule"), case.get("name"), case.get("checked"))
        if kind not in met:
            met.add(kind)
            chosen.append(case)
    return chosen


def checked_form(case):
    """A sweep's case as its checked form, once and without what it is timed against; None where it
    has none."""
    if case["kind"] not in ("program", "matmul", "attention"):
        return None
    return {
        **case, "id": f"{case['id']}/checked", "checked": True, "cublas": False,
        "cache_extremes": False, "copies": 1, "passes": 1, "repetitions": 1}


def matmul_case(name, m, n, k, layers, needs):
    return {
        "id": f"matmul/{name}", "kind": "matmul", "n": n, "k": k, "m": m, "copies": layers,
        "cublas": True, "cache_extremes": True, "needs": needs, **CASE_FIELDS}


def matmul_headlines():
    for m, n, k, layers in HEADLINES["matmul"]:
        yield matmul_case(f"{m}x{n}x{k}", [m], n, k, layers, ["matmul_mma"])


def matmul_sweep():
    for part in (MATMUL_ROWS[::2], MATMUL_ROWS[1::2]):
        for n, k, layers in MATMUL_PAIRS:
            yield matmul_case(f"{n}x{k}/{part[0]}", part, n, k, layers, ["matmul_mma"])
    for size in SQUARES:
        yield matmul_case(f"square/{size}", [size], size, size, 1, ["ring"])


def headlines_first(part, rest):
    return [*HEADLINES[part], *(each for each in rest if each not in HEADLINES[part])]


def attention_case(head, length):
    rows, heads = ROWS_OF_ATTENTION
    batch = max(1, rows // (heads * length) * 2)
    return {
        "id": f"attention/{head}/{length}", "kind": "attention",
        "shapes": [[batch, heads, length, head]], "needs": ["attention_mma"], **CASE_FIELDS}


def attention_sweep(first=False):
    shapes = headlines_first("attention", [(head, length) for head in HEADS for length in LENGTHS])
    return [
        attention_case(*each) for each in shapes[:len(HEADLINES["attention"]) if first else None]]


def ragged_lengths(mean):
    """Uniform between 1 and twice the mean, so that the longest is about twice the mean; the same
    on every machine."""
    draw = random.Random(mean)
    return [1 + int(draw.random() * 2 * mean) for _ in range(ROWS_OF_ATTENTION[0] // mean)]


def ragged_case(head, mean):
    """Sequences laid end to end, right after equal ones of the mean length that cost as many
    multiplications."""
    lengths = ragged_lengths(mean)
    equal = round(sum(length ** 2 for length in lengths) / mean ** 2)
    heads = ROWS_OF_ATTENTION[1]
    return {
        "id": f"ragged/{head}/{mean}", "kind": "attention", "shapes": [[equal, heads, mean, head]],
        "ragged": [{"heads": heads, "head": head,
                    "lengths": lengths}], "needs": ["attention_mma"], **CASE_FIELDS}


def ragged_sweep(first=False):
    shapes = headlines_first("ragged", [(head, mean) for head in HEADS for mean in MEANS])
    return [ragged_case(*each) for each in shapes[:len(HEADLINES["ragged"]) if first else None]]


def torch_sweep(first=False):
    """PyTorch's attention at the same shapes, each case after one of ours."""
    for case in (*attention_sweep(first), *ragged_sweep(first)):
        shapes = [
            dict(zip(("batch", "heads", "length", "head"), shape)) for shape in case["shapes"]]
        yield {
            "id": f"torch/{case['id']}", "kind": "attention",
            "shapes": [*shapes, *case.get("ragged", [])]}


def calls_sweep():
    """What a call and each of its launches cost beside the kernels: chains of kernels over one row,
    each too small to matter. A softmax along the other axis is one that fusion cannot join."""
    for kernels in CHAINS:
        lines = [f"  %x{i + 1} = softmax(%x{i}) {{axis = {i % 2}}}" for i in range(kernels)]
        text = "\n".join([
            "fn @main(%x0: Tensor[(n, m), f32]) where n in [0, 4096], m in [0, 4096] {", *lines,
            f"  return %x{kernels}", "}", ""])
        sizes = [{"inputs": {"x0": {"dims": dims}}} for dims in ([1, 1], [2, 2], [64, 64])]
        yield program(f"calls/{kernels}", text, sizes[-1]["inputs"], sizes=sizes, needs=["graph"],
                      **{"repetitions": 101, **CASE_FIELDS})


def matrix_sweep():
    """latency[schedule][shape]: first what the cost model would choose among, then each of them at
    every size."""
    for n, k, layers in MATMUL_PAIRS:
        yield {
            "id": f"matrix/{n}x{k}", "kind": "schedules", "n": n, "k": k, "m": MATMUL_ROWS,
            "copies": layers, "top": 3, "needs": ["matmul_mma"], "expands": True}


def matrix_cases(case, result):
    """Cases that follow from the answer to one of matrix_sweep."""
    for schedule, shapes in result.get("schedules", {}).items():
        yield {
            "id": f"{case['id']}/{schedule}", "kind": "matmul", "n": case["n"], "k": case["k"],
            "m": sorted({each["m"] for each in shapes}), "copies": case["copies"],
            "schedule": schedule, "needs": case["needs"], **{"repetitions": 9, **CASE_FIELDS}}


FIT_PAIRS = [(1152, 384, 6), (1536, 384, 6), (3072, 768, 12), (768, 3072, 12)]
FIT_ROWS = [16, 128, 512, 2048, 8192]


def fit_sweep():
    """About 40 timings that the cost model's constants are fitted to: its two best at each of five
    sizes of four products."""
    for n, k, layers in FIT_PAIRS:
        yield {
            "id": f"fit/{n}x{k}", "kind": "schedules", "n": n, "k": k, "m": FIT_ROWS,
            "copies": layers, "top": 2, "needs": ["matmul_mma"], "expands": True}


CPU_THREADS = [16, 1, 8, 4, 2]


def cpu_sweep(processors):
    for dims in ((8, 128), (1, 128)):
        for threads in CPU_THREADS:
            if threads <= processors:
                yield {
                    "id": f"cpu/minilm/{dims[0]}x{dims[1]}/{threads}", "kind": "cpu",
                    "model": "minilm", "dims": dims, "threads": threads}


def kinds_of_schedule(passed):
    """Filters of what a warpgroup product may do beyond the least, as far as it has passed."""
    return [
        each for names, filters in FEATURES if names[-1] in passed for each in filters
        if each.startswith("matmul_wgmma ")]


def variant_cases():
    for case in (*matmul_headlines(), *attention_sweep(True), *ragged_sweep(True)):
        yield {**case, "id": f"variants/{case['id']}", "cublas": False, "cache_extremes": False}


def profile_cases():
    """A product that does not fill the device, attention over equal lengths, and over ragged ones
    that are short and shorter, without the equal ones beside them; a call each, since every one is
    replayed for each set of counters."""
    ragged = [{**case, "shapes": []} for case in ragged_sweep(True)[1:3]]
    for case in (list(matmul_headlines())[1], attention_sweep(True)[1], *ragged):
        yield {
            **case, "id": f"profile/{case['id']}", "cublas": False, "cache_extremes": False,
            "copies": 1, "repetitions": 1}


def texts(batch, length, below):
    """Ids and mask of texts whose lengths are uniform between 1 and that of the longest, the same
    on every machine; a server computes no padding."""
    draw = random.Random(batch * 4096 + length)
    lengths = [length] + [1 + int(draw.random() * length) for _ in range(batch - 1)]
    return {
        "ids": {"dims": [batch, length], "below": below},
        "mask": {"dims": [batch, length], "lengths": lengths}}


# (layers, hidden, heads, inner, vocabulary), (texts, longest) of the calls that are timed, rungs
# needed.
MODELS = {
    "small": ((2, 64, 2, 128, 97), ((2, 9), (3, 4)), ["graph"]), "minilm": (
        (6, 384, 12, 1536, 30522), ((1, 16), (1, 128), (8, 128), (32, 64), (32, 128),
                                    (64, 512)), ["graph", "attention_mma"]),
    "bert_base": ((12, 768, 12, 3072, 30522), ((1, 16), (1, 128), (8, 128), (32, 64), (32, 128),
                                               (64, 512)), ["graph", "attention_mma"])}


def model_sweep(first=False, expected=EXPECTED):
    """Over packed rows, every call compared before it is timed: with the reference evaluator where
    that can follow, and with rows of what a CPU gave (expected.py)."""
    for name, (sizes, shapes, needs) in MODELS.items():
        chosen = [dims for dims in shapes
                  if (name, *dims) in HEADLINES["models"]] if first else shapes
        if not chosen:
            continue
        calls = [{
            "inputs": texts(*dims, sizes[-1]),
            "expected": str(expected / f"{name}_{dims[0]}x{dims[1]}")} for dims in chosen]
        yield program(f"models/{name}", encoder(*sizes), calls[0]["inputs"], 0.03,
                      compare=name == "small", passes=3 if name == "small" else 1, packed=True,
                      time=True, sizes=calls, needs=needs, **CASE_FIELDS)


# Ways in which PyTorch serves a BertModel: as it is over padded texts; compiled, replayed from CUDA
# graphs; its weights over packed rows with attention over sequences laid end to end, replayed from
# a CUDA graph.
BERT_WAYS = ("eager", "packed", "compiled")


def bert_sweep(first=False):
    """A case a call, the dearest to prepare last."""
    for way in BERT_WAYS:
        for name, (sizes, shapes, _) in MODELS.items():
            for dims in shapes:
                if name != "small" and (not first or (name, *dims) in HEADLINES["models"]):
                    yield {
                        "id": f"bert/{name}/{dims[0]}x{dims[1]}/{way}", "kind": "bert",
                        "model": name, "sizes": sizes, "dims": dims, "way": way,
                        "lengths": texts(*dims, sizes[-1])["mask"]["lengths"]}


def unit_kernel_cases(capability):
    """{"case", "needs"} of each unit kernel that the device has the instructions for."""
    for primitive in json.loads((PRIMITIVES / "primitives.json").read_text(encoding="utf8")):
        least, newest, needs = primitive.pop("capability",
                                             80), primitive.pop("newest",
                                                                capability), primitive.pop("needs")
        if least <= capability <= newest:
            # Sums may round otherwise on a GPU, but for those of small whole numbers; what only
            # moves must arrive as it left.
            expected = PRIMITIVES / "expected"
            known = {"expected": str(expected)
                     } if (expected / f"{primitive['name']}.out0.npy").exists() else {}
            source = PRIMITIVES / f"{primitive.pop('source', primitive['name'])}.cu"
            yield {
                "needs": needs, "case": {
                    "id": f"primitives/{primitive['name']}", "kind": "raw", "source": str(source),
                    **known, **primitive}}


def primitive_cases(folder, capability):
    """Unit kernels whose operands and results are kept."""
    for each in unit_kernel_cases(capability):
        yield {**each["case"], "needs": each["needs"], "folder": str(folder)}
