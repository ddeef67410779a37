"""What a campaign found, as one JSON object and as Markdown tables."""
import datetime
import math


def summarise(results, passed, closed, stopped, information):
    summary = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "system": information, "stopped": stopped,
               "rungs": {**{name: "passed" for name in sorted(passed)}, **closed}, "matmul": [], "attention": [], "ragged": [], "torch_attention": [],
               "models": [], "calls": [], "matrix": {}, "sanitizer": [], "failures": []}
    for entry in results:
        name, part = entry["case"]["id"], entry["part"]
        if entry["status"] != "ended" or "error" in entry or not entry.get("right", True):
            summary["failures"].append({"case": name, "status": entry["status"], "error": entry.get("error"), "difference": worst(entry)})
        # The time of a wrong result is none.
        rows, calls = ([each for each in entry.get(kind, []) if each.get("right", True)] for kind in ("rows", "calls"))
        if part == "torch":
            summary["torch_attention"] = rows
        elif part in ("matmul", "attention", "ragged"):
            summary[part] += rows
        elif part == "calls":
            for call in calls:
                summary["calls"].append({"kernels": len(entry.get("launches", [])), "dims": "x".join(map(str, call["dims"])),
                                         **{name: call[name] for name in ("median_us", "host_us", "first_host_us", "second_host_us")}})
        elif part == "models":
            for call in calls:
                summary["models"].append({"model": name.split("/")[-1], "dims": "x".join(map(str, call["dims"])), "host_us": call["host_us"],
                                          "rows": call.get("rows"), "median_us": call["median_us"], "launches": len(entry.get("launches", []))})
        elif part == "matrix":
            for row in rows:
                shape = f"{row['m']}x{row['n']}x{row['k']}"
                summary["matrix"].setdefault(entry["case"].get("schedule", row["schedule"]), {})[shape] = row["median_us"]
        elif part == "sanitizer":
            summary["sanitizer"].append({"case": name, "clean": entry.get("clean"), "status": entry["status"]})
    ratios = [row["heuristic_us"] / row["median_us"] for row in summary["matmul"] if row.get("heuristic_us")]
    if ratios:
        summary["matmul_geometric_mean"] = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
        summary["matmul_least"] = min(ratios)
    return summary


def worst(entry):
    """The largest difference that an entry tells of; one that is not finite is worse than any."""
    found = [each["difference"] for each in (entry, *entry.get("rows", []), *entry.get("calls", [])) if "difference" in each]
    return max(found, key=lambda each: math.inf if isinstance(each, str) else each, default=None)


def torch_key(row):
    return (row["heads"], row["head"], *([*row["lengths"]] if "lengths" in row else (row["batch"], row["length"], "equal")))


def table(head, lines):
    text = "| " + " | ".join(head) + " |\n|" + " --- |" * len(head) + "\n"
    return text + "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines) + "\n"


