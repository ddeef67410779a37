"""Drives a measuring worker up a ladder and through sweeps, and writes what came of it. This
process never touches CUDA, and waits for nothing without limit."""
import argparse
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import carried
import fit
import journal
import ladder
import profile_counters as profile
import report
from campaign_run import CASE_SECONDS, Campaign, capability, right, why_wrong
from load import Load
from worker import Worker

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAMPAIGN = pathlib.Path(__file__).resolve().parent
# In the order in which they run, with their shares of the time: what one does not use goes to those
# after it.
PARTS = {
    "ladder": 8, "primitives": 1, "matmul": 6, "attention": 3, "ragged": 4, "models": 4, "calls": 1,
    "fit": 4, "torch": 4, "bert": 8, "variants": 4, "profile": 4, "matrix": 5, "cpu": 8,
    "sanitizer": 4}
FIRST_PARTS = ("ladder", "primitives", "matmul", "attention", "ragged", "models", "calls", "torch",
               "bert")
# Whose times hold for one boot of one machine; what the others show holds wherever the programs and
# the device are the same.
TIMED = frozenset(PARTS) - {"ladder", "primitives", "profile", "sanitizer"}
LIMIT, FIRST_LIMIT = 480, 240
CARRIED = ROOT / "build/campaign"  # what a machine is sent beside the tree
# What stays there: sending the other again must not replace it.
STATE = ROOT / "build/campaign-state"
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TORCH_CASE_SECONDS = 75
SANITIZER_CASE_SECONDS = 60
PROFILE_CASE_SECONDS = 45
CPU_CASE_SECONDS = 120
CARRY_SECONDS = 60  # between copies of what is carried
LOG_BYTES = 4 << 20
MOST_TRAVELLING = 60 << 20
MOST_FILES, MOST_FILE_BYTES = 8, 16 << 20


class Terminated(BaseException):
    """A signal asked the campaign to end."""


def run_torch(campaign, part, cases, until):
    """In a process of its own, which is told to go where PyTorch is not installed."""
    peer = Worker([sys.executable, str(CAMPAIGN / "torch_worker.py")], campaign.worker.log)
    try:
        ready = peer.run({"id": "torch", "kind": "information"},
                         min(TORCH_CASE_SECONDS, max(campaign.left(), 1)))
        campaign.note(part, {"id": f"{part}/information"}, ready)
        if right(ready):
            campaign.sweep(part, cases, until, peer, TORCH_CASE_SECONDS)
    finally:
        peer.stop()


def run_fit(campaign, until):
    """The cost model's constants from timings of the schedules that it favours; and what it would
    choose with them, measured where that is another schedule."""
    campaign.sweep("fit", ladder.fit_sweep(), until)
    timed = lambda: report.schedule_times(campaign.record.latest(), ("fit", "matrix"))
    times = timed()
    products = [{"m": m, "n": n, "k": k, "schedule": schedule}
                for (m, n, k), by_schedule in times.items()
                for schedule in by_schedule]
    if not products:
        return
    measured = [times[each["m"], each["n"], each["k"]][each["schedule"]] for each in products]

    def ask(constants):
        case = {
            "id": "fit/estimates", "kind": "estimates", "products": products,
            "constants": constants}
        result = campaign.worker.run(case, max(min(CASE_SECONDS, campaign.left()), 1))
        if not right(result):
            raise RuntimeError(f"{case['id']}: {why_wrong(result)}")
        return result

    before = ask({})
    constants = fit.fit(lambda those: ask(those)["estimates_us"], measured, before["constants"])
    chosen = {"before": {}, "after": {}}
    for name, those in (("before", {}), ("after", constants)):
        for case in ladder.fit_sweep():
            entry = campaign.run(
                {**case, "id": f"{case['id']}/{name}", "top": 1, "constants": those}, CASE_SECONDS,
                "fit", until=until)
            best = (entry or {}).get("schedules", {})
            chosen[name].update({(each["m"], case["n"], case["k"]): schedule
                                 for schedule, shapes in best.items() for each in shapes})
            new = {
                schedule: [
                    each
                    for each in shapes
                    if schedule not in times.get((each["m"], case["n"], case["k"]), {})]
                for schedule, shapes in best.items()}
            campaign.sweep(
                "fit",
                ladder.matrix_cases(case, {
                    "schedules": {schedule: shapes for schedule, shapes in new.items() if shapes}}),
                until)
            times = timed()
    campaign.note("fit/result", {"id": "fit/result"}, {
        "status": "ended", "timings": len(measured), "constants": constants,
        "table": fit.table_text(constants), "spread": {
            "before": fit.spread(before["estimates_us"], measured), "after": fit.spread(
                ask(constants)["estimates_us"], measured)}, "regret": {
                    name: fit.regret(choices, times) for name, choices in chosen.items()}})


