#!/usr/bin/env python3
"""Prints the table that ends scripts/quickstart.sh.

usage: quickstart_table.py PEERS.json COLD.json DIFFERENCES.json PEERS is `peers.py --json` with the
engines anydim and onnxruntime, COLD is `anydim bench --json` with an empty kernel cache,
DIFFERENCES is `compare.py --json`.
"""
import json
import sys

peers, cold, differences = (json.load(open(path, encoding="utf8")) for path in sys.argv[1:4])


def row(label, ours, theirs, better):
    ratio = f"{(theirs / ours if better == 'less' else ours / theirs):6.2f}" if theirs else ""
    number = lambda value: f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    print(f"  {label:<34}{number(ours):>10}{number(theirs) if theirs else '':>15}{ratio:>10}")


print(f"  {'':<34}{'Anydim':>10}{'ONNX Runtime':>15}{'better by':>10}")
for mode, engines in peers.items():
    ours, theirs = engines["anydim"], engines["onnxruntime"]
    print(f"{mode}")
    row("useful tokens a second", ours["useful_tokens_per_s"], theirs["useful_tokens_per_s"],
        "more")
    row("p50 of a batch, ms", ours["batch_p50_ms"], theirs["batch_p50_ms"], "less")
    row("p99 of a batch, ms", ours["batch_p99_ms"], theirs["batch_p99_ms"], "less")
    row("load, s", ours["load_s"], theirs["load_s"], "less")
    row("first result after start, s", ours["first_result_s"], theirs["first_result_s"], "less")
    row("peak memory, MB", ours["peak_bytes"] / 1e6, theirs["peak_bytes"] / 1e6, "less")
print("with an empty kernel cache")
row("first result after start, s", cold["first_result_s"], None, "less")
print("largest difference between the two engines' outputs")
for name, figures in differences.items():
    print(f"  {name:<34}{figures['largest_difference']:>10.1e}")
