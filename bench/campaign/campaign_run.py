"""Runs a campaign's cases in a worker: up the ladder, and through sweeps of what has passed."""
import re
import time

import journal
import ladder
from worker import Worker

CASE_SECONDS = 30
SWEEP_SECONDS = 90
OVERRUN_SECONDS = 10  # that a case may run beyond its part's slice


class Campaign:
    def __init__(self, command, record, limit, log, case_seconds=None, load=None, again=False):
        self.case_seconds = case_seconds or CASE_SECONDS
        self.record = record
        self.worker = Worker(command, log)
        self.load = load
        self.again = again  # also what went wrong under the same programs
        self.deadline = time.monotonic() + limit
        self.results = []  # every case of this command with what became of it, in order
        self.reused = 0  # of these, found by earlier commands
        self.met = set()  # by id(): results
        self.proofs = 0
        self.capability = 0  # of the device: 90 for 9.0
        self.passed, self.closed = set(), {}  # rungs; closed: why
        self.climbed = {}  # rungs: (cases that were right, cases there are)
        self.stopped = None  # why nothing more is run
        self.after_case = lambda: None

    def left(self):
        return self.deadline - time.monotonic()

    def known(self, case, part, avoid):
        """What was found of the case before; what was cut short or left out says nothing, and with
        `again` neither does what went wrong in an earlier command."""
        found = self.record.known.get(journal.key_of(part, case, avoid))
        if found is None or found["status"] not in ("ended", "hung", "died"):
            return None
        return found if right(found) or not self.again or id(found) in self.met else None

    def note(self, part, case, result, **more):
        entry = {"part": part, "case": case, **more, **result}
        self.record.append(entry)
        self.met.add(id(entry))
        self.results.append(entry)
        self.after_case()
        return entry

    def run(self, case, seconds, part, avoid=None, worker=None, until=None):
        """Runs a case with none of the schedules `avoid`, unless its outcome is known; None where
        there is no time for it (until `until`, which it may overrun by OVERRUN_SECONDS). A worker
        that does not survive it is replaced by one that proves itself on an empty kernel."""
        avoid = ladder.avoided(self.passed) if avoid is None else avoid
        found = self.known(case, part, avoid)
        if found:
            if id(found) not in self.met:
                self.met.add(id(found))
                self.results.append(found)
                self.reused += 1
            return found
        late = until is not None and time.monotonic() >= until
        if self.stopped or late or self.left() <= 0:
            return None
        worker = worker or self.worker
        begin = time.monotonic()
        allowed = min(seconds, self.left(),
                      *([until + OVERRUN_SECONDS - begin] if until is not None else []))
        result = worker.run({**case, "avoid": avoid}, allowed)
        end = time.monotonic()
        # A case that is cut short for our sake has shown nothing.
        if result["status"] == "hung" and allowed < seconds:
            result["status"] = "cut"
        load = self.load.between(begin, end) if self.load else None
        entry = self.note(part, case, result, avoid=avoid, at=round(time.time() - (end - begin), 3),
                          seconds=round(end - begin, 3), **({"load": load} if load else {}))
        if result["status"] in ("hung", "died", "cut") or result.get("exit_code") == 70:
            worker.stop()
            if self.left() > 0 and worker is self.worker:
                self.prove_worker()
        return entry

    def prove_worker(self):
        """Two new workers in a row that cannot run an empty kernel end the campaign: the device is
        gone, not a schedule."""
        for _ in range(2):
            self.proofs += 1
            case = {"id": f"empty/{self.proofs}", "kind": "empty"}
            result = self.worker.run(case, min(self.case_seconds, max(self.left(), 1)))
            self.note("proof", case, result)
            if right(result):
                self.passed.add("empty")
                return True
            self.worker.stop()
        self.stopped = f"two new workers in a row cannot run an empty kernel: {result.get('error', 'a wrong result')}"
        return False

    def climb(self, until=None, first=False):
        """First one case of each kind on every rung, so that all that passes may be measured soon;
        then the rest, unless `first`. A rung's cases may use what rungs before it have shown."""
        rungs = list(ladder.rungs(self.capability))
        for narrow in (True,) if first else (True, False):
            before = {"empty"}
            for name, needs, cases in rungs:
                missing = [each for each in needs if each not in self.passed]
                if missing:
                    self.passed.discard(name)
                    self.closed.setdefault(name, f"needs {', '.join(missing)}")
                elif name not in self.closed:
                    avoid = ladder.avoided(self.passed & before, name)
                    why = self.climb_rung(name, cases,
                                          ladder.first_cases(cases) if narrow else cases, avoid,
                                          until)
                    if why is None:
                        self.passed.add(name)
                    elif why != "the time was up" or narrow:
                        self.passed.discard(name)
                        self.closed[name] = why
                before.add(name)

    def climb_rung(self, name, cases, chosen, avoid, until):
        """None, or why the rung is closed."""
        absent = 0
        for case in chosen:
            entry = self.run(case, self.case_seconds, f"ladder/{name}", avoid, until=until)
            if entry is None or entry["status"] == "cut":
                return self.stopped or "the time was up"
            if entry.get("absent"):
                absent += 1
            elif not right(entry):
                return f"{case['id']}: {why_wrong(entry)}"
        self.climbed[name] = (len(chosen), len(cases))
        return "no schedule of this kind for the device" if absent == len(chosen) else None

    def sweep(self, part, cases, until=None, worker=None, seconds=None):
        """Cases one after the other, each behind its checked form, until the part's slice is used
        up; those whose outcome is known take none of it."""
        seconds = seconds or SWEEP_SECONDS
        for case in cases:
            if self.stopped:
                return
            if any(each not in self.passed for each in case.get("needs", [])):
                self.note(part, case,
                          {"status": "skipped", "error": f"needs {', '.join(case['needs'])}"})
                continue
            avoid = ladder.avoided(self.passed)
            waits = self.passed & ladder.WAITING and not self.known(case, part, avoid)
            form = ladder.checked_form(case) if waits else None
            checked = self.run(form, seconds, f"{part}/checked", avoid, worker,
                               until) if form else None
            if checked and not right(checked):
                self.note(part, case,
                          {"status": "skipped", "error": f"its checked form: {why_wrong(checked)}"})
                continue
            entry = self.run(case, seconds, part, avoid, worker,
                             until) if checked or not form else None
            if entry and case.get("expands") and entry["status"] == "ended":
                self.sweep(part, ladder.matrix_cases(case, entry), until, worker, seconds)


def right(result):
    return result["status"] == "ended" and "error" not in result and result.get("right", True)


def why_wrong(result):
    if "error" in result:
        return result["error"]
    if not result.get("right", True):
        return f"wrong by {result.get('difference')}"
    return result["status"]


def capability(information):
    """90 for a device of compute capability 9.0."""
    found = re.search(r"compute capability (\d+)\.(\d+)", information.get("gpu", ""))
    told = re.search(r"sm_(\d+)", information.get("architecture", ""))
    return 10 * int(found[1]) + int(found[2]) if found else int(told[1]) if told else 0
