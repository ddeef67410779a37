"""Campaigns that are killed at random moments, one after the other over what the ones before have
left, until one ends by itself: nothing that had ended may be lost.

usage: rehearse.py FOLDER [--kills N] [--seconds MOST] [--seed SEED] [WORD...]      (WORDs go to
gpu_campaign.sh; ANYDIM_WORKER names the worker)

Every worker runs behind this file (--ledger), which writes down what ended before the supervisor
hears of it. FOLDER gets the state, and what each command wrote; it must not exist."""
import argparse
import json
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import time

import journal
from worker import dies_with

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu_campaign.sh"
ENDS_SECONDS = 60  # that a command which SIGTERM told to end has to do so
UNCOUNTED = ("empty/", "information", "fit/estimates")  # asked anew by every command


def ledger(path, command):
    """Runs a worker, and writes down each case that ended before anybody is told."""
    supervisor = os.getppid()
    with subprocess.Popen(command, stdout=subprocess.PIPE,
                          preexec_fn=dies_with(os.getpid())) as worker, open(
                              path, "ab", buffering=0) as file:
        for line in worker.stdout:
            if line.startswith(b'{"end":'):
                file.write(
                    json.dumps({"end": json.loads(line)["end"], "by": supervisor}).encode() + b"\n")
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return worker.returncode


def ended(path):
    """Ids of cases that ended, by the supervisor that was waiting for them."""
    by = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        said = json.loads(line)
        if not said["end"].startswith(UNCOUNTED):
            by.setdefault(said["by"], []).append(said["end"])
    return by


def recorded(folder):
    return [
        entry["case"]["id"]
        for _, entry in journal.read(folder / journal.NAME)
        if entry["status"] == "ended" and not entry["case"]["id"].startswith(UNCOUNTED)]


class Rehearsal:
    def __init__(self, folder, words):
        self.folder, self.words = folder, words
        self.state, self.ledger = folder / "state", folder / "ended.jsonl"
        self.environment = dict(
            os.environ, ANYDIM_WORKER=shlex.join([
                sys.executable,
                str(pathlib.Path(__file__).resolve()), "--ledger",
                str(self.ledger), *shlex.split(os.environ["ANYDIM_WORKER"])]))
        self.in_flight = 0  # ended, but their supervisor was killed before it had read so
        self.faults = []

    def start(self, number):
        # The process has it until it ends.
        log = open(self.folder / f"log{number}", "w", encoding="utf8")  # pylint: disable=R1732
        return subprocess.Popen([
            str(SCRIPT),
            str(self.folder / f"out{number}"), "--state",
            str(self.state), "--carried",
            str(self.folder / "carried"), "--rehearse", *self.words], stdout=log, stderr=log,
                                env=self.environment)

    def check(self, number, before):
        """After a kill: what ended is recorded, but for the one whose end was on its way; what was
        recorded before still is, also in what this command wrote."""
        now = recorded(self.state)
        missing = list(now)
        by = ended(self.ledger).values()
        # A case that was on its way came again later: it is recorded once, and that is the later
        # one.
        for name, last in [(name, False) for ids in by for name in ids[:-1]] + [
            (ids[-1], True) for ids in by]:
            if name in missing:
                missing.remove(name)
            elif last:
                self.in_flight += 1
            else:
                self.faults.append(f"command {number}: {name} ended and is not recorded")
        if now[:len(before)] != before:
            self.faults.append(f"command {number}: what was recorded before is not")
        own = recorded(self.folder / f"out{number}")
        lost = set(now) - set(own)
        if own and lost - {now[-1]}:  # the last may have been on its way there
            self.faults.append(f"command {number}: its own record lacks {sorted(lost)}")
        return now

    def run(self, kills, most, draw):
        begin = time.monotonic()
        before, survived = [], 0
        for number in range(kills):
            process = self.start(number)
            signalled = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            try:
                process.wait(timeout=draw.uniform(0, most))
                print(f"command {number} ended by itself", flush=True)
            except subprocess.TimeoutExpired:
                process.send_signal(signalled)
                survived += 1
            process.wait(timeout=ENDS_SECONDS)
            self.in_flight = 0
            before = self.check(number, before)
            print(
                f"[{time.monotonic() - begin:6.1f} s] command {number}: {signalled.name}, {len(before)} cases recorded",
                flush=True)
        process = self.start(kills)
        code = process.wait()
        self.in_flight = 0
        after = self.check(kills, before)
        said = json.loads((self.folder / f"out{kills}/results.json").read_text(encoding="utf8"))
        twice = len(after) - len(set(after))
        print(
            f"[{time.monotonic() - begin:6.1f} s] {survived} kills survived; {len(after)} cases recorded, {twice} of them again, {self.in_flight} ended as their supervisor was killed; the "
            f"last command exits with {code}: {sum(each.startswith('passed') for each in said['rungs'].values())} of {len(said['rungs'])} rungs passed"
        )
        for part, spent in said["time"].items():
            print(f"  {part}: {spent['cases']} cases, {spent['seconds']} s")
        return code


def main():
    if sys.argv[1:2] == ["--ledger"]:
        return ledger(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20, metavar="MOST",
                        help="after which a command is killed")
    parser.add_argument("--seed", type=int, default=1)
    options, words = parser.parse_known_args()
    options.folder.mkdir(parents=True)
    rehearsal = Rehearsal(options.folder.resolve(), words)
    code = rehearsal.run(options.kills, options.seconds, random.Random(options.seed))
    for fault in rehearsal.faults:
        print(fault, file=sys.stderr)
    return 1 if rehearsal.faults else code


if __name__ == "__main__":
    sys.exit(main())
