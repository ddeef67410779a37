"""The campaign's supervisor with workers that hang, crash, fault and answer wrong, and killed
itself. No GPU, no anydim. FAKE_NVML names a library that stands in for NVML."""
import math
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench/campaign"))

import campaign_run  # noqa: E402
import carried  # noqa: E402
import fit  # noqa: E402
import journal  # noqa: E402
import ladder  # noqa: E402
import profile_counters  # noqa: E402
import report  # noqa: E402
import supervisor  # noqa: E402
import worker  # noqa: E402
from load import Load  # noqa: E402

RUNGS = [
    ("map", ["empty"], [ladder.program("map/1", "", {}), ladder.program("map/2", "", {})]),
    ("reduce", ["map"], [ladder.program("reduce/1", "", {})]),
    ("matmul_mma", ["map"], [ladder.program("matmul_mma/1", "", {})]),
    ("ring", ["matmul_mma"], [ladder.program("ring/1", "", {}), ladder.program("ring/2", "", {})]),
    ("graph", ["reduce", "matmul_mma"], [ladder.program("graph/1", "", {})]),
]


ladder_rungs = ladder.rungs  # tests put others in their place


class Climbing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_campaign_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, value in (("CASE_SECONDS", 1.0), ("SWEEP_SECONDS", 1.0), ("OVERRUN_SECONDS",
                                                                            0.2)):
            self.addCleanup(setattr, campaign_run, name, getattr(campaign_run, name))
            setattr(campaign_run, name, value)
        self.addCleanup(setattr, ladder, "rungs", ladder.rungs)
        ladder.rungs = lambda _: RUNGS

    def campaign(self, plan, limit=60, **more):
        """Over what earlier ones of the same test have left."""
        (self.folder / "plan").write_text(plan)
        log = open(self.folder / "log", "w", encoding="utf8")
        self.addCleanup(log.close)
        command = [
            sys.executable,
            str(HERE / "fake_worker.py"),
            str(self.folder / "plan"),
            str(self.folder / "starts")]
        record = journal.Journal(self.folder / "state", self.folder / "out", supervisor.TIMED)
        self.addCleanup(record.close)
        campaign = campaign_run.Campaign(command, record, limit, log, **more)
        self.addCleanup(campaign.worker.stop)
        return campaign

    def climb(self, plan, limit=60, first=False, **more):
        campaign = self.campaign(plan, limit, **more)
        if campaign.prove_worker():
            campaign.record.begin(["test"], {"device": "fake"})
            campaign.climb(first=first)
        return campaign

    def cases(self):
        """That reached a worker, in order, without its proofs."""
        lines = (self.folder / "starts").read_text().splitlines()
        return [
            line.split(" ", 1)[1]
            for line in lines
            if line.startswith("case ") and "empty/" not in line]

    def starts(self):
        return (self.folder / "starts").read_text().splitlines().count("start")

    def test_everything_passes_in_one_worker(self):
        campaign = self.climb("map/1 chatter")
        self.assertEqual(campaign.passed, {"empty", "map", "reduce", "matmul_mma", "ring", "graph"})
        self.assertEqual((campaign.closed, campaign.stopped, self.starts()), ({}, None, 1))

    def test_a_hang_closes_its_rung_and_a_new_worker_goes_on(self):
        campaign = self.climb("ring/1 hang")
        self.assertEqual(campaign.closed,
                         {"ring": "ring/1: no end within 1 s; the worker was killed"})
        self.assertIn("graph", campaign.passed)
        self.assertEqual(self.starts(), 2)
        self.assertNotIn("ring/2", [each["case"]["id"] for each in campaign.results])

    def test_a_crash_and_a_fault_close_their_rungs(self):
        campaign = self.climb("reduce/1 crash\nring/2 fault")
        self.assertEqual(campaign.closed["reduce"], "reduce/1: the worker ended with exit code -6")
        self.assertEqual(campaign.closed["ring"], "ring/2: what went wrong")
        self.assertEqual(campaign.closed["graph"], "needs reduce")
        self.assertEqual(campaign.passed, {"empty", "map", "matmul_mma"})
        self.assertEqual(self.starts(), 3)

    def test_a_wrong_result_closes_its_rung_and_keeps_the_worker(self):
        campaign = self.climb("matmul_mma/1 wrong")
        self.assertEqual(
            campaign.closed, {
                "matmul_mma": "matmul_mma/1: wrong by 0.5", "ring": "needs matmul_mma",
                "graph": "needs matmul_mma"})
        self.assertEqual(self.starts(), 1)

    def test_a_device_that_is_gone_stops_it(self):
        campaign = self.climb("map/2 hang\nempty/2 mute\nempty/3 crash")
        self.assertTrue(
            campaign.stopped.startswith(
                "two new workers in a row cannot run an empty kernel: the worker ended"),
            campaign.stopped)
        self.assertNotIn("map", campaign.passed)
        self.assertEqual(self.starts(), 3)

    def test_one_bad_new_worker_is_forgiven(self):
        campaign = self.climb("map/2 hang\nempty/2 mute")
        self.assertIsNone(campaign.stopped)
        self.assertEqual(set(campaign.closed), {"map", "reduce", "matmul_mma", "ring", "graph"})

    def test_a_kind_that_the_device_lacks_is_no_failure(self):
        campaign = self.climb("ring/ absent")
        self.assertEqual(campaign.closed, {"ring": "no schedule of this kind for the device"})

    def test_the_limit_ends_it(self):
        campaign = self.climb("map/1 hang", limit=0.6)
        self.assertEqual(campaign.results[-1]["status"], "cut")
        self.assertIn("map", campaign.closed)

    def test_sweeps_run_only_what_passed(self):
        campaign = self.climb("matmul_mma/1 wrong")
        campaign.sweep("matmul", ladder.matmul_sweep())
        self.assertEqual({each["status"] for each in campaign.results if each["part"] == "matmul"},
                         {"skipped"})

    def test_a_sweep_runs_checked_forms_first(self):
        campaign = self.climb("matmul/1152x384/1/checked fault\nmatmul/1536x384/1/checked wrong")
        campaign.passed.add("wgmma_tile")
        campaign.sweep("matmul", list(ladder.matmul_sweep())[:3])
        became = [(each["case"]["id"], each["case"].get("checked",
                                                        False), each["status"], each.get("error"))
                  for each in campaign.results
                  if each["part"].startswith("matmul")]
        self.assertEqual(became, [
            ("matmul/1152x384/1/checked", True, "ended", "what went wrong"),
            ("matmul/1152x384/1", False, "skipped", "its checked form: what went wrong"),
            ("matmul/384x384/1/checked", True, "ended", None),
            ("matmul/384x384/1", False, "ended", None),
            ("matmul/1536x384/1/checked", True, "ended", None),
            ("matmul/1536x384/1", False, "skipped", "its checked form: wrong by 0.5")])

    def test_what_has_not_passed_is_avoided(self):
        self.assertIn("matmul_wgmma", ladder.avoided({"matmul_mma", "wgmma_tile"}))
        on_the_ring = ladder.avoided({"matmul_mma", "wgmma_tile"}, "ring")
        self.assertNotIn("matmul_wgmma", on_the_ring)
        self.assertNotIn("matmul_mma", on_the_ring)
        self.assertIn("matmul_wgmma tma_store>0", on_the_ring)
        names = [name for name, _, _ in ladder_rungs(90)]
        self.assertEqual(ladder.avoided(set(names)), [])
        for rungs, _ in ladder.FEATURES:
            self.assertLessEqual(set(rungs), set(names))

    def test_every_case_of_a_schedule_stands_behind_its_checked_form(self):
        for name, _, cases in ladder_rungs(90):
            self.assertTrue(cases, name)
            before = set()
            for case in cases:
                if "schedule" in case and not case["checked"]:
                    self.assertIn(f"{case['id']}/checked", before)
                before.add(case["id"])
            self.assertEqual(len(before), len(cases), name)

    def test_the_matrix_asks_for_schedules_and_measures_each(self):
        campaign = self.climb("")
        campaign.sweep("matrix", list(ladder.matrix_sweep())[:1])
        names = [each["case"]["id"] for each in campaign.results if each["part"] == "matrix"]
        self.assertEqual(names, [
            "matrix/1152x384", "matrix/1152x384/matmul_mma bm=64",
            "matrix/1152x384/matmul_wgmma bm=128"])


    def test_one_case_a_rung_comes_first(self):
        campaign = self.climb("")
        self.assertEqual(self.cases(), [
            "map/1", "reduce/1", "matmul_mma/1", "ring/1", "graph/1", "map/2", "ring/2"])
        self.assertEqual(campaign.climbed["ring"], (2, 2))

    def test_a_later_case_that_fails_closes_its_rung_and_those_above(self):
        campaign = self.climb("map/2 wrong")
        self.assertEqual(campaign.passed, {"empty"})
        self.assertEqual(campaign.closed["map"], "map/2: wrong by 0.5")
        self.assertEqual(campaign.closed["graph"], "needs reduce, matmul_mma")

    def test_a_first_contact_stops_there(self):
        campaign = self.climb("", first=True)
        self.assertEqual(self.cases(), ["map/1", "reduce/1", "matmul_mma/1", "ring/1", "graph/1"])
        self.assertEqual(report.summarise(campaign)["rungs"]["ring"], "passed 1 of 2 cases")

    def test_what_ended_is_not_run_again(self):
        self.climb("reduce/1 wrong\nring/1 crash", first=True)
        before = self.cases()
        campaign = self.climb("")
        self.assertEqual(self.cases()[len(before):], ["map/2"])
        self.assertEqual(
            campaign.closed, {
                "reduce": "reduce/1: wrong by 0.5",
                "ring": "ring/1: the worker ended with exit code -6", "graph": "needs reduce"})
        campaign = self.climb("", again=True)
        self.assertEqual(self.cases()[len(before) + 1:],
                         ["reduce/1", "ring/1", "graph/1", "ring/2"])
        self.assertEqual(campaign.closed, {})

    def test_what_another_device_or_program_found_is_refused(self):
        self.climb("")
        campaign = self.campaign("")
        campaign.record.begin(["test"], {"device": "another", "worker": "w"})
        self.assertEqual(campaign.record.refused, [
            "8 cases of an earlier command are refused: device was fake, here another, worker was None, here w"
        ])
        self.assertEqual(campaign.record.known, {})

    def test_times_of_another_boot_are_taken_again(self):
        self.addCleanup(setattr, journal, "boot", journal.boot)
        journal.boot = lambda: "before"
        self.climb("").sweep("matmul", list(ladder.matmul_sweep())[:1])
        journal.boot = lambda: "now"
        before = len(self.cases())
        self.climb("").sweep("matmul", list(ladder.matmul_sweep())[:1])
        self.assertEqual(self.cases()[before:], ["matmul/1152x384/1"])

    def test_a_part_leaves_the_others_their_time(self):
        campaign = self.climb("matmul/ hang", limit=30)
        begin = time.monotonic()
        campaign.sweep("matmul", ladder.matmul_sweep(), begin + 0.3)
        self.assertLess(time.monotonic() - begin, 3)
        self.assertEqual([each["status"] for each in campaign.results if each["part"] == "matmul"],
                         ["cut"])
        campaign.sweep("calls", ladder.calls_sweep(), time.monotonic() + 20)
        self.assertEqual([each["status"] for each in campaign.results if each["part"] == "calls"],
                         ["ended"] * 3)

    def test_slices_add_up_and_what_is_left_flows_on(self):
        campaign = self.campaign("", limit=100)
        now, parts = time.monotonic(), ["matmul", "attention", "ragged"]
        ends = [supervisor.slice_of(campaign, part, parts) - now for part in parts]
        shares = [supervisor.PARTS[part] for part in parts]
        for got, want in zip(
                ends, (100 * shares[0] / sum(shares), 100 * shares[1] / sum(shares[1:]), 100)):
            self.assertAlmostEqual(got, want, delta=0.5)

    def test_a_log_without_end_is_cut(self):
        path = self.folder / "long"
        path.write_bytes(b"x" * (2 * supervisor.LOG_BYTES) + b"the end")
        supervisor.trim(path)
        self.assertEqual((path.stat().st_size, path.read_bytes()[-7:]),
                         (supervisor.LOG_BYTES, b"the end"))