def run_cpu(campaign, packed, folder, until):
    """The machine's processors, by the command that was carried there."""
    program = folder / "anydim"
    try:
        carried.unpack_command(packed, program)
    except ValueError as error:
        campaign.note("cpu", {"id": "cpu"}, {"status": "skipped", "error": str(error)})
        return
    peer = Worker(
        [sys.executable, str(CAMPAIGN / "cpu_worker.py"),
         str(program), str(folder)], campaign.worker.log)
    try:
        ready = peer.run({"id": "cpu", "kind": "information"},
                         max(min(CASE_SECONDS, campaign.left()), 1))
        campaign.note("cpu", {"id": "cpu/information"}, ready)
        if right(ready):
            campaign.sweep("cpu", ladder.cpu_sweep(ready["processors"]), until, peer,
                           CPU_CASE_SECONDS)
    finally:
        peer.stop()


VARIANT_ROUNDS = (1, 2)


def run_variants(campaign, folders, until):
    """Device functions of folders in place of those built in, and every schedule's kind that
    passed, beside what the cost model chooses: all in turns, at the headline shapes."""
    workers = {
        folder.name: Worker([*campaign.worker.command, "--device-text",
                             str(folder)], campaign.worker.log) for folder in folders}
    texts = {folder.name: journal.digest(folder) for folder in folders}
    gone = set()
    try:
        for case in ladder.variant_cases():
            alternatives = {"": {}, **{name: {"text": text} for name, text in texts.items()}}
            if case["kind"] == "matmul":
                alternatives |= {
                    each: {"schedule": each} for each in ladder.kinds_of_schedule(campaign.passed)}
            for variant_round in VARIANT_ROUNDS:
                for name, more in alternatives.items():
                    if (name, None) in gone or (name, case["id"]) in gone:
                        continue
                    one = {
                        **case, **more, "id": f"{case['id']}/{name or 'as it is'}/{variant_round}",
                        "variant": name or "as it is", "of": case["id"]}
                    before = len(campaign.results)
                    campaign.sweep("variants", [one], until, workers.get(name))
                    if any(entry.get("absent") for entry in campaign.results[before:]):
                        gone.add((name, case["id"]))
                    elif not all(map(right, campaign.results[before:])):
                        # Text that is wrong once is not tried again.
                        gone.add((name, case["id"] if name not in workers else None))
    finally:
        for each in workers.values():
            each.stop()


def run_profile(campaign, until):
    """Nsight Compute on a kernel each of what is timed: its tensor pipe, why its warps stall, what
    its caches move."""
    tool = shutil.which("ncu") or next(
        iter(
            sorted(map(str,
                       pathlib.Path("/opt/nvidia/nsight-compute").glob("*/ncu")), reverse=True)),
        None)
    if tool is None:
        campaign.note("profile", {"id": "profile"},
                      {"status": "skipped", "error": "Nsight Compute (ncu) is not installed"})
        return
    with tempfile.TemporaryDirectory(prefix="anydim_profile_") as folder:
        counters = pathlib.Path(folder) / "counters.csv"
        command = profile.command(tool, counters, campaign.worker.command)
        for case in ladder.profile_cases():
            inner = Worker(command, campaign.worker.log)
            try:
                entry = campaign.run(
                    case, PROFILE_CASE_SECONDS, "profile", worker=inner,
                    until=until) if not set(case["needs"]) - campaign.passed else None
                inner.finish(20)
            finally:
                inner.stop()
            if entry and counters.exists():
                campaign.note("profile/counters", {"id": f"{case['id']}/counters"}, {
                    "status": "ended", "kernels": profile.kernels(
                        counters.read_text(encoding="utf8", errors="replace"))})
                counters.unlink()


