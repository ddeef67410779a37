"""scripts/gpu_campaign.sh as a whole, over a worker that plays a GPU's: what it writes, and that a
campaign which is killed has lost nothing. No GPU, no anydim."""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench/campaign"))

import carried  # noqa: E402
import ladder  # noqa: E402
import report  # noqa: E402


class WholeRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="anydim_campaign_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def command(self, plan, *words):
        (self.folder / "plan").write_text(plan)
        worker_command = shlex.join([
            sys.executable,
            str(HERE / "fake_worker.py"),
            str(self.folder / "plan"),
            str(self.folder / "starts")])
        return dict(
            args=[
                str(ROOT / "scripts/gpu_campaign.sh"),
                str(self.out), "--state",
                str(self.folder / "state"), "--carried",
                str(self.folder / "carried"), *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, ANYDIM_WORKER=worker_command,
                                                        ANYDIM_NVML="/nowhere"))

    def campaign(self, plan, *words):
        return subprocess.run(**self.command(plan, *words), timeout=100, check=False)

    def cases(self):
        return [
            line for line in (self.folder / "starts").read_text().splitlines()
            if line.startswith("case ") and "empty/" not in line and "information" not in line]

    def summary(self):
        return json.loads((self.out / "results.json").read_text())

    def test_files_and_tables(self):
        done = self.campaign("split_k crash\n", "--limit", "60", "matmul", "attention", "matrix",
                             "ragged", "calls")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(each.name for each in self.out.iterdir()),
                         ["cases.jsonl", "results.json", "results.md", "worker.log"])
        summary = self.summary()
        self.assertEqual(summary["rungs"]["split_k"].split(": ")[1],
                         "the worker ended with exit code -6")
        self.assertEqual(summary["rungs"]["graph"], "passed")
        self.assertAlmostEqual(summary["matmul_geometric_mean"], 1.2)
        self.assertEqual(len(summary["matmul"]), 8 * 16 + 2)
        self.assertEqual(summary["matrix"]["matmul_wgmma bm=128"]["8x1152x384"], 10.0)
        tables = (self.out / "results.md").read_text()
        self.assertRegex(
            tables,
            r"\| 4096 \| 768 \| 3072 \| 10\.00 \| [0-9.]+ \| 12\.00 \| 1\.200 \| 1\.100 \| 8\.00 \| 1\.250 \| 20\.00 \| 1\.050 \| plain \|\n"
        )
        self.assertEqual(sorted({len(row["lengths"]) for row in summary["ragged"]}),
                         [32, 128, 512, 2048])
        # Both take 10 us here, and equal lengths cost as many multiplications but for a rounded
        # batch.
        for row in summary["ragged"]:
            self.assertAlmostEqual(
                report.attention_rate(row) / report.attention_rate(row["equal"]), 1, delta=0.02)
        self.assertRegex(
            tables,
            r"\| 128 \| \d+ \| 10\d\d \| 12 \| 64 \| 10\.00 \| [0-9.]+ \| (0\.99|1\.00)\d \|")
        self.assertIn("| 100 | 1x1 | 200.0 | 305.0 | 50.0 | 90.0 |", tables)
        self.assertIn(
            "At 1x1 one more launch costs 2.00 us on the device, and 1.00 us more of the whole call",
            tables)

    def test_a_first_contact_measures_four_shapes_of_every_part(self):
        done = self.campaign("", "--first-contact")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = self.summary()
        self.assertEqual(
            [len(summary[part])
             for part in ("matmul", "attention", "ragged", "models")], [4, 4, 4, 4])
        self.assertEqual({outcome.split()[0] for outcome in summary["rungs"].values()}, {"passed"})
        self.assertIn("cases", summary["rungs"]["ring"])
        # The next command has these already.
        ran = (self.folder / "starts").read_text().count("case matmul/512x3072x768\n")
        self.campaign("", "--limit", "60", "matmul")
        self.assertEqual(
            (ran, (self.folder / "starts").read_text().count("case matmul/512x3072x768\n")), (1, 1))
        self.assertEqual(len(self.summary()["attention"]), 4)

    def test_constants_are_fitted_and_candidates_ranked_again(self):
        self.assertEqual(self.campaign("", "--limit", "60", "fit").returncode, 0)
        told = self.summary()["fit"]
        self.assertEqual(told["timings"], 8)
        self.assertGreater(told["spread"]["before"], 3)
        self.assertLess(told["spread"]["after"], 1.1)
        self.assertEqual(sorted(told["constants"]), ["start_seconds", "wgmma_share"])
        self.assertEqual(told["regret"], {"before": [1.0, 8], "after": [1.0, 8]})
        self.assertRegex((self.out / "results.md").read_text(),
                         r"ANYDIM_COST\(start_seconds, [5-9]\.\d+e-06,\n")

    def test_variants_take_turns(self):
        text = self.folder / "peeled"
        text.mkdir()
        (text / "attention.cuh").write_text("// another")
        self.assertEqual(
            self.campaign("variants/matmul/16x768x768/matmul_wgmma swap_ab absent\n", "--limit",
                          "60", "--variant", str(text), "variants").returncode, 0)
        ran = [
            line[5:]
            for line in (self.folder / "starts").read_text().splitlines()
            if line.startswith("case variants/attention/64/512")]
        self.assertEqual([each for each in ran if not each.endswith("checked")], [
            f"variants/attention/64/512/{name}/{number}" for number in (1, 2)
            for name in ("as it is", "peeled")])
        variants = self.summary()["variants"]
        self.assertEqual(variants["variants/attention/64/512 20x12x512x64"],
                         {"as it is": [10.0, 10.0], "peeled": [10.0, 10.0]})
        self.assertNotIn("matmul_wgmma swap_ab=1",
                         variants["variants/matmul/16x768x768 16x768x768"])
        self.assertEqual(
            variants["variants/matmul/512x3072x768 512x3072x768"]["matmul_wgmma persistent=1"],
            [10.0, 10.0])

    def test_counters_of_a_profiler(self):
        ncu = self.folder / "bin/ncu"
        ncu.parent.mkdir()
        # Writes the table as the profiler does, once the worker has ended.
        ncu.write_text(f"""#!/bin/sh
while [ "$1" != {shlex.quote(sys.executable)} ]; do [ "$1" != --log-file ] || file=$2; shift; done
"$@"
printf '"ID","Kernel Name","lts__t_bytes.sum"\\n"","","byte"\\n"0","matmul_0","7"\\n' > "$file"
""")
        ncu.chmod(0o755)
        started = self.command("", "--limit", "60", "profile")
        started["env"]["PATH"] = f"{ncu.parent}:{started['env']['PATH']}"
        done = subprocess.run(**started, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(each["kernel"], each["counters"]) for each in self.summary()["profile"]],
                         [("matmul_0", {"lts__t_bytes.sum [byte]": 7.0})] * 4)

    def test_the_machines_processors(self):
        """By a command that was carried, which here says what it was asked for."""
        self.assertEqual(self.campaign("", "--limit", "60", "cpu").returncode, 0)
        self.assertRegex(
            self.summary()["failures"][0]["error"],
            r"anydim.xz is not there: gpu_campaign.sh --fill makes it where build/portable has the command$"
        )
        command = self.folder / "command"
        command.write_text("""#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in --threads) threads=$2;; --precision) precision=$2;; esac
  shift
done
[ "$precision" = f32 ] && each=8000 || each=4000
echo "{\\"p50_ms\\": $((each / threads))}"
""")
        (self.folder / "carried").mkdir()
        carried.pack_command(command, self.folder / "carried" / carried.COMMAND)
        self.assertEqual(self.campaign("", "--limit", "60", "cpu").returncode, 0)
        rows = {(*row["dims"], row["threads"]): (row["f32_us"], row["bf16_us"])
                for row in self.summary()["cpu"]}
        self.assertEqual(
            set(rows), {(batch, 128, threads)
                        for batch in (1, 8)
                        for threads in ladder.CPU_THREADS
                        if threads <= len(os.sched_getaffinity(0))})
        self.assertEqual(rows[8, 128, 1], (8e6, 4e6))
        self.assertIn("| minilm | 8x128 | 1 | 8000000 | 1.000 | 4000000 | 1.000 |",
                      (self.out / "results.md").read_text())

    def kill(self, number):
        """A campaign that is in the middle of a case gets the signal."""
        case = f"ring/bf16/{ladder.EDGES[0]}x128x64"
        with subprocess.Popen(**self.command(f"{case} hang", "--limit", "60", "calls")) as process:
            starts = self.folder / "starts"
            while not (starts.exists() and case in starts.read_text()):
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            process.send_signal(number)
            output = process.communicate(timeout=20)[0]
        return process.returncode, output

    def test_killed_it_has_lost_nothing(self):
        self.assertEqual(self.kill(signal.SIGKILL)[0], -signal.SIGKILL)
        self.assertEqual(sorted(each.name for each in self.out.iterdir()),
                         ["cases.jsonl", "worker.log"])
        done = subprocess.run([str(ROOT / "scripts/gpu_campaign.sh"),
                               str(self.out), "--report"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rungs = self.summary()["rungs"]
        self.assertIn("passed", rungs["map"])
        self.assertEqual(rungs["persistent"], "needs ring")
        before = (self.out / "cases.jsonl").read_text().splitlines()
        self.assertEqual(self.campaign("", "--limit", "60", "calls").returncode, 0)
        self.assertEqual((self.out / "cases.jsonl").read_text().splitlines()[:len(before)], before)
        starts = self.cases()
        # The case in flight is the only one that ran twice.
        self.assertLessEqual(len(starts) - len(set(starts)), 1)
        self.assertEqual(self.summary()["rungs"]["graph"], "passed")

    def test_on_another_machine_it_goes_on_where_it_ended(self):
        """From what was brought back; here it is the same boot, so that times hold, too."""
        self.assertEqual(self.campaign("", "--limit", "60", "calls").returncode, 0)
        ran = self.cases()
        (self.folder / "carried").mkdir()
        shutil.move(self.out / "cases.jsonl", self.folder / "carried/cases.jsonl")
        shutil.rmtree(self.folder / "state")
        (self.folder / "starts").unlink()
        self.assertEqual(self.campaign("", "--limit", "60", "calls").returncode, 0)
        self.assertTrue(ran)
        self.assertEqual(self.cases(), [])
        self.assertEqual(self.summary()["rungs"]["graph"], "passed")

    def test_told_to_end_it_writes_what_it_has(self):
        code, output = self.kill(signal.SIGTERM)
        self.assertEqual(code, 1)
        self.assertIn("Stopped: SIGTERM came.", output)
        self.assertIn("passed", self.summary()["rungs"]["map"])

    def test_one_campaign_a_state(self):
        with subprocess.Popen(**self.command("map/ hang", "--limit", "60", "calls")) as process:
            while not (self.folder / "starts").exists():
                time.sleep(0.01)
            done = self.campaign("map/ hang", "--limit", "1", "calls")
            process.kill()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr,
            "another campaign works in .*; wait for it, or give this one a folder with --state")

    def test_killed_at_random_moments(self):
        """Some of what `rehearse.py --kills 50` does over the interpreter (bench/README.md)."""
        (self.folder / "plan").write_text("matmul/ slow\nattention slow\n")
        command = shlex.join([
            sys.executable,
            str(HERE / "fake_worker.py"),
            str(self.folder / "plan"),
            str(self.folder / "starts")])
        done = subprocess.run([
            sys.executable,
            str(ROOT / "bench/campaign/rehearse.py"),
            str(self.folder / "rehearsal"), "--kills", "8", "--seconds", "1.5", "--seed", "3",
            "--limit", "60"], env=dict(os.environ, ANYDIM_WORKER=command, ANYDIM_NVML="/nowhere"),
                              capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"[1-8] kills survived; \d+ cases recorded, 0 of them again")

    def test_without_a_worker_it_says_how_to_make_one(self):
        started = self.command("")
        started["env"]["ANYDIM_WORKER"] = "/nowhere/campaign_worker --device cuda"
        done = subprocess.run(**started, timeout=20, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no worker /nowhere/campaign_worker; make one: cmake --preset slim",
                      done.stderr)

    def test_an_unknown_part_is_refused(self):
        done = subprocess.run([str(ROOT / "scripts/gpu_campaign.sh"), "nowhere", "everything"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no part everything; there are ladder, primitives, matmul",
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