class Waiting(unittest.TestCase):
    """Nothing waits without limit."""

    def test_a_worker_that_survives_sigkill_is_left_behind(self):
        real = os.killpg
        self.addCleanup(setattr, os, "killpg", real)
        self.addCleanup(setattr, worker, "KILL_SECONDS", worker.KILL_SECONDS)
        worker.KILL_SECONDS = 0.3
        os.killpg = lambda *_: None  # as of a process that hangs within a driver
        one = worker.Worker([sys.executable, "-c", "import time\ntime.sleep(100)"], None)
        one.start()
        held = one.process
        self.addCleanup(held.wait, 5)
        self.addCleanup(real, held.pid, signal.SIGKILL)
        begin = time.monotonic()
        result = one.run({"id": "x"}, 0.2)
        self.assertLess(time.monotonic() - begin, 3)
        self.assertEqual(
            (result["status"], result["error"]),
            ("hung",
             "no end within 0 s; the worker was killed, and is still there: the driver holds it"))
        self.assertEqual((one.process, one.left_behind), (None, 1))

    def test_a_case_that_nobody_reads(self):
        one = worker.Worker([sys.executable, "-c", "import time\ntime.sleep(100)"], None)
        self.assertEqual(one.run({"id": "x", "text": "x" * (4 << 20)}, 0.5)["status"], "hung")

    def test_chatter_without_end(self):
        one = worker.Worker([sys.executable, "-c", "while True: print('x' * 1000)"], None)
        self.assertEqual(one.run({"id": "x"}, 0.5)["status"], "hung")

    def test_a_worker_dies_with_its_supervisor(self):
        text = f"import sys; sys.path.insert(0, {str(ROOT / 'bench/campaign')!r}); import worker, time\none = worker.Worker(['sleep', '100'], None)\none.start()\nprint(one.process.pid, flush=True)\ntime.sleep(100)"
        with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE,
                              text=True) as supervising:
            child = os.pidfd_open(int(supervising.stdout.readline()))
            self.addCleanup(os.close, child)
            supervising.kill()
        self.assertEqual(select.select([child], [], [], 5)[0], [child], "readable once it ended")