def run_sanitizer(campaign, until):
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        campaign.note("sanitizer", {"id": "sanitizer"},
                      {"status": "skipped", "error": "compute-sanitizer is not installed"})
        return
    for kind in ("memcheck", "racecheck"):
        for name, _, cases in ladder.rungs(campaign.capability):
            if name not in campaign.passed or not cases or min(campaign.left(),
                                                               until - time.monotonic()) < 10:
                continue
            case = {
                **cases[-1], "passes": 1, "avoid": ladder.avoided(campaign.passed, name),
                "id": f"sanitizer/{kind}/{name}"}
            if campaign.known(case, "sanitizer", []):
                continue
            inner = Worker(
                [tool, "--tool", kind, "--error-exitcode", "9", *campaign.worker.command],
                campaign.worker.log)
            try:
                result = inner.run(case, min(SANITIZER_CASE_SECONDS, max(campaign.left(), 1)))
                if result["status"] == "ended":
                    result["clean"] = inner.finish(20) == 0
            finally:
                inner.stop()
            campaign.note("sanitizer", case, result)


def slice_of(campaign, part, parts):
    """When the part's time ends: its share of what is left for it and those after it."""
    order = list(PARTS)
    return time.monotonic() + campaign.left() * PARTS[part] / sum(
        PARTS[each] for each in order[order.index(part):] if each in parts)


def run_part(campaign, part, parts, options):
    until = slice_of(campaign, part, parts)
    first = options.first_contact
    sweeps = {
        "primitives": lambda: ladder.primitive_cases(options.state / "primitives", campaign.
                                                     capability),
        "matmul": lambda: [*ladder.matmul_headlines(), *(() if first else ladder.matmul_sweep())],
        "attention": lambda: ladder.attention_sweep(first),
        "ragged": lambda: ladder.ragged_sweep(first), "models": lambda: ladder.model_sweep(first),
        "calls": ladder.calls_sweep, "matrix": ladder.matrix_sweep}
    if part == "ladder":
        campaign.climb(until, first)
    elif part == "fit":
        run_fit(campaign, until)
    elif part == "variants":
        run_variants(campaign, options.variant, until)
    elif part in sweeps:
        campaign.sweep(part, sweeps[part](), until)
    else:
        campaign.worker.stop()
        if part == "sanitizer":
            run_sanitizer(campaign, until)
        elif part == "profile":
            run_profile(campaign, until)
        elif part == "cpu":
            run_cpu(campaign, options.carried / carried.COMMAND, options.state / "cpu", until)
        else:
            run_torch(campaign, part, {"torch": ladder.torch_sweep,
                                       "bert": ladder.bert_sweep}[part](first), until)


def run_all(campaign, parts, options, identity_of):
    """Everything, in order; what fails says so in the record, and what comes after it goes on."""
    entry = campaign.run({"id": "information", "kind": "information"}, CASE_SECONDS,
                         "information") if campaign.prove_worker() else None
    information = report.information_of([entry] if entry else [])
    campaign.record.begin(sys.argv[1:], identity_of(information), [options.carried])
    for why in campaign.record.refused:
        say(campaign, why)
    campaign.capability = capability(information)
    kernels = options.state / "kernels"
    archive = options.carried / carried.ARCHIVE
    made = carried.fits(information)
    if archive.exists():
        try:
            say(campaign, f"{carried.unpack(archive, kernels, made)} kernels were carried here")
        except ValueError as error:
            say(campaign, str(error))
    if campaign.stopped:
        return
    packed = [None, time.monotonic()]

    def carry():
        there = {each.name for each in kernels.glob("*.kernel")}
        if there and there != packed[0]:
            carried.pack(kernels, options.out / carried.ARCHIVE, made)
            packed[:] = there, time.monotonic()

    def after_case():
        trim(campaign.worker.log.name)
        if time.monotonic() - packed[1] > CARRY_SECONDS:
            carry()

    campaign.after_case = after_case
    for part in PARTS:
        # Even where no part asks for the ladder: what passed decides what may be measured.
        if campaign.stopped or (part not in parts and part != "ladder"):
            continue
        before, reused, begin = len(campaign.results), campaign.reused, time.monotonic()
        try:
            run_part(campaign, part, [*parts, "ladder"], options)
        # A mistake in one part must not cost the others.
        except Exception as error:  # pylint: disable=broad-exception-caught
            campaign.note(part, {"id": f"{part}/supervisor"},
                          {"status": "failed", "error": f"{type(error).__name__}: {error}"})
        say(
            campaign,
            f"{part}: {len(campaign.results) - before} cases, {campaign.reused - reused} of them known, in {time.monotonic() - begin:.0f} s"
        )
        pack_primitives(options.state / "primitives", options.out)
        carry()


