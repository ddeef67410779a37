"""What a campaign found, as one JSON object and as Markdown tables."""
import datetime
import json
import math


def information_of(entries):
    """What the worker said of the machine; empty where it said nothing."""
    told = [
        entry for entry in entries if entry["part"] == "information" and entry["status"] == "ended"]
    return {
        key: value
        for key, value in told[-1].items()
        if key not in ("part", "case", "status", "avoid", "at", "seconds", "load")} if told else {}


def outcome(name, climbed):
    right, all_cases = climbed.get(name, (0, 0))
    return "passed" if right == all_cases else f"passed {right} of {all_cases} cases"


def as_json(summary):
    """A line a row, so that what is committed can be read and compared."""
    def section(value):
        if not isinstance(value, (list, dict)) or not value:
            return json.dumps(value)
        rows = [json.dumps(row) for row in value] if isinstance(value, list) else [
            f"{json.dumps(key)}: {json.dumps(row)}" for key, row in value.items()]
        begin, end = "[]" if isinstance(value, list) else "{}"
        return begin + "\n  " + ",\n  ".join(rows) + end

    return "{" + ",\n".join(f" {json.dumps(name)}: {section(value)}"
                            for name, value in summary.items()).lstrip() + "}\n"


def summarise(campaign):
    entries = campaign.record.latest()
    summary = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "system": {
            # A folder of that machine tells nobody else anything.
            name: value
            for name, value in information_of(entries).items() if name != "kernel cache"
        }, "stopped": campaign.stopped,
        "refused": campaign.record.refused, "rungs": {
            **{name: outcome(name, campaign.climbed) for name in sorted(campaign.passed)},
            **campaign.closed
        }, "matmul": [], "attention": [], "ragged": [], "torch": [], "models": [], "bert": [],
        "calls": [], "cpu": [], "fit": None, "variants": {}, "profile": [], "matrix": {},
        "sanitizer": [], "failures": [], "load": loads(entries), "time": times(campaign.results)}
    for entry in entries:
        name, part = entry["case"]["id"], entry["part"]
        if entry["status"] != "ended" or "error" in entry or not entry.get("right", True):
            summary["failures"].append({
                "case": name, "status": entry["status"], "error": entry.get("error"),
                "difference": worst(entry)})
        # The time of a wrong result is none.
        rows, calls = ([each
                        for each in entry.get(kind, [])
                        if each.get("right", True)]
                       for kind in ("rows", "calls"))
        if part in ("matmul", "attention", "torch"):
            summary[part] += rows
        elif part == "ragged":
            summary["ragged"] += [{**row, "equal": equal}
                                  for equal, row in zip(rows[::2], rows[1::2])] if len(rows) == len(
                                      entry.get("rows", [])) else []
        elif part in ("bert", "cpu"):
            summary[part] += rows
        elif part == "variants":
            for row in rows:
                summary["variants"].setdefault(f"{entry['case']['of']} {shape_text(row)}",
                                               {}).setdefault(entry["case"]["variant"],
                                                              []).append(row["median_us"])
        elif part == "profile/counters":
            summary["profile"] += [{"case": name, **each} for each in entry["kernels"]]
        elif part == "fit/result":
            summary["fit"] = {
                key: entry[key]
                for key in ("timings", "constants", "table", "spread", "regret")
                if key in entry}
        elif part == "calls":
            for call in calls:
                summary["calls"].append({
                    "kernels": len(entry.get("launches", [])),
                    "dims": "x".join(map(str, call["dims"])), **{
                        name: call[name] for name in ("median_us", "host_us", "first_host_us", "second_host_us")}
                })
        elif part == "models":
            for call in calls:
                summary["models"].append({
                    "model": name.split("/")[-1], "dims": "x".join(map(str, call["dims"])),
                    "host_us": call["host_us"], "rows": call.get("rows"),
                    "median_us": call["median_us"], "launches": len(entry.get("launches", []))})
        elif part == "matrix":
            for row in rows:
                shape = f"{row['m']}x{row['n']}x{row['k']}"
                summary["matrix"].setdefault(entry["case"].get("schedule", row["schedule"]),
                                             {})[shape] = row["median_us"]
        elif part == "sanitizer":
            summary["sanitizer"].append({
                "case": name, "clean": entry.get("clean"), "status": entry["status"]})
    # A headline shape is one of its sweep, too.
    summary["matmul"] = list({
        (row["m"], row["n"], row["k"]): row for row in summary["matmul"]}.values())
    ratios = [
        row["heuristic_us"] / row["median_us"]
        for row in summary["matmul"]
        if row.get("heuristic_us")]
    if ratios:
        summary["matmul_geometric_mean"] = math.exp(
            sum(math.log(ratio) for ratio in ratios) / len(ratios))
        summary["matmul_least"] = min(ratios)
    return summary