class Carried(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_carried_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.kernels = self.folder / "kernels"
        self.kernels.mkdir()
        self.made = {"code target": "cuda sm_90a", "code generator": "abc NVRTC 13.0"}
        self.archive = self.folder / carried.ARCHIVE

    def test_kernels_travel(self):
        for number in range(3):
            (self.kernels / f"{number:032x}.kernel").write_bytes(bytes([number]) * 100)
        (self.kernels / "tuning.db").write_text("no kernel")
        carried.pack(self.kernels, self.archive, self.made)
        self.assertEqual(carried.unpack(self.archive, self.folder / "there", self.made), 3)
        self.assertEqual(
            sorted((each.name, each.read_bytes()) for each in (self.folder / "there").iterdir()),
            [(f"{number:032x}.kernel", bytes([number]) * 100) for number in range(3)])

    def test_kernels_of_another_device_or_generator_are_refused(self):
        carried.pack(self.kernels, self.archive, self.made)
        with self.assertRaisesRegex(
                ValueError,
                r"kernels.tar.gz are refused: code generator was abc NVRTC 13.0, here def NVRTC 13.1$"
        ):
            carried.unpack(self.archive, self.folder / "there",
                           {**self.made, "code generator": "def NVRTC 13.1"})
        self.assertFalse((self.folder / "there").exists())

    def test_a_damaged_archive_is_refused(self):
        (self.kernels / f"{1:032x}.kernel").write_bytes(os.urandom(5000))
        carried.pack(self.kernels, self.archive, self.made)
        self.archive.write_bytes(self.archive.read_bytes()[:-3000])
        with self.assertRaisesRegex(ValueError, "cannot be read"):
            carried.unpack(self.archive, self.folder / "there", self.made)

    def test_no_more_than_may_come_back(self):
        self.addCleanup(setattr, carried, "MOST_BYTES", carried.MOST_BYTES)
        carried.MOST_BYTES = 20000
        for number in range(9):
            path = self.kernels / f"{number:032x}.kernel"
            path.write_bytes(os.urandom(5000))
            os.utime(path, (number, number))
        carried.pack(self.kernels, self.archive, self.made)
        self.assertLess(self.archive.stat().st_size, 21000)
        carried.unpack(self.archive, self.folder / "there", self.made)
        self.assertIn(f"{8:032x}.kernel", os.listdir(self.folder / "there"))
        self.assertNotIn(f"{0:032x}.kernel", os.listdir(self.folder / "there"))


class Fitting(unittest.TestCase):
    def test_constants_are_found_again(self):
        """Of a model with corners, as the real one has: waves, and the larger of two times."""
        truth = {
            "start_seconds": 3.1e-6, "first_bytes_cycles": 1400, "wgmma_share": 0.7,
            "split_latency": 700}
        start = {
            "start_seconds": 2e-6, "first_bytes_cycles": 900, "wgmma_share": 0.95,
            "split_latency": 700}
        shapes = [(m, n, k)
                  for m in (1, 100, 300, 1000, 3000, 8000, 20000)
                  for n in (384, 1152, 3072)
                  for k in (64, 768)]

        def estimate(constants):
            seconds = []
            for m, n, k in shapes:
                waves = math.ceil(math.ceil(m / 128) * math.ceil(n / 128) / 132)
                cycles = waves * max(128 * 128 * k * 2 / 4096 / constants["wgmma_share"],
                                     constants["first_bytes_cycles"] + k)
                seconds.append(constants["start_seconds"] + cycles / 1.75e9)
            return seconds

        measured = [value * (1 + 0.02 * (-1) ** i) for i, value in enumerate(estimate(truth))]
        found = fit.fit(estimate, measured, start)
        self.assertGreater(fit.spread(estimate(start), measured), 1.2)
        self.assertLess(fit.spread(estimate(found), measured), 1.03)
        for name in ("start_seconds", "first_bytes_cycles", "wgmma_share"):
            self.assertAlmostEqual(found[name] / truth[name], 1, delta=0.1, msg=name)
        # What no timing tells of stays.
        self.assertAlmostEqual(found["split_latency"], 700)

    def test_regret(self):
        times = {(1, 64, 64): {"a": 2.0, "b": 1.0}, (8, 64, 64): {"a": 3.0}}
        ratio, shapes = fit.regret({(1, 64, 64): "a", (8, 64, 64): "a", (9, 64, 64): "a"}, times)
        self.assertAlmostEqual(ratio, 2 ** 0.5)
        self.assertEqual(shapes, 2)
        self.assertEqual(fit.regret({(1, 64, 64): "c"}, times), (None, 0))


class Counters(unittest.TestCase):
    def test_what_a_table_says(self):
        text = (
            '==PROF== Connected to process 1\n"ID","Kernel Name","gpu__time_duration.sum","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","device__attribute_x"\n'
            '"","","usecond","%",""\n"0","matmul_0","1,012.5","71.2","9"\n"1","matmul_0","n/a","70","9"\n'
        )
        self.assertEqual(profile_counters.kernels(text), [{
            "kernel": "matmul_0", "counters": {
                "gpu__time_duration.sum [usecond]": 1012.5,
                "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active [%]": 71.2}}, {
                    "kernel": "matmul_0", "counters": {
                        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active [%]": 70.0}}
                                                          ])
        self.assertEqual(profile_counters.kernels("==ERROR== the profiler may not read counters\n"),
                         [])


class UnderLoad(unittest.TestCase):
    def load(self, library):
        before = os.environ.get("ANYDIM_NVML")
        self.addCleanup(lambda: os.environ.update(ANYDIM_NVML=before)
                        if before is not None else os.environ.pop("ANYDIM_NVML", None))
        os.environ["ANYDIM_NVML"] = library
        load = Load(subprocess.DEVNULL)
        self.addCleanup(load.stop)
        return load

    @unittest.skipUnless("FAKE_NVML" in os.environ, "FAKE_NVML is not set")
    def test_clocks_power_and_temperature(self):
        """The fake's clock rises by 10 MHz a reading from 1000; it draws 300.5 W at 61 C, held back
        by its power cap."""
        load = self.load(os.environ["FAKE_NVML"])
        begin = time.monotonic()
        told = None
        while (told is None
               or told["sm_mhz"][0] == told["sm_mhz"][2]) and time.monotonic() < begin + 20:
            select.select([load.process.stdout], [], [], 20)
            told = load.between(begin, time.monotonic())
        self.assertEqual((told["power_w"], told["temperature_c"], told["reasons"]),
                         ([300.5] * 3, [61] * 3, ["power cap"]))
        self.assertEqual(told["sm_mhz"][0] % 10, 0)
        self.assertLess(told["sm_mhz"][0], told["sm_mhz"][2])
        self.assertIsNone(load.between(begin - 2, begin - 1))

    def test_without_the_library_nothing_is_told(self):
        load = self.load("/nowhere/libnvidia-ml.so.1")
        load.process.wait(timeout=20)  # it says why, and ends
        self.assertIsNone(load.between(0, time.monotonic()))

    def test_a_part_is_told_of_as_a_whole(self):
        one, two = ({"sm_mhz": [low, low + 10, low + 20], "reasons": reasons}
                    for low, reasons in ((1000, []), (1200, ["power cap"])))
        entries = [{"part": "matmul/checked", "load": one}, {"part": "matmul", "load": two},
                   {"part": "calls"}]
        self.assertEqual(report.loads(entries),
                         {"matmul": {"reasons": ["power cap"], "sm_mhz": [1000, 1210, 1220]}})


if __name__ == "__main__":
    unittest.main()