def say(campaign, text):
    print(f"[{campaign.left():5.0f} s left] {text}", flush=True)


def trim(path):
    """A library that says the same a million times must not fill what comes back."""
    if os.path.getsize(path) > 2 * LOG_BYTES:
        with open(path, "r+b") as log:
            log.seek(-LOG_BYTES, os.SEEK_END)
            tail = log.read()
            log.seek(0)
            log.truncate()
            log.write(tail)


def pack_primitives(folder, out):
    files = sorted(folder.glob("*.npy"))
    if files:
        with tarfile.open(out / "primitives.tar.gz", "w:gz") as archive:
            for each in files:
                archive.add(each, f"primitives/{each.name}")


def write_results(campaign, out):
    summary = report.summarise(campaign)
    for name, text in (("results.json", report.as_json(summary)), ("results.md",
                                                                   report.markdown(summary))):
        (out / name).write_text(text, encoding="utf8")
    files = [each for each in out.rglob("*") if each.is_file()]
    large = [each.name for each in files if each.stat().st_size > MOST_FILE_BYTES]
    if len(files) > MOST_FILES or large:
        print(f"gpu_campaign: {len(files)} files under {out}, too large: {large}", file=sys.stderr)
    return summary


def retell(out, log):
    """Results of a campaign that was killed before it wrote any."""
    campaign = Campaign([], journal.Record.of(out, TIMED), 0, log)
    campaign.passed.add("empty")
    campaign.capability = capability(report.information_of(campaign.record.entries))
    campaign.climb()
    return write_results(campaign, out)