def markdown(summary):
    text = f"# GPU campaign of {summary['date']}\n\n"
    for name, value in summary["system"].items():
        text += f"- {name}: {value}\n"
    if summary["stopped"]:
        text += f"\nStopped: {summary['stopped']}.\n"
    text += "\n## Ladder\n\n" + table(("rung", "outcome"), summary["rungs"].items())
    if summary["matmul"]:
        text += "## Matmul with bias, bf16, against cuBLASLt\n\n"
        if "matmul_geometric_mean" in summary:
            text += f"Geometric mean of heuristic / ours: {summary['matmul_geometric_mean']:.3f}, least {summary['matmul_least']:.3f} (over 1: ours is faster).\n\n"
        text += ("Each product's weight is another copy; warm: one product again and again; cold: one alone after memory larger than the L2 cache was written, with about a "
                 "microsecond of events on both sides.\n\n")
        lines = []
        for row in summary["matmul"]:
            ours, theirs, best = row["median_us"], row.get("heuristic_us"), row.get("best_us")
            work = 2e-6 * row["m"] * row["n"] * row["k"]
            extremes = []
            for each in (row.get("warm", {}), row.get("cold", {})):
                extremes += [f"{each['median_us']:.2f}" if each else "", f"{each['heuristic_us'] / each['median_us']:.3f}" if each.get("heuristic_us") else ""]
            lines.append((row["m"], row["n"], row["k"], f"{ours:.2f}", f"{work / ours:.1f}", f"{theirs:.2f}" if theirs else "", f"{theirs / ours:.3f}" if theirs else "",
                          f"{best / ours:.3f}" if best else "", *extremes, row["schedule"]))
        text += table(("M", "N", "K", "us", "TFLOP/s", "cuBLASLt us", "heuristic / ours", "best / ours", "warm us", "heuristic / ours", "cold us", "heuristic / ours", "schedule"), lines)
    if summary["attention"]:
        torch = {torch_key(row): row["median_us"] for row in summary["torch_attention"]}
        lines = []
        for row in summary["attention"]:
            theirs = torch.get(torch_key(row))
            work = 4e-6 * row["batch"] * row["heads"] * row["head"] * row["length"] ** 2
            lines.append((row["batch"], row["heads"], row["length"], row["head"], f"{row['median_us']:.2f}", f"{work / row['median_us']:.1f}",
                          f"{theirs / row['median_us']:.3f}" if theirs else "", row["schedule"]))
        text += "## Attention, bf16\n\n" + table(("batch", "heads", "length", "head", "us", "TFLOP/s", "PyTorch / ours", "schedule"), lines)
    if summary["ragged"]:
        torch = {torch_key(row): row for row in summary["torch_attention"]}
        lines = []
        for row in summary["ragged"]:
            theirs, lengths = torch.get(torch_key(row)), row["lengths"]
            work = 4e-6 * row["heads"] * row["head"] * sum(length ** 2 for length in lengths)
            lines.append((len(lengths), sum(lengths), max(lengths), row["heads"], row["head"], f"{row['median_us']:.2f}", f"{work / row['median_us']:.1f}",
                          f"{theirs['median_us'] / row['median_us']:.3f}" if theirs else "", theirs["backend"] if theirs else "", row["schedule"]))
        text += "## Attention over sequences laid end to end, bf16\n\n" + table(
            ("sequences", "rows", "longest", "heads", "head", "us", "TFLOP/s", "PyTorch / ours", "PyTorch's", "schedule"), lines)
    if summary["calls"]:
        text += "## Calls of tiny kernels\n\n" + table(
            ("launches", "size", "device us", "whole call us", "first call us", "second call us"),
            [(row["kernels"], row["dims"], *(f"{row[name]:.1f}" for name in ("median_us", "host_us", "first_host_us", "second_host_us"))) for row in summary["calls"]])
        for size in dict.fromkeys(row["dims"] for row in summary["calls"]):
            few, *_, many = sorted((row for row in summary["calls"] if row["dims"] == size), key=lambda row: row["kernels"]) * 2
            if many["kernels"] > few["kernels"]:
                device, host = ((many[name] - few[name]) / (many["kernels"] - few["kernels"]) for name in ("median_us", "host_us"))
                text += f"At {size} one more launch costs {device:.2f} us on the device, and {host - device:.2f} us more of the whole call: its sizes, its kernel's choice.\n"
        text += "\n"
    if summary["models"]:
        text += "## Models\n\n" + table(("model", "batch x longest", "tokens", "device us", "whole call us", "launches"),
                                        [(row["model"], row["dims"], row["rows"], f"{row['median_us']:.1f}", f"{row['host_us']:.1f}", row["launches"]) for row in summary["models"]])
    if summary["matrix"]:
        shapes = sorted({shape for row in summary["matrix"].values() for shape in row}, key=lambda shape: [int(n) for n in shape.split("x")][::-1])
        text += f"## Latency by schedule\n\n{len(summary['matrix'])} schedules at {len(shapes)} shapes; the numbers are in results.json.\n\n"
    if summary["sanitizer"]:
        text += "## compute-sanitizer\n\n" + table(("case", "clean"), [(row["case"], row["clean"]) for row in summary["sanitizer"]])
    if summary["failures"]:
        text += "## What failed\n\n" + table(("case", "status", "why"), [(row["case"], row["status"], row["error"] or f"wrong by {row['difference']}") for row in summary["failures"]])
    return text