def schedule_times(entries, parts):
    """{(m, n, k): {schedule: us}} of cases that were told their schedule."""
    found = {}
    for entry in entries:
        if entry["part"] in parts and "schedule" in entry["case"]:
            for row in entry.get("rows", []):
                if row.get("right", True):
                    found.setdefault((row["m"], row["n"], row["k"]),
                                     {})[entry["case"]["schedule"]] = row["median_us"]
    return found


def times(results):
    """Of a command: seconds and cases of each part; those that an earlier one found took none."""
    spent = {}
    for entry in results:
        cases, seconds = spent.get(entry["part"].split("/")[0], (0, 0))
        spent[entry["part"].split("/")[0]] = (cases + 1, seconds + entry.get("seconds", 0))
    return {
        part: {"cases": cases, "seconds": round(seconds, 1)}
        for part, (cases, seconds) in spent.items()}


def loads(entries):
    """What the GPU did under each part's cases: the least, the middle of the medians, and the most
    of them all."""
    found = {}
    for entry in entries:
        if "load" in entry:
            found.setdefault(entry["part"].split("/")[0], []).append(entry["load"])
    summary = {}
    for part, all_loads in found.items():
        summary[part] = {
            "reasons": sorted({reason for each in all_loads for reason in each["reasons"]})}
        for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c"):
            told = [each[name] for each in all_loads if name in each]
            if told:
                summary[part][name] = [
                    min(each[0] for each in told),
                    sorted(each[1] for each in told)[len(told) // 2],
                    max(each[2] for each in told)]
    return summary


def worst(entry):
    """The largest difference that an entry tells of; one that is not finite is worse than any."""
    found = [
        each["difference"]
        for each in (entry, *entry.get("rows", []), *entry.get("calls", []))
        if "difference" in each]
    return max(found, key=lambda each: math.inf if isinstance(each, str) else each, default=None)


def shape_text(row):
    if "m" in row:
        return f"{row['m']}x{row['n']}x{row['k']}"
    return f"{row['heads']} heads of {row['head']}, {len(row['lengths'])} ragged" if "lengths" in row else f"{row['batch']}x{row['heads']}x{row['length']}x{row['head']}"


def torch_key(row):
    return (row["heads"], row["head"], *([*row["lengths"]] if "lengths" in row else
                                         (row["batch"], row["length"], "equal")))


def attention_rate(row, microseconds=None):
    """TFLOP/s."""
    squares = sum(
        length**2
        for length in row["lengths"]) if "lengths" in row else row["batch"] * row["length"]**2
    return 4e-6 * row["heads"] * row["head"] * squares / (microseconds or row["median_us"])


def ratio(of, to):
    return f"{of / to:.3f}" if of and to else ""


def table(head, lines):
    text = "| " + " | ".join(head) + " |\n|" + " --- |" * len(head) + "\n"
    return text +"".join("| " + " | ".join(str(cell)
                                           for cell in line) + " |\n"
                         for line in lines) + "\n"


def markdown(summary):
    text = f"# GPU campaign of {summary['date']}\n\n"
    for name, value in summary["system"].items():
        text += f"- {name}: {value}\n"
    text += "".join(f"- {why}\n" for why in summary["refused"])
    if summary["stopped"]:
        text += f"\nStopped: {summary['stopped']}.\n"
    text += "\n## Ladder\n\n" + table(("rung", "outcome"), summary["rungs"].items())
    if summary["matmul"]:
        text += "## Matmul with bias, bf16, against cuBLASLt\n\n"
        if "matmul_geometric_mean" in summary:
            text += f"Geometric mean of heuristic / ours: {summary['matmul_geometric_mean']:.3f}, least {summary['matmul_least']:.3f} (over 1: ours is faster).\n\n"
        text += (
            "Each product's weight is another copy; warm: one product again and again; cold: one alone after memory larger than the L2 cache was written, with about a "
            "microsecond of events on both sides.\n\n")
        lines = []
        for row in summary["matmul"]:
            ours, theirs, best = row["median_us"], row.get("heuristic_us"), row.get("best_us")
            work = 2e-6 * row["m"] * row["n"] * row["k"]
            extremes = []
            for each in (row.get("warm", {}), row.get("cold", {})):
                extremes += [
                    f"{each['median_us']:.2f}" if each else "",
                    f"{each['heuristic_us'] / each['median_us']:.3f}"
                    if each.get("heuristic_us") else ""]
            lines.append(
                (row["m"], row["n"], row["k"], f"{ours:.2f}", f"{work / ours:.1f}",
                 f"{theirs:.2f}" if theirs else "", f"{theirs / ours:.3f}" if theirs else "",
                 f"{best / ours:.3f}" if best else "", *extremes, row["schedule"]))
        text += table(
            ("M", "N", "K", "us", "TFLOP/s", "cuBLASLt us", "heuristic / ours", "best / ours",
             "warm us", "heuristic / ours", "cold us", "heuristic / ours", "schedule"), lines)
    theirs = {torch_key(row): row for row in summary["torch"] if row.get("median_us")}
    if summary["attention"]:
        lines = []
        for row in summary["attention"]:
            peer = theirs.get(torch_key(row), {})
            lines.append(
                (row["batch"], row["heads"], row["length"], row["head"], f"{row['median_us']:.2f}",
                 f"{attention_rate(row):.1f}", ratio(peer.get("median_us"), row["median_us"]),
                 peer.get("backend", ""), row["schedule"]))
        text += "## Attention, bf16\n\n" + table(
            ("batch", "heads", "length", "head", "us", "TFLOP/s", "PyTorch / ours", "PyTorch's",
             "schedule"), lines)
    if summary["ragged"]:
        lines = []
        for row in summary["ragged"]:
            peer, equal_peer = (theirs.get(torch_key(each), {}) for each in (row, row["equal"]))
            kept = ratio(attention_rate(row, peer["median_us"]),
                         attention_rate(row["equal"],
                                        equal_peer["median_us"])) if peer and equal_peer else ""
            lines.append(
                (len(row["lengths"]), sum(row["lengths"]), max(row["lengths"]), row["heads"],
                 row["head"], f"{row['median_us']:.2f}", f"{attention_rate(row):.1f}",
                 ratio(attention_rate(row), attention_rate(row["equal"])), kept,
                 ratio(peer.get("median_us"), row["median_us"]), peer.get("backend",
                                                                          ""), row["schedule"]))
        text += (
            "## Attention over sequences laid end to end, bf16\n\nRagged / equal: the rate over that of sequences of one length, the mean, with as many multiplications, timed "
            "right before.\n\n") + table(
                ("sequences", "rows", "longest", "heads", "head", "us", "TFLOP/s", "ragged / equal",
                 "PyTorch's ragged / equal", "PyTorch / ours", "PyTorch's", "schedule"), lines)
    if summary["calls"]:
        text += "## Calls of tiny kernels\n\n" + table(
            ("launches", "size", "device us", "whole call us", "first call us", "second call us"), [
                (row["kernels"], row["dims"],
                 *(f"{row[name]:.1f}"
                   for name in ("median_us", "host_us", "first_host_us", "second_host_us")))
                for row in summary["calls"]])
        for size in dict.fromkeys(row["dims"] for row in summary["calls"]):
            few, *_, many = sorted((row for row in summary["calls"] if row["dims"] == size),
                                   key=lambda row: row["kernels"]) * 2
            if many["kernels"] > few["kernels"]:
                device, host = ((many[name] - few[name]) / (many["kernels"] - few["kernels"])
                                for name in ("median_us", "host_us"))
                text += f"At {size} one more launch costs {device:.2f} us on the device, and {host - device:.2f} us more of the whole call: its sizes, its kernel's choice.\n"
        text += "\n"
    if summary["models"]:
        text += "## Models\n\n" + table(
            ("model", "batch x longest", "tokens", "device us", "whole call us", "launches"), [
                (row["model"], row["dims"], row["rows"], f"{row['median_us']:.1f}",
                 f"{row['host_us']:.1f}", row["launches"]) for row in summary["models"]])
    if summary["bert"]:
        text += bert_text(summary)
    if summary["matrix"]:
        shapes = sorted({shape for row in summary["matrix"].values() for shape in row},
                        key=lambda shape: [int(n) for n in shape.split("x")][::-1])
        text += f"## Latency by schedule\n\n{len(summary['matrix'])} schedules at {len(shapes)} shapes; the numbers are in results.json.\n\n"
    if summary["cpu"]:
        text += cpu_text(summary["cpu"])
    if summary["fit"]:
        text += fit_text(summary["fit"])
    if summary["variants"]:
        lines = []
        for shape, by_variant in summary["variants"].items():
            base = by_variant.get("as it is")
            lines += [(shape, variant, "/".join(f"{each:.2f}"
                                                for each in us),
                       ratio(sum(base) / len(base),
                             sum(us) / len(us)) if base else "")
                      for variant, us in by_variant.items()]
        text += "## Variants\n\nIn turns with what the cost model chooses and device functions as they are built in.\n\n" + table(
            ("shape", "variant", "us", "as it is / variant"), lines)
    if summary["profile"]:
        text += "## Counters\n\n"
        for each in summary["profile"]:
            text += f"{each['case']}: {each['kernel']}\n\n" + table(
                ("counter", "value"), each["counters"].items())
    if summary["load"]:
        text += ("## Under load\n\nLeast, middle and most.\n\n" + table(
            ("part", "SM MHz", "memory MHz", "W", "C", "clocks held back by"), [
                (part, *("/".join(f"{each:.0f}"
                                  for each in told.get(name, ()))
                         for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c")),
                 ", ".join(told["reasons"]))
                for part, told in summary["load"].items()]))
    if summary["sanitizer"]:
        text += "## compute-sanitizer\n\n" + table(
            ("case", "clean"), [(row["case"], row["clean"]) for row in summary["sanitizer"]])
    if summary["failures"]:
        text += "## What failed\n\n" + table(("case", "status", "why"), [
            (row["case"], row["status"], row["error"] or f"wrong by {row['difference']}")
            for row in summary["failures"]])
    return text + "## Time\n\n" + table(("part", "cases", "seconds"), [
        (part, spent["cases"], spent["seconds"]) for part, spent in summary["time"].items()])


def bert_text(summary):
    """The same model in PyTorch, each way beside ours at the same texts; `packed` and ours compute
    no padding."""
    ours = {(row["model"], row["dims"]): row for row in summary["models"]}
    ways = list(dict.fromkeys(row["way"] for row in summary["bert"]))
    found = {}
    for row in summary["bert"]:
        found.setdefault((row["model"], "x".join(map(str, row["dims"]))), {})[row["way"]] = row
    lines = []
    for key, by_way in found.items():
        own = ours.get(key, {})
        cells = []
        for way in ways:
            row = by_way.get(way, {})
            cells += [
                f"{row['median_us']:.1f}" if row else "",
                ratio(row.get("median_us"), own.get("median_us")),
                ratio(row.get("host_us"), own.get("host_us"))]
        lines.append((*key, f"{own['median_us']:.1f}" if own else "",
                      f"{own['host_us']:.1f}" if own else "", *cells))
    head = [
        column for way in ways for column in (f"{way} us", f"{way} / ours", "whole call / ours")]
    return (
        "## BertModel of transformers, bf16\n\nIts positions and token types come on top; the whole call has copies from and to the host on both sides.\n\n"
        + table(("model", "batch x longest", "ours us", "ours, whole call us", *head), lines))


def fit_text(told):
    text = (
        f"## Cost model of products\n\nFitted to {told['timings']} timings: estimates are off by a factor of {told['spread']['before']:.3f} (root mean square of the logarithm), and of "
        f"{told['spread']['after']:.3f} with the constants below.")
    for name, (ratio_to_best, shapes) in told["regret"].items():
        if shapes:
            text += f" What it chooses {name} takes {ratio_to_best:.3f} of the best measured, at {shapes} shapes."
    return text + "\n\n```\n" + "\n".join(told["table"]) + "\n```\n\n"


def cpu_text(rows):
    alone = {(row["model"], *row["dims"]): row for row in rows if row["threads"] == 1}
    lines = []
    for row in sorted(rows, key=lambda row: (row["model"], row["dims"], row["threads"])):
        one, peer = alone.get((row["model"], *row["dims"]), {}), row.get("onnxruntime_us")
        cells = [
            (f"{row[name]:.0f}", ratio(one.get(name), row[name])) for name in ("f32_us", "bf16_us")]
        lines.append(
            (row["model"], "x".join(map(str, row["dims"])), row["threads"], *cells[0], *cells[1],
             f"{peer:.0f}" if peer else "", ratio(one.get("onnxruntime_us"), peer),
             ratio(peer, row["f32_us"]), ratio(peer, row["bf16_us"])))
    return (
        "## The machine's CPU\n\nMedian of a call; ONNX Runtime on a BertModel of the same sizes, in f32.\n\n"
        + table(("model", "batch x length", "threads", "f32 us", "times faster than one thread",
                 "bf16 us", "times faster", "ONNX Runtime us", "times faster", "ONNX Runtime / f32",
                 "ONNX Runtime / bf16"), lines))