def travelling_bytes():
    """What a device machine is sent: files that git does not ignore, and what is carried beside
    them."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], capture_output=True,
        text=True, check=True).stdout
    tree = sum(
        (ROOT / name).stat().st_size for name in listed.splitlines() if (ROOT / name).is_file())
    programs = [ROOT / "build/slim/bin" / name for name in ("anydim", "campaign_worker")]
    beside = sum(each.stat().st_size for each in CARRIED.rglob("*") if each.is_file())
    return tree, sum(program.stat().st_size
                     for program in programs) if all(program.exists()
                                                     for program in programs) else None, beside


def check():
    tree, command, beside = travelling_bytes()
    if command is None:
        print(
            "gpu_campaign: there is no slim build; make one: cmake --preset slim && cmake --build build/slim --target anydim campaign_worker",
            file=sys.stderr)
        return 1
    total = tree + command + beside
    print(
        f"tree {tree / 2**20:.1f} MiB + programs {command / 2**20:.1f} MiB + carried {beside / 2**20:.1f} MiB = {total / 2**20:.1f} MiB of {MOST_TRAVELLING >> 20} MiB"
    )
    return 0 if total < MOST_TRAVELLING else 1


def identity_of(information, command):
    """What must be the same for an earlier command's cases to hold: device, driver, programs and
    the data that they are compared with."""
    driver = pathlib.Path("/proc/driver/nvidia/version")
    return {
        **{name: information.get(name, "") for name in ("gpu", "architecture")},
        **carried.fits(information), "driver": driver.read_text(
            encoding="utf8").splitlines()[0] if driver.exists() else "",
        "worker": journal.digest(shutil.which(command[0]) or command[0]
                                 ), "data": journal.digest(ladder.PRIMITIVES, ladder.EXPECTED)}


def parsed():
    parser = argparse.ArgumentParser(prog="gpu_campaign.sh")
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--limit", type=float, metavar="SECONDS",
                        help=f"default {LIMIT}, {FIRST_LIMIT} for a first contact")
    parser.add_argument("--first-contact", action="store_true",
                        help="one case a rung, four headline shapes a part")
    parser.add_argument("--case", type=float, default=CASE_SECONDS, metavar="SECONDS",
                        help="the most that one case of the ladder may take")
    parser.add_argument("--state", type=pathlib.Path, default=STATE, metavar="FOLDER",
                        help="what outlives a command: cases that ended, kernels")
    parser.add_argument(
        "--carried", type=pathlib.Path, default=CARRIED, metavar="FOLDER",
        help="what was brought here: kernels, cases of another machine, the command for the CPU")
    parser.add_argument("--again", action="store_true",
                        help="also what went wrong in an earlier command")
    parser.add_argument(
        "--variant", action="append", default=[], type=pathlib.Path, metavar="FOLDER",
        help="device functions (*.cuh) to measure beside those built in; repeatable")
    parser.add_argument(
        "--rehearse", action="store_true", help=
        "shapes that the interpreter computes in seconds, in place of those that mean something on a GPU"
    )
    parser.add_argument("--report", action="store_true",
                        help="results of a campaign that was killed, from what it left in OUT")
    parser.add_argument("--check", action="store_true", help="whether what travels is small enough")
    options = parser.parse_intermixed_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if not options.check and (options.out is None or unknown):
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}"
                     if unknown else "OUT is missing")
    options.parts = options.parts or (FIRST_PARTS if options.first_contact else list(PARTS))
    options.limit = options.limit or (FIRST_LIMIT if options.first_contact else LIMIT)
    return options


def main():
    options = parsed()
    if options.check:
        return check()
    if options.rehearse:
        ladder.rehearse()
    for folder in (options.out, options.state):
        folder.mkdir(parents=True, exist_ok=True)
    options.out, options.state, options.carried = options.out.resolve(), options.state.resolve(
    ), options.carried.resolve()
    if options.report:
        with open(os.devnull, "w", encoding="utf8") as log:
            print(report.markdown(retell(options.out, log)))
        return 0

    def terminate(number, _):
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(signal.Signals(number).name)

    for each in ENDING:
        if signal.getsignal(each) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(each, terminate)
    with open(options.state / "lock", "w",
              encoding="utf8") as lock, open(options.out / "worker.log", "a",
                                             encoding="utf8") as log:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(
                f"gpu_campaign: another campaign works in {options.state}; wait for it, or give this one a folder with --state",
                file=sys.stderr)
            return 1
        command = shlex.split(os.environ.get("ANYDIM_WORKER", "")) or [
            str(ROOT / "build/slim/bin/campaign_worker"), "--device", "cuda", "--quiet",
            "--cache-dir",
            str(options.state / "kernels")]
        if shutil.which(command[0]) is None:
            print(
                f"gpu_campaign: there is no worker {command[0]}; make one: cmake --preset slim && cmake --build build/slim --target campaign_worker, or name one in ANYDIM_WORKER",
                file=sys.stderr)
            return 1
        record = journal.Journal(options.state, options.out, TIMED)
        campaign = Campaign(command, record, options.limit, log, options.case, Load(log),
                            options.again)
        try:
            run_all(campaign, options.parts, options,
                    lambda information: identity_of(information, command))
        except Terminated as signalled:
            campaign.stopped = f"{signalled} came"
        finally:
            campaign.worker.stop()
            campaign.load.stop()
            log.flush()
            summary = write_results(campaign, options.out)
            record.close()
    print(report.markdown(summary))
    return 1 if campaign.stopped else 0


if __name__ == "__main__":
    sys.exit(main())
