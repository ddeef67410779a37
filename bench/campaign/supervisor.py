"""Drives a measuring worker up a ladder and through sweeps, and writes what came of it. This process never touches CUDA."""
import argparse
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time

import ladder
import report
from worker import Worker

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("ladder", "primitives", "models", "calls", "matmul", "attention", "ragged", "torch", "matrix", "sanitizer")
CASE_SECONDS = 30
SWEEP_SECONDS = 90
TORCH_SECONDS = 100  # most, of the campaign's time
SANITIZER_SECONDS = 60  # kept back for it from what comes before
MOST_TRAVELLING = 60 << 20
MOST_FILES, MOST_FILE_BYTES = 8, 16 << 20


class Campaign:
    def __init__(self, command, out, limit, log, case_seconds=None):
        self.case_seconds = case_seconds or CASE_SECONDS
        self.worker = Worker(command, log)
        self.out = out
        self.deadline = time.monotonic() + limit
        self.results = []  # every case with what became of it, in order
        self.capability = 0  # of the device: 90 for 9.0
        self.passed, self.closed = set(), {}  # rungs; closed: why
        self.stopped = None  # why nothing more is run

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, case, seconds, part, rung=None):
        """Runs a case, with no schedule that does what has not passed yet but for the rung's own; a worker that does not survive it is replaced by one that proves
        itself on an empty kernel."""
        begin = time.monotonic()
        result = self.worker.run({**case, "avoid": ladder.avoided(self.passed, rung)}, min(seconds, max(self.left(), 1)))
        # Past the limit a case is cut short for our sake: that says nothing about it.
        if result["status"] == "hung" and self.left() <= 0:
            result["status"] = "cut"
        entry = {"part": part, "case": case, "seconds": round(time.monotonic() - begin, 3), **result}
        self.results.append(entry)
        if result["status"] in ("hung", "died") or result.get("exit_code") == 70:
            self.worker.stop()
            if self.left() > 0:
                self.prove_worker()
        return entry

    def prove_worker(self):
        """Two new workers in a row that cannot run an empty kernel end the campaign: the device is gone, not a schedule."""
        for attempt in (1, 2):
            case = {"id": f"empty/{len(self.results)}", "kind": "empty"}
            result = self.worker.run(case, min(self.case_seconds, max(self.left(), 1)))
            self.results.append({"part": "ladder", "case": case, **result})
            if right(result):
                self.passed.add("empty")
                return True
            self.worker.stop()
        self.stopped = f"two new workers in a row cannot run an empty kernel: {result.get('error', 'a wrong result')}"
        return False

    def climb(self):
        for name, needs, cases in ladder.rungs(self.capability):
            missing = [each for each in needs if each not in self.passed]
            if missing:
                self.closed[name] = f"needs {', '.join(missing)}"
                continue
            absent = 0
            for case in cases:
                if self.stopped or self.left() <= 0:
                    self.closed[name] = self.stopped or "the time was up"
                    break
                entry = self.run(case, self.case_seconds, f"ladder/{name}", name)
                if entry.get("absent"):
                    absent += 1
                elif not right(entry):
                    self.closed[name] = f"{case['id']}: {why_wrong(entry)}"
                    break
            else:
                if absent == len(cases):
                    self.closed[name] = "no schedule of this kind for the device"
                else:
                    self.passed.add(name)

    def sweep(self, part, cases, reserve=0):
        """Cases one after the other, until the limit less `reserve` seconds."""
        for case in cases:
            if self.stopped or self.left() <= reserve:
                return
            if any(each not in self.passed for each in case.get("needs", [])):
                self.results.append({"part": part, "case": case, "status": "skipped", "error": f"needs {', '.join(case['needs'])}"})
                continue
            twin = ladder.twin(case) if self.passed & ladder.WAITING else None
            checked = self.run(twin, SWEEP_SECONDS, f"{part}/checked") if twin else None
            if checked and not right(checked):
                self.results.append({"part": part, "case": case, "status": "skipped", "error": f"its checked twin: {why_wrong(checked)}"})
                continue
            entry = self.run(case, SWEEP_SECONDS, part)
            if case.get("expands") and entry["status"] == "ended":
                self.sweep(part, ladder.matrix_cases(case, entry), reserve)


def right(result):
    return result["status"] == "ended" and "error" not in result and result.get("right", True)


def why_wrong(result):
    if "error" in result:
        return result["error"]
    return f"wrong by {result.get('difference')}" if not result.get("right", True) else result["status"]


def capability(information):
    """90 for a device of compute capability 9.0."""
    found = re.search(r"compute capability (\d+)\.(\d+)", information.get("gpu", ""))
    told = re.search(r"sm_(\d+)", information.get("architecture", ""))
    return 10 * int(found[1]) + int(found[2]) if found else int(told[1]) if told else 0


def run_torch(campaign):
    """PyTorch's attention at the same shapes, where PyTorch is installed; a process of its own."""
    shapes = [dict(zip(("batch", "heads", "length", "head"), case["shapes"][0])) for case in ladder.attention_sweep(campaign.passed)]
    shapes += [case["ragged"][0] for case in ladder.ragged_sweep(campaign.passed)]
    command = [sys.executable, str(pathlib.Path(__file__).parent / "torch_attention.py")]
    result = {"status": "ended"}
    try:
        done = subprocess.run(command, input=json.dumps(shapes), capture_output=True, text=True, timeout=max(min(campaign.left(), TORCH_SECONDS), 1), check=False)
        said = done.stdout
        if done.returncode != 0:
            result["error"] = done.stderr[-400:]
    except subprocess.TimeoutExpired as expired:
        said = (expired.stdout or b"").decode()
        result = {"status": "cut", "error": "the time was up"}
    result["rows"] = [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]
    campaign.results.append({"part": "torch", "case": {"id": "torch"}, **result})


