"""A measuring worker without a GPU: answers right, unless a line of the plan file says what becomes
of a case: `ID hang|crash|wrong|error|fault|absent|chatter|slow`. Writes each start and each case
into the file `starts`."""
import json
import os
import signal
import sys
import time

plan = dict(line.rsplit(" ", 1) for line in open(sys.argv[1], encoding="utf8").read().splitlines())
starts = sys.argv[2]
with open(starts, "a", encoding="utf8") as file:
    file.write("start\n")

for line in sys.stdin:
    case = json.loads(line)
    fate = next((fate for name, fate in plan.items() if case["id"].startswith(name)), "right")
    if fate == "mute":
        os._exit(3)
    with open(starts, "a", encoding="utf8") as file:
        file.write(f"case {case['id']}\n")
    print(json.dumps({"begin": case["id"]}), flush=True)
    if fate == "hang":
        signal.pause()  # until it is killed
    if fate == "crash":
        os.abort()
    if fate == "slow":
        time.sleep(0.1)  # a kill at a random moment should fall into a case
        fate = "right"
    if fate == "chatter":
        print("a library says something\n{not json", flush=True)
    end = {
        "end": case["id"], "right": fate != "wrong", "difference": 0.5 if fate == "wrong" else 0.0}
    if case["kind"] in ("matmul", "attention") and fate == "right":
        shapes = [{
            "m": m, "n": case["n"], "k": case["k"], "heuristic_us": 12.0, "best_us": 11.0, "warm": {
                "median_us": 8.0, "heuristic_us": 10.0}, "cold": {
                    "median_us": 20.0, "heuristic_us": 21.0}}
                  for m in case["m"]] if case["kind"] == "matmul" else [
                      *(dict(zip(("batch", "heads", "length", "head"), shape))
                        for shape in case.get("shapes", [])), *case.get("ragged", [])]
        end = {
            "end": case["id"],
            "rows": [{**shape, "median_us": 10.0, "schedule": case.get("schedule", "plain")}
                     for shape in shapes]}
    if "sizes" in case and fate == "right":
        launches = case["text"].count("softmax(")
        end["calls"] = [{
            "dims": next(iter(size["inputs"].values()))["dims"], "median_us": 2.0 * launches,
            "host_us": 5 + 3.0 * launches, "first_host_us": 50.0, "second_host_us": 90.0}
                        for size in case["sizes"]]
        end["launches"] = [{}] * launches
    if case["kind"] == "information":
        end = {"end": case["id"], "gpu": "fake, compute capability 9.0"}
    if case["kind"] == "schedules":
        end = {
            "end": case["id"], "schedules": {
                "matmul_mma bm=64": [{"m": 1, "estimate_us": 2.0}],
                "matmul_wgmma bm=128": [{"m": 8, "estimate_us": 1.0}]}}
    if case["kind"] == "estimates":
        constants = {"start_seconds": 2e-6, "wgmma_share": 0.95, **case["constants"]}
        end = {
            "end": case["id"], "constants": constants, "estimates_us": [
                1e6 * constants["start_seconds"] + 1 / constants["wgmma_share"]
                for _ in case["products"]]}
    if fate == "absent":
        end = {"end": case["id"], "absent": True}
    if fate in ("error", "fault"):
        end = {
            "end": case["id"], "error": "what went wrong",
            "exit_code": 70 if fate == "fault" else 6}
    print(json.dumps(end), flush=True)
    if fate == "fault":
        sys.exit(70)
