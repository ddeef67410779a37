"""Compiles, where there is no GPU, what a campaign will run, so that it need not: usage: fill.py
PART... (h100, h200; NVRTC is found as scripts/gpu_campaign.sh does, which runs this as
`gpu_campaign.sh --fill PART...`). Leaves the archive of kernels in build/campaign, which a campaign
opens where it fits the device and the generator, and beside it the command of build/portable for
that machine's CPU, where it was built."""
import os
import shlex
import subprocess
import sys
import time

import campaign_run
import carried
import ladder
import report
import supervisor
from worker import Worker

CASE_SECONDS = 600
FOLDER = supervisor.CARRIED.with_name("campaign-fill")


def cases():
    """What a campaign runs where everything passes: (case, schedules that it may not use). What the
    matrix will ask for is not known before, nor are unit kernels kept."""
    rungs = list(ladder.rungs(90))
    before = {"empty"}
    for name, _, of_rung in rungs:
        yield from ((case, ladder.avoided(before, name)) for case in of_rung)
        before.add(name)
    avoid = ladder.avoided(before)
    for case in (*ladder.matmul_headlines(), *ladder.matmul_sweep(), *ladder.attention_sweep(),
                 *ladder.ragged_sweep(), *ladder.model_sweep(), *ladder.calls_sweep()):
        yield case, avoid
        if checked := ladder.checked_form(case):
            yield checked, avoid


def fill(part):
    """What the kernels fit, and how many cases failed. The worker warns of kernels of single
    buckets that do not compile: there a general one serves, as it will on the device."""
    program = os.environ.get("ANYDIM_WORKER", "") or str(
        supervisor.ROOT / "build/slim/bin/campaign_worker")
    worker = Worker([*shlex.split(program), "--plan", part, "--cache-dir", str(FOLDER)], None)
    begin, compiled, wrong = time.monotonic(), 0, 0
    try:
        entry = {
            "part": "information",
            **worker.run({"id": "information", "kind": "information"}, CASE_SECONDS)}
        for case, avoid in cases():
            if case["kind"] == "raw":
                continue
            result = worker.run({**case, "avoid": avoid}, CASE_SECONDS)
            compiled += result.get("compiled", 0)
            if not campaign_run.right(result):
                print(f"{case['id']}: {campaign_run.why_wrong(result)}", file=sys.stderr)
                wrong += 1
    finally:
        worker.stop()
    print(
        f"{part}: {compiled} kernels compiled in {time.monotonic() - begin:.0f} s, {wrong} cases failed",
        flush=True)
    return carried.fits(report.information_of([entry])), wrong


def main():
    if len(sys.argv) < 2:
        print("usage: gpu_campaign.sh --fill PART... (h100, h200)", file=sys.stderr)
        return 2
    made = [fill(part) for part in sys.argv[1:]]
    if any(fits != made[0][0] for fits, _ in made):
        print(
            f"gpu_campaign: these parts do not run the same kernels, so fill for one: {[fits for fits, _ in made]}",
            file=sys.stderr)
        return 1
    supervisor.CARRIED.mkdir(parents=True, exist_ok=True)
    archive = supervisor.CARRIED / carried.ARCHIVE
    carried.pack(FOLDER, archive, made[0][0])
    print(
        f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB of {sum(1 for _ in FOLDER.glob('*.kernel'))} kernels"
    )
    command = supervisor.ROOT / "build/portable/bin/anydim"
    if command.exists():
        stripped = FOLDER / "anydim"
        subprocess.run(["strip", "-o", str(stripped), str(command)], check=True)
        packed = supervisor.CARRIED / carried.COMMAND
        carried.pack_command(stripped, packed)
        print(f"{packed}: {packed.stat().st_size / 2**20:.1f} MiB")
    return 1 if any(wrong for _, wrong in made) else 0


if __name__ == "__main__":
    sys.exit(main())
