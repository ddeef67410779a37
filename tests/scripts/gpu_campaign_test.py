"""The campaign's supervisor with workers that hang, crash, fault and answer wrong. No GPU, no anydim."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench/campaign"))

import ladder  # noqa: E402
import supervisor  # noqa: E402

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
        for name, value in (("CASE_SECONDS", 1.0), ("SWEEP_SECONDS", 1.0)):
            self.addCleanup(setattr, supervisor, name, getattr(supervisor, name))
            setattr(supervisor, name, value)
        self.addCleanup(setattr, ladder, "rungs", ladder.rungs)
        ladder.rungs = lambda _: RUNGS

    def climb(self, plan, limit=60):
        (self.folder / "plan").write_text(plan)
        log = open(self.folder / "log", "w", encoding="utf8")
        self.addCleanup(log.close)
        command = [sys.executable, str(HERE / "fake_worker.py"), str(self.folder / "plan"), str(self.folder / "starts")]
        campaign = supervisor.Campaign(command, self.folder, limit, log)
        self.addCleanup(campaign.worker.stop)
        if campaign.prove_worker():
            campaign.climb()
        return campaign

    def starts(self):
        return (self.folder / "starts").read_text().count("start")

    def test_everything_passes_in_one_worker(self):
        campaign = self.climb("map/1 chatter")
        self.assertEqual(campaign.passed, {"empty", "map", "reduce", "matmul_mma", "ring", "graph"})
        self.assertEqual((campaign.closed, campaign.stopped, self.starts()), ({}, None, 1))

    def test_a_hang_closes_its_rung_and_a_new_worker_goes_on(self):
        campaign = self.climb("ring/1 hang")
        self.assertEqual(campaign.closed, {"ring": "ring/1: no end within 1 s; the worker was killed"})
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
        self.assertEqual(campaign.closed, {"matmul_mma": "matmul_mma/1: wrong by 0.5", "ring": "needs matmul_mma", "graph": "needs matmul_mma"})
        self.assertEqual(self.starts(), 1)

    def test_a_device_that_is_gone_stops_it(self):
        campaign = self.climb("map/2 hang\nempty/3 mute\nempty/4 crash")
        self.assertTrue(campaign.stopped.startswith("two new workers in a row cannot run an empty kernel: the worker ended"), campaign.stopped)
        self.assertEqual(campaign.passed, {"empty"})
        self.assertEqual(self.starts(), 3)

    def test_one_bad_new_worker_is_forgiven(self):
        campaign = self.climb("map/2 hang\nempty/3 mute")
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
        campaign.sweep("matmul", ladder.matmul_sweep(campaign.passed))
        self.assertEqual({each["status"] for each in campaign.results if each["part"] == "matmul"}, {"skipped"})

    def test_a_sweep_runs_checked_twins_first(self):
        campaign = self.climb("matmul/1152x384/1/checked fault\nmatmul/384x384/1/checked wrong")
        campaign.passed.add("wgmma_tile")
        campaign.sweep("matmul", list(ladder.matmul_sweep(campaign.passed))[:3])
        became = [(each["case"]["id"], each["case"].get("checked", False), each["status"], each.get("error")) for each in campaign.results if each["part"].startswith("matmul")]
        self.assertEqual(became, [("matmul/1152x384/1/checked", True, "ended", "what went wrong"),
                                  ("matmul/1152x384/1", False, "skipped", "its checked twin: what went wrong"),
                                  ("matmul/1152x384/256/checked", True, "ended", None), ("matmul/1152x384/256", False, "ended", None),
                                  ("matmul/384x384/1/checked", True, "ended", None), ("matmul/384x384/1", False, "skipped", "its checked twin: wrong by 0.5")])

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

    def test_every_case_of_a_schedule_stands_behind_its_checked_twin(self):
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
        campaign.sweep("matrix", list(ladder.matrix_sweep(campaign.passed))[:1])
        names = [each["case"]["id"] for each in campaign.results if each["part"] == "matrix"]
        self.assertEqual(names, ["matrix/1152x384", "matrix/1152x384/matmul_mma bm=64", "matrix/1152x384/matmul_wgmma bm=128"])


class WholeRun(unittest.TestCase):
    def test_files_and_tables(self):
        with tempfile.TemporaryDirectory(prefix="anydim_campaign_") as name:
            folder = pathlib.Path(name)
            (folder / "plan").write_text("split_k crash\n")
            worker = f"{sys.executable} {HERE / 'fake_worker.py'} {folder / 'plan'} {folder / 'starts'}"
            done = subprocess.run([str(ROOT / "scripts/gpu_campaign.sh"), str(folder / "out"), "--limit", "60", "matmul", "matrix", "ragged", "calls"], capture_output=True, text=True,
                                  env=dict(os.environ, ANYDIM_WORKER=worker), timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(each.name for each in (folder / "out").iterdir()), ["raw.tar.gz", "results.json", "results.md"])
            summary = json.loads((folder / "out/results.json").read_text())
            self.assertEqual(summary["rungs"]["split_k"].split(": ")[1], "the worker ended with exit code -6")
            self.assertEqual(summary["rungs"]["graph"], "passed")
            self.assertAlmostEqual(summary["matmul_geometric_mean"], 1.2)
            self.assertEqual(len(summary["matmul"]), 8 * 16 + 2)
            self.assertEqual(summary["matrix"]["matmul_wgmma bm=128"]["8x1152x384"], 10.0)
            tables = (folder / "out/results.md").read_text()
            self.assertRegex(tables, r"\| 4096 \| 768 \| 3072 \| 10\.00 \| [0-9.]+ \| 12\.00 \| 1\.200 \| 1\.100 \| 8\.00 \| 1\.250 \| 20\.00 \| 1\.050 \| plain \|\n")
            self.assertEqual([len(row["lengths"]) for row in summary["ragged"][:4]], [2048, 512, 128, 32])
            self.assertIn("| 100 | 1x1 | 200.0 | 305.0 | 50.0 | 90.0 |", tables)
            self.assertIn("At 1x1 one more launch costs 2.00 us on the device, and 1.00 us more of the whole call", tables)
            with tarfile.open(folder / "out/raw.tar.gz") as archive:
                self.assertEqual(sorted(archive.getnames()), ["cases.jsonl", "worker.log"])

    def test_an_unknown_part_is_refused(self):
        done = subprocess.run([str(ROOT / "scripts/gpu_campaign.sh"), "nowhere", "everything"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no part everything; there are ladder, primitives, models", done.stderr)


if __name__ == "__main__":
    unittest.main()
