"""anydim tune from outside: a whole run, a second one, an interruption, bad input and recorded
traces. ANYDIM names the command."""
import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import termios
import time
import unittest

from tune_fixture import CHOSEN_ROWS, TuneTest, npy, trials


class Tune(TuneTest):
    def test_second_run_does_nothing(self):
        first = self.tune("--json", *trials(6))
        self.assertEqual(first.returncode, 0, first.stderr)
        result = json.loads(first.stdout)
        self.assertGreater(result["trials"], 2)
        # What it gains over these is of times that tune_test's device makes up.
        self.assertGreater(result["default_ms"], 0)
        self.assertLessEqual(result["lower_bound_ms"], result["expected_ms"] * 1.001)
        self.assertEqual(result["failures"], {})
        # With more kernels a call is never slower.
        self.assertEqual(set(result["over_kernels"]),
                         {"tuned", "powers of two", "uniform", "one symbolic kernel"})
        times = [milliseconds for _, milliseconds in result["over_kernels"]["tuned"]]
        self.assertTrue(all(more <= 1.0001 * fewer for fewer, more in zip(times, times[1:])), times)
        again = json.loads(self.tune("--json", *trials(6)).stdout)
        self.assertTrue(again["nothing_to_do"])
        self.assertEqual(again["trials"], 0)
        self.assertIn("nothing to do", self.tune(*trials(6)).stdout)
        # Another K chooses again, from what is known.
        more = json.loads(self.tune("--json", *trials(6), "--max-kernels", "3").stdout)
        self.assertGreater(more["reused"], 2)
        self.assertEqual(self.tune("--quiet", *trials(6), "--max-kernels", "4").stderr, "")

    def test_the_budget_holds_regret_too(self):
        for budget in (5, 30):  # a loaded machine may need the first for the search's own start
            begin = time.monotonic()
            done = self.tune("--json", "--budget", f"{budget}s", "--exhaustive")
            took = time.monotonic() - begin
            self.assertEqual(done.returncode, 0, done.stderr)
            # Starting the command and its measuring processes, and one trial.
            self.assertLess(took, budget + 12)
            regret = json.loads(done.stdout).get("regret")
            if regret is not None:
                break
        self.assertIsNotNone(regret)
        self.assertGreater(regret["share"], 0)
        self.assertEqual(regret["strategies"][0]["name"], "tuned")

    def test_times_are_held_against_the_roofline(self):
        self.assertEqual(self.tune("--quiet", *trials(6)).returncode, 0)
        shares = [
            entry["share_of_roofline"]
            for table in self.shown("t.db")
            for entry in table["entries"]]
        self.assertTrue(shares)
        for share in shares:
            self.assertGreater(share, 0)
            self.assertLessEqual(share, 1)
        self.assertRegex(
            self.anydim("tune", "--show", "--db", "t.db").stdout,
            r"us, [0-9]+ % of the roofline  tuned, measured")

    def test_precisions_are_apart(self):
        for precision in ("f32", "bf16"):
            done = self.tune("--json", *trials(6), "--precision", precision)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertGreater(result["trials"], 1)
            self.assertEqual((result["reused"], result["failures"]), (0, {}))
        tables = self.shown("t.db")
        self.assertEqual({table["precision"] for table in tables}, {"f32", "bf16"})
        self.assertNotEqual(
            *[table["region"] + table["generator"] + table["precision"] for table in tables][:2])
        explained = json.loads(
            self.anydim("explain", "model.anydim", "--shape", "x=9x48", "--db", "t.db", "--threads",
                        "1", "--precision", "bf16", "--json").stdout)
        self.assertIn("tuned, measured", json.dumps(explained))

    def test_regions_in_loops_and_functions(self):
        done = self.anydim("tune", "loop.anydim", "--distribution", "uniform(4, 60)", "--db",
                           "t.db", "--threads", "1", "--points", "2", *trials(6), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["failures"], {})
        products = [
            table for table in self.shown("t.db")
            if any(entry["schedule"].startswith("matmul") for entry in table["entries"])]
        self.assertEqual(len(products), 2)
        for table in products:
            for entry in table["entries"]:
                self.assertEqual(entry["chosen"], "tuned, measured")
                self.assertGreater(entry["us"], 0)

    def test_a_recorded_matrix_stands_for_a_gpu(self):
        words = [
            "half.anydim", "--device", "cuda", "--gpu", "h200", "--distribution", "uniform(4, 60)",
            "--points", "8", "--budget", "60s"]
        predicted = self.anydim("tune", *words, "--db", "p.db", "--json")
        if predicted.returncode == 6:
            self.skipTest(predicted.stderr)
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        self.assertEqual(
            {entry["chosen"] for table in self.shown("p.db") for entry in table["entries"]},
            {"tuned, predicted"})
        self.assertEqual(self.anydim("tune", "--db", "p.db", "--export", "p.json").returncode, 0)
        measurements = json.loads(
            (self.folder / "p.json").read_text())["environments"][0]["measurements"]
        schedules = sorted({
            one["schedule"] for one in measurements if one["schedule"].startswith("matmul")})
        self.assertGreater(len(schedules), 2)
        small, large = schedules[0], schedules[-1]
        matrix = {
            name: {
                f"{m}x32x48": 2 if name == (small if m <= 32 else large) else 20
                for m in (8, 16, 32, 48, 64)} for name in schedules}
        (self.folder / "recorded.json").write_text(json.dumps({"matrix": matrix}))
        done = self.anydim("tune", *words, "--db", "r.db", "--recorded", "recorded.json",
                           "--exhaustive", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        entries = [
            entry for table in self.shown("r.db") for entry in table["entries"]
            if entry["schedule"].startswith("matmul")]
        self.assertEqual({entry["schedule"] for entry in entries}, {small, large})
        self.assertEqual({entry["chosen"] for entry in entries}, {"tuned, measured"})
        # Means over all sizes of a row: between 4 and the next size that was asked for times are
        # told from there.
        self.assertGreaterEqual(entries[0]["us"], 2)
        self.assertLess(entries[0]["us"], 10)
        (self.folder / "recorded.json").write_text("[]")
        self.refused(4, "recorded.json: this is no matrix of latencies by schedule and shape",
                     *words, "--recorded", "recorded.json")

    def test_interruption_keeps_what_was_measured(self):
        running = self.start("--db", "t.db", "--budget", "100s")
        # Meanwhile the database has its writer.
        self.refused(
            7,
            "the tuning database t.db is locked by another process that writes it; let that one end, or name another file",
            "model.anydim", "--distribution", "uniform(4, 60)")
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=20)
        self.assertEqual(running.returncode, -signal.SIGINT)
        stopped = json.loads(out)
        self.assertTrue(stopped["interrupted"])
        self.assertGreater(stopped["trials"], 0)
        self.resumes()

    def test_a_database_that_is_lost_meanwhile(self):
        """Another program takes the file while a run writes it: the run ends, and what was
        committed is there."""
        running = self.start("--db", "t.db", "--budget", "100s")
        with contextlib.closing(
                sqlite3.connect(self.folder / "t.db", isolation_level=None, timeout=20)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            out, err = running.communicate(timeout=60)
            holder.execute("ROLLBACK")
        self.assertEqual(running.returncode, 7)
        locked = "the tuning database t.db is locked by another process; let that one end, or name another file"
        self.assertEqual(json.loads(out), {"error": locked, "exit_code": 7})
        self.assertIn(f"anydim: {locked}\n", err)
        self.resumes()

    def on_terminal(self, columns, *words):
        """What the command writes to standard error where that is a terminal of so many columns."""
        terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        # A database of its own, so that no earlier run has tried all there is.
        command = [
            os.environ["ANYDIM"], "tune", "model.anydim", "--distribution", "uniform(4, 60)",
            "--db", f"terminal_{columns}.db", "--threads", "1", "--points", "2", "--json", *words]
        running = subprocess.Popen(command, cwd=self.folder, env=self.environment,
                                   stdout=subprocess.PIPE, stderr=end)
        self.addCleanup(running.kill)
        os.close(end)
        written = b""
        # A terminal whose other end is closed is an error.
        with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as stream:
            while piece := stream.read(4096):
                written += piece
        out, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 0, written)
        self.assertGreater(json.loads(out)["trials"], 0)
        return written.decode()

    # Time left, what was tried of how much, best so far, how that stands to the default and the
    # roofline, then region and candidate.
    LINE = r"tune: \d+ s left, \d+ of \d+ candidates, a call \d+\.\d+ ms \([+-]\d+\.\d % of \d+\.\d+ ms(, \d+ % of the roofline)?\), "

    def test_progress_on_a_terminal_is_one_line(self):
        written = self.on_terminal(150, *trials(6))
        self.assertTrue(written.endswith("\r\n"), written)
        self.assertEqual(written.count("\n"), 1)
        lines = written[:-2].split("\r\x1b[K")
        self.assertEqual(lines[0], "")
        self.assertGreater(len(lines), 3)
        for line in lines[1:]:
            self.assertRegex(line, self.LINE + r"\w+: \w+( \w+=\d+)+")
            self.assertLess(len(line), 150)
        self.assertRegex(lines[-1], "% of the roofline")
        # Never wider than the terminal, where it would begin a second line.
        for line in self.on_terminal(60, *trials(6), "--max-kernels",
                                     "3")[:-2].split("\r\x1b[K")[1:]:
            self.assertLess(len(line), 60)
            self.assertRegex(line, r"^tune: \d+ s left")
        self.assertEqual(self.on_terminal(80, *trials(6), "--max-kernels", "4", "--quiet"), "")

    def test_progress_elsewhere_is_plain_lines(self):
        done = self.tune(*trials(6), "--json")
        self.assertTrue(done.stderr.endswith("\n"))
        for line in done.stderr.splitlines():
            self.assertRegex(line, "^" + self.LINE + r"\w+: \w+( \w+=\d+)+$")
        self.assertNotIn("\x1b", done.stderr)

    def test_bad_input(self):
        one_of = "tuning needs one of lengths, distribution, shapes, trace and calls: the sizes to tune for"
        self.refused(2, one_of, "model.anydim")
        self.refused(2, one_of, "model.anydim", "--trace", "a", "--lengths", "b")
        self.refused(2, "--budget 0 is no time above 0, such as 90s, 10m or 2h", "model.anydim",
                     "--distribution", "constant(3)", "--budget", "0")
        self.refused(5, "constant(99) gives n = 99, but the model takes n in [1, 64]",
                     "model.anydim", "--distribution", "constant(99)")
        self.refused(4, "none.txt: there is no such file", "model.anydim", "--lengths", "none.txt")
        (self.folder / "empty.txt").write_text("")
        self.refused(4, "empty.txt: there is no length in it", "model.anydim", "--lengths",
                     "empty.txt")
        self.refused(
            2,
            "--max-kernels 0 is below the 1 regions of the model, each of which needs one kernel; give 1 or more",
            "model.anydim", "--distribution", "constant(3)", "--max-kernels", "0")
        self.refused(
            2,
            "--max-kernels 1 is below the 3 regions of the model, each of which needs one kernel; give 3 or more",
            "loop.anydim", "--distribution", "uniform(4, 60)", "--max-kernels", "1")
        for text, code, what in (
            ("0\n", 4, "out.txt:1: 0 is no length of a text: a whole number from 1 to 2147483647"),
            ("12\n-5\n", 4,
             "out.txt:2: -5 is no length of a text: a whole number from 1 to 2147483647"),
            ("7\n99\n", 5, "2 lengths of out.txt gives n = 99, but the model takes n in [1, 64]")):
            (self.folder / "out.txt").write_text(text)
            done = self.anydim("tune", "model.anydim", "--lengths", "out.txt", "--db", "t.db")
            self.assertEqual((done.returncode, re.sub(r" \(\w+\)", "", done.stderr)),
                             (code, f"anydim: {what}\n"))
        (self.folder / "trace.txt").write_text("nothing")
        self.refused(4, "trace.txt: this is no trace of shapes (anydim run --record writes them)",
                     "model.anydim", "--trace", "trace.txt")
        (self.folder / "words.txt").write_text("12\nmany\n")
        self.refused(4, "words.txt:2: expected a length or a JSON list of token ids, got 'many'",
                     "model.anydim", "--lengths", "words.txt")
        self.refused(2, "--gpu predicts for a GPU; give --device cuda too", "model.anydim",
                     "--distribution", "constant(3)", "--gpu", "h200")
        self.refused(
            2,
            "--recorded replays what was measured on a GPU; say on which by --gpu and --device cuda",
            "model.anydim", "--distribution", "constant(3)", "--recorded", "r.json")
        for words in (("--device", "tpu"), ("--device", "cuda", "--gpu", "tpu")):
            done = self.anydim("tune", "model.anydim", "--distribution", "constant(3)", "--db",
                               "t.db", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, "tpu.*(cpu.*cuda|h200)")
        done = self.anydim("tune", "model.anydim", "--distribution", "constant(3)", "--resume",
                           "--db", "none.db")
        self.assertEqual((done.returncode, done.stderr),
                         (4, "anydim: none.db: there is no such database to resume from\n"))

    def test_databases_that_cannot_be_tuned_into(self):
        """Newer, foreign, damaged, read-only: refused before anything is measured, and left as they
        are."""
        self.assertEqual(self.tune("--quiet", *trials(6)).returncode, 0)
        words = ("model.anydim", "--distribution", "uniform(4, 60)", *trials(6), "--db")

        def refused(code, message, name):
            before = (self.folder / name).read_bytes()
            done = self.anydim("tune", *words, name)
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertRegex(done.stderr, f"^anydim: {message}\n$")
            self.assertEqual((self.folder / name).read_bytes(), before)

        shutil.copy(self.folder / "t.db", self.folder / "newer.db")
        with contextlib.closing(sqlite3.connect(self.folder / "newer.db")) as newer:
            newer.execute("PRAGMA user_version = 3")
        refused(
            4,
            r"the tuning database newer\.db was written by a newer Anydim \(schema 3, this one knows up to 2\); use that one, or name another file",
            "newer.db")
        (self.folder / "text.db").write_text("x" * 5000)
        refused(4, r"text\.db is no tuning database: it is no file of SQLite", "text.db")
        shutil.copy(self.folder / "t.db", self.folder / "damaged.db")
        with open(self.folder / "damaged.db", "r+b") as damaged:
            for at in range(4096, (self.folder / "t.db").stat().st_size, 256):
                damaged.seek(at)
                damaged.write(b"damage!")
        refused(
            4,
            r"the tuning database damaged\.db is damaged: .*; restore it from an export, or remove it and tune again",
            "damaged.db")

        shutil.copy(self.folder / "t.db", self.folder / "kept.db")
        (self.folder / "kept.db").chmod(0o444)
        self.folder.chmod(0o777)
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            done = subprocess.run([os.environ["ANYDIM"], "tune", *words, "kept.db"],
                                  cwd=self.folder, env=self.environment, capture_output=True,
                                  text=True, timeout=60, **nobody)
        except PermissionError:
            self.skipTest("nobody else may run the command here")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (7, "", "anydim: the tuning database kept.db is read-only\n"))
        # What they came from is whole.
        self.assertTrue(json.loads(self.tune("--json", *trials(6)).stdout)["nothing_to_do"])

    def test_traces_follow_calls(self):
        (self.folder / "x.npy").write_bytes(npy("<f4", (5, 48), bytes(5 * 48 * 4)))
        for _ in range(2):
            self.assertEqual(
                self.anydim("run", "model.anydim", "--input", "x=x.npy", "--record",
                            "trace.json").returncode, 0)
        self.assertEqual(json.loads((self.folder / "trace.json").read_text())["bins"], [[5, 0, 2]])
        done = self.anydim("tune", "model.anydim", "--trace", "trace.json", "--db", "t.db",
                           *trials(6), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(
            4,
            "the trace is of another model: its inputs are x: f32 (n, 48); this model's are x: f32 (n, 40)",
            "other.anydim", "--trace", "trace.json")
        refused = self.anydim("run", "other.anydim", "--input", "x=x.npy", "--record", "trace.json")
        self.assertNotEqual(refused.returncode, 0)

    def record(self, rows, kept):
        (self.folder / "x.npy").write_bytes(npy("<f4", (rows, 48), bytes(rows * 48 * 4)))
        (self.folder / "keep.npy").write_bytes(
            npy("|b1", (rows,), b"\1" * kept + bytes(rows - kept)))
        done = self.anydim("run", "chosen.anydim", "--input", "x=x.npy", "--input", "keep=keep.npy",
                           "--record", "trace.json", "--record-calls", "calls")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_sizes_that_values_decide_are_traced_and_tuned_on_recorded_calls(self):
        (self.folder / "chosen.anydim").write_text(CHOSEN_ROWS)
        for rows, kept in ((40, 10), (80, 20), (2000, 40), (2000, 40), (2000, 1500)):
            self.record(rows, kept)
        trace = json.loads((self.folder / "trace.json").read_text())
        self.assertEqual(trace["bins"], [[40, 0, 1], [80, 0, 1], [2000, 0, 3]])
        # The rows of the product's region that were kept, and how often.
        products = [
            sorted(launch[1:]
                   for launch in launches
                   if launch[0] == 2)
            for launches in trace["launches"]]
        self.assertEqual(products, [[[10, 1]], [[20, 1]], [[40, 2], [1500, 1]]])
        self.assertEqual(len(list((self.folder / "calls").iterdir())), 4,
                         "equal calls are kept once")

        def tuned(name, *words):
            done = self.anydim("tune", "chosen.anydim", *words, "--db", f"{name}.db", *trials(8),
                               "--json", "--sweep", f"{name}.json")
            self.assertEqual(done.returncode, 0, done.stderr)
            regions = {
                region["region"]: region
                for region in json.loads((self.folder / f"{name}.json").read_text())["regions"]}
            product = next(region for name, region in regions.items() if name.startswith("matmul"))
            return done, dict(zip((point[0] for point in product["points"]), product["weights"]))

        warning = "values that the model computes decide its sizes"
        done, points = tuned("both", "--trace", "trace.json", "--calls", "calls")
        self.assertNotIn(warning, done.stderr)
        self.assertEqual({key: round(5 * weight, 9) for key, weight in points.items()},
                         {10: 1, 20: 1, 40: 2, 1500: 1})
        done, points = tuned("calls", "--calls", "calls")
        self.assertEqual({key: round(4 * weight, 9) for key, weight in points.items()},
                         {10: 1, 20: 1, 40: 1, 1500: 1})
        # Without the calls it is measured where inputs that are made up lead: all rows.
        done, points = tuned("sizes", "--trace", "trace.json")
        self.assertIn(warning, done.stderr)
        self.assertEqual(sorted(points), [40, 80, 2000])
        self.assertEqual({key: round(5 * weight, 9) for key, weight in points.items()},
                         {40: 4, 80: 0, 2000: 1})
        # A part that is not here runs nothing: the trace alone tells.
        gpu = ("--device", "cuda", "--gpu", "h200", "--db", "gpu.db", *trials(4))
        done = self.anydim("tune", "chosen.anydim", "--trace", "trace.json", *gpu)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.anydim("tune", "chosen.anydim", "--calls", "calls", *gpu)
        self.assertEqual(done.returncode, 2)
        self.assertIn(
            "values that the model computes decide what it launches, which only a run tells",
            done.stderr)
        self.refused(2, "recorded calls go alone or with a trace: they have sizes of their own",
                     "chosen.anydim", "--calls", "calls", "--lengths", "l")
        self.refused(
            4,
            "nowhere: there is no recorded call in this folder (anydim run --record-calls writes them)",
            "chosen.anydim", "--calls", "nowhere")
        # Launches of regions that the program does not have.
        trace["regions"][0] = "0" * 16
        (self.folder / "strange.json").write_text(json.dumps(trace))
        self.refused(
            4,
            "the trace's calls launched regions that this program does not have: it was recorded by another version of Anydim or with other options; record it again",
            "chosen.anydim", "--trace", "strange.json", "--calls", "calls")


if __name__ == "__main__":
    unittest.main()