def run_sanitizer(campaign, command):
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        campaign.results.append({"part": "sanitizer", "case": {"id": "sanitizer"}, "status": "skipped", "error": "compute-sanitizer is not installed"})
        return
    for kind in ("memcheck", "racecheck"):
        for name, _, cases in ladder.rungs(campaign.capability):
            if name not in campaign.passed or not cases or campaign.left() < 10:
                continue
            case = {**cases[-1], "passes": 1, "avoid": ladder.avoided(campaign.passed, name)}
            inner = Worker([tool, "--tool", kind, "--error-exitcode", "9", *command], campaign.worker.log)
            result = inner.run({**case, "id": f"sanitizer/{kind}/{name}"}, min(60, campaign.left()))
            if result["status"] == "ended":
                result["clean"] = inner.finish(20) == 0
            inner.stop()
            campaign.results.append({"part": "sanitizer", "case": {"id": f"sanitizer/{kind}/{name}"}, **result})


def write_results(campaign, out, information, log):
    summary = report.summarise(campaign.results, campaign.passed, campaign.closed, campaign.stopped, information)
    (out / "results.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf8")
    (out / "results.md").write_text(report.markdown(summary), encoding="utf8")
    log.flush()
    with tarfile.open(out / "raw.tar.gz", "w:gz") as archive:
        primitives = sorted((out / "primitives").glob("*.npy"))
        for name, data in (*((f"primitives/{each.name}", each.read_bytes()) for each in primitives),
                           ("cases.jsonl", "".join(json.dumps(each) + "\n" for each in campaign.results).encode()),
                           ("worker.log", pathlib.Path(log.name).read_bytes()[-(4 << 20):])):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    shutil.rmtree(out / "primitives", ignore_errors=True)
    pathlib.Path(log.name).unlink()
    files = [each for each in out.rglob("*") if each.is_file()]
    large = [each.name for each in files if each.stat().st_size > MOST_FILE_BYTES]
    if len(files) > MOST_FILES or large:
        print(f"gpu_campaign: {len(files)} files under {out}, too large: {large}", file=sys.stderr)
    return summary


def travelling_bytes():
    """What a device machine is sent: files that git does not ignore, and the build."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
    tree = sum((ROOT / name).stat().st_size for name in listed.splitlines() if (ROOT / name).is_file())
    programs = [ROOT / "build/slim/bin" / name for name in ("anydim", "campaign_worker")]
    return tree, sum(program.stat().st_size for program in programs) if all(program.exists() for program in programs) else None


def check():
    tree, command = travelling_bytes()
    if command is None:
        print("gpu_campaign: there is no slim build; make one: cmake --preset slim && cmake --build build/slim --target anydim campaign_worker", file=sys.stderr)
        return 1
    total = tree + command
    print(f"tree {tree / 2**20:.1f} MiB + programs {command / 2**20:.1f} MiB = {total / 2**20:.1f} MiB of {MOST_TRAVELLING >> 20} MiB")
    return 0 if total < MOST_TRAVELLING else 1


def main():
    parser = argparse.ArgumentParser(prog="gpu_campaign.sh")
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--limit", type=float, default=480)
    parser.add_argument("--case", type=float, default=CASE_SECONDS, metavar="SECONDS", help="the most that one case of the ladder may take")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_intermixed_args()
    if options.check:
        return check()
    unknown = [part for part in options.parts if part not in PARTS]
    if options.out is None or unknown:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}" if unknown else "OUT is missing")
    parts = options.parts or PARTS
    options.out.mkdir(parents=True, exist_ok=True)
    command = shlex.split(os.environ.get("ANYDIM_WORKER", "")) or [str(ROOT / "build/slim/bin/campaign_worker"), "--device", "cuda", "--quiet",
                                                                   "--cache-dir", str(options.out.resolve() / "cache")]
    with open(options.out / "worker.log", "w", encoding="utf8") as log:
        campaign = Campaign(command, options.out, options.limit, log, options.case)
        information = {}
        try:
            if campaign.prove_worker():
                entry = campaign.run({"id": "information", "kind": "information"}, CASE_SECONDS, "ladder")
                information = {key: value for key, value in entry.items() if key not in ("part", "case", "status", "seconds")}
                campaign.capability = capability(information)
                campaign.climb()
            sweeps = {"primitives": lambda: ladder.primitive_cases(options.out.resolve() / "primitives", campaign.capability),
                      "models": lambda: ladder.model_sweep(campaign.passed), "calls": lambda: ladder.calls_sweep(campaign.passed),
                      "matmul": lambda: ladder.matmul_sweep(campaign.passed), "attention": lambda: ladder.attention_sweep(campaign.passed),
                      "ragged": lambda: ladder.ragged_sweep(campaign.passed), "matrix": lambda: ladder.matrix_sweep(campaign.passed)}
            reserve = SANITIZER_SECONDS if "sanitizer" in parts and shutil.which("compute-sanitizer") else 0
            for part in PARTS:
                if part not in parts or campaign.stopped or campaign.left() <= reserve:
                    continue
                if part == "torch":
                    campaign.worker.stop()
                    run_torch(campaign)
                elif part in sweeps:
                    campaign.sweep(part, sweeps[part](), reserve)
            campaign.worker.stop()
            if "sanitizer" in parts and not campaign.stopped and campaign.left() > 10:
                run_sanitizer(campaign, command)
        finally:
            campaign.worker.stop()
            shutil.rmtree(options.out / "cache", ignore_errors=True)
            summary = write_results(campaign, options.out, information, log)
    print(report.markdown(summary))
    return 1 if campaign.stopped else 0


if __name__ == "__main__":
    sys.exit(main())
