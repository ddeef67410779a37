"""PyTorch as a worker of the campaign: cases in, one JSON object a line, what became of them out,
all in bf16 and timed by events. Of equal lengths the fastest of its fused attention backends, over
sequences laid end to end its attention for those, each replayed from a graph; and transformers'
BertModel with random weights, in the ways of ladder.BERT_WAYS."""
import itertools
import json
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
CALLS, REPETITIONS = 4, 15
TOLERANCE = 0.05  # of bf16 through twelve layers, relative to the largest number


def median(values):
    return sorted(values)[len(values) // 2]


def captured(call):
    """A graph of one call, which has run before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


def median_us(call, calls=1):
    """Between events around `call`, which stands for so many."""
    times = []
    for _ in range(3):
        call()
    for _ in range(REPETITIONS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / calls)
    return median(times)


def equal_calls(shape):
    operands = [
        torch.randn(shape["batch"], shape["heads"], shape["length"], shape["head"], device="cuda",
                    dtype=torch.bfloat16) for _ in range(3)]

    def run(backend):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(*operands)

    return {backend.name: lambda backend=backend: run(backend) for backend in BACKENDS}


def varlen_calls():
    """Functions of queries, keys, values [rows, heads, head], offsets and the longest; which of
    them there are depends on the version."""
    def flash(q, k, v, offsets, longest):
        return torch.ops.aten._flash_attention_forward(q, k, v, offsets, offsets, longest, longest,
                                                       0.0, False, False)[0]

    calls = {"flash varlen": flash}
    try:
        from torch.nn.attention.varlen import varlen_attn

        def public(q, k, v, offsets, longest):
            return varlen_attn(q, k, v, offsets, offsets, longest, longest)
        calls["varlen_attn"] = public
    except ImportError:
        pass  # an older PyTorch
    return calls


def offsets_of(lengths, device="cuda"):
    return torch.tensor([0, *itertools.accumulate(lengths)], device=device, dtype=torch.int32)


def ragged_calls(shape):
    lengths = shape["lengths"]
    operands = [
        torch.randn(sum(lengths), shape["heads"], shape["head"], device="cuda",
                    dtype=torch.bfloat16) for _ in range(3)]
    offsets = offsets_of(lengths)
    return {
        name: lambda call=call: call(*operands, offsets, max(lengths))
        for name, call in varlen_calls().items()}


def attention(case):
    rows = []
    for shape in case["shapes"]:
        times, refusals = {}, {}
        for name, call in (ragged_calls(shape)
                           if "lengths" in shape else equal_calls(shape)).items():
            try:
                graph, _ = captured(lambda call=call: [call() for _ in range(CALLS)])
                times[name] = median_us(graph.replay, CALLS)
            except (RuntimeError, TypeError) as error:
                # This backend does not serve the shape, or this PyTorch has another signature.
                refusals[name] = str(error).split("\n", 1)[0][:200]
                torch.cuda.synchronize()
        best = min(times, key=times.get, default=None)
        rows.append({**shape, "median_us": times.get(best), "backend": best, "refused": refusals})
    return {"rows": rows}


def bert(sizes, device="cuda"):
    """(layers, hidden, heads, inner, vocabulary) as a BertModel whose attention is PyTorch's
    own."""
    from transformers import BertConfig, BertModel
    layers, hidden, heads, inner, vocabulary = sizes
    torch.manual_seed(1)
    config = BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                        intermediate_size=inner, vocab_size=vocabulary, attn_implementation="sdpa")
    return BertModel(config, add_pooling_layer=False).to(
        device=device, dtype=torch.bfloat16 if device == "cuda" else torch.float32).eval()


def packed_forward(model, ids, positions, offsets, longest, varlen):
    """The model over the rows of texts laid end to end: what its own forward computes, with no
    padding."""
    embeddings = model.embeddings
    rows = embeddings.word_embeddings(ids) + embeddings.position_embeddings(
        positions) + embeddings.token_type_embeddings.weight[0]
    rows = embeddings.LayerNorm(rows)
    heads = model.config.num_attention_heads
    for layer in model.encoder.layer:
        part = layer.attention.self
        q, k, v = (linear(rows).view(rows.shape[0], heads, -1)
                   for linear in (part.query, part.key, part.value))
        mixed = varlen(q, k, v, offsets, longest).reshape(rows.shape)
        output = layer.attention.output
        rows = output.LayerNorm(output.dense(mixed) + rows)
        inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(rows))
        rows = layer.output.LayerNorm(layer.output.dense(inner) + rows)
    return rows


def padded_inputs(case, device="cuda"):
    batch, longest = case["dims"]
    generator = torch.Generator().manual_seed(batch * 4096 + longest)
    ids = torch.randint(case["sizes"][-1], (batch, longest), generator=generator)
    mask = (torch.arange(longest)[None, :] < torch.tensor(case["lengths"])[:, None]).long()
    return ids.to(device), mask.to(device)


def packed_inputs(ids, mask):
    """Ids and positions of the rows that take part."""
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    return ids[mask.bool()], positions[mask.bool()]


def first_that_serves(model, ids, mask, lengths, wanted):
    """The first of PyTorch's attentions over sequences that computes what the padded model does;
    its name, and why others do not."""
    refusals = {}
    for name, varlen in varlen_calls().items():
        try:
            difference = relative(
                packed_forward(model, *packed_inputs(ids, mask), offsets_of(lengths), max(lengths),
                               varlen), wanted)
            if difference <= TOLERANCE:
                return name, varlen, difference, refusals
            refusals[name] = f"wrong by {difference}"
        except (RuntimeError, TypeError) as error:
            refusals[name] = str(error).split("\n", 1)[0][:200]
            torch.cuda.synchronize()
    raise RuntimeError(f"no attention over sequences serves: {refusals}")


def relative(got, wanted):
    """Not a number counts as infinite."""
    difference = ((got.float() - wanted.float()).abs().max() / wanted.float().abs().max()).item()
    return difference if difference == difference else float("inf")


def whole_call_us(call, host_inputs):
    """With copies from and to the host."""
    times = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        call(*(each.to("cuda") for each in host_inputs)).cpu()
        times.append(1e6 * (time.perf_counter() - begin))
    return median(times)


@torch.inference_mode()
def bert_case(case):
    model = bert(case["sizes"])
    ids, mask = padded_inputs(case)
    shown = mask.bool()
    wanted = model(input_ids=ids, attention_mask=mask).last_hidden_state[shown]
    begin = time.perf_counter()
    row = {name: case[name] for name in ("model", "dims", "way")}
    if case["way"] == "packed":
        name, varlen, difference, refusals = first_that_serves(model, ids, mask, case["lengths"],
                                                               wanted)
        offsets, longest = offsets_of(case["lengths"]), max(case["lengths"])
        inputs = packed_inputs(ids, mask)
        graph, result = captured(lambda: packed_forward(model, *inputs, offsets, longest, varlen))

        def call(*given):
            for own, each in zip(inputs, given):
                own.copy_(each)
            graph.replay()
            return result
        row.update(backend=name, refused=refusals)
        on_device = graph.replay
    else:
        inputs = (ids, mask)
        forward = torch.compile(model, mode="reduce-overhead",
                                dynamic=False) if case["way"] == "compiled" else model

        def call(*given):
            return forward(input_ids=given[0], attention_mask=given[1]).last_hidden_state
        for _ in range(3):
            got = call(*inputs)[shown]
        difference = relative(got, wanted)
        on_device = lambda: call(*inputs)
    torch.cuda.synchronize()
    row["prepare_s"] = time.perf_counter() - begin
    right = difference <= TOLERANCE
    row.update(difference=difference, right=right, median_us=median_us(on_device),
               host_us=whole_call_us(call, [each.cpu() for each in inputs]))
    return {"right": right, "difference": difference, "rows": [row]}


def information(_):
    told = {
        "torch": torch.__version__, "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name(0)}
    try:
        import transformers
        told["transformers"] = transformers.__version__
    except ImportError:
        pass
    return told


KINDS = {"information": information, "attention": attention, "bert": bert_case}


def main():
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps({"begin": case["id"]}), flush=True)
        try:
            end = KINDS[case["kind"]](case)
        # Whatever it is, the next case may serve.
        except Exception as error:  # pylint: disable=broad-exception-caught
            end = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps({"end": case["id"], **end}), flush=True)


if __name__ == "__main__":
    main()
