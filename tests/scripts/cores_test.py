"""bench/cores.py measures a small model here and prints what a bigger machine would print."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cores
import slices

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/models/tiny_bert.onnx"


class Parts(unittest.TestCase):
    def test_threads_are_doubled_up_to_the_machines(self):
        self.assertEqual(cores.doubled_up_to(1), [1])
        self.assertEqual(cores.doubled_up_to(8), [1, 2, 4, 8])
        self.assertEqual(cores.doubled_up_to(12), [1, 2, 4, 8, 12])

    def test_slices_share_all_threads(self):
        self.assertEqual(cores.slices(8, 3), [2, 3, 3])
        self.assertEqual(cores.slices(2, 4), [1, 1])
        for threads in (1, 2, 7, 64):
            for callers in (1, 2, 5, 80):
                self.assertEqual(sum(cores.slices(threads, callers)), threads)

    def test_callers_that_compute_alone_lose_nothing(self):
        seconds = {1: 8.0, 2: 5.0, 4: 4.0}
        self.assertEqual(cores.modelled_efficiency(seconds, 1, 1), 1)
        self.assertEqual(cores.modelled_efficiency(seconds, 4, 1), 0.5)
        self.assertEqual(cores.modelled_efficiency(seconds, 4, 2), 0.8)
        self.assertEqual(cores.modelled_efficiency(seconds, 4, 4), 1)

    def test_texts_are_those_nearest_to_the_median(self):
        texts = [[1] * length for length in (9, 1, 4, 5, 6)]
        self.assertEqual([len(text) for text in cores.near_the_median(texts, 3)], [5, 4, 6])


class Slices(unittest.TestCase):
    launches = {1: [4.0, 4.0], 2: [2.0, 3.0], 4: [1.0, 2.0]}

    def test_a_caller_alone_has_all_threads_either_way(self):
        self.assertEqual(slices.sliced(self.launches, 4, 1), [3])
        latencies, lasted = slices.one_at_a_time(self.launches, 4, 1)
        self.assertEqual(set(latencies), {3})
        self.assertEqual(lasted, 3 * len(latencies))

    def test_callers_have_their_slice(self):
        self.assertEqual(slices.sliced(self.launches, 4, 2), [5, 5])
        self.assertEqual(slices.sliced(self.launches, 4, 5), [8] * 5)

    def test_whoever_finds_the_workers_taken_computes_alone(self):
        latencies, _ = slices.one_at_a_time(self.launches, 4, 2)
        self.assertTrue(all(3 <= latency <= 8 for latency in latencies))
        self.assertGreater(max(latencies), 3)


class Whole(unittest.TestCase):
    def test_it_measures_and_prints(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = pathlib.Path(folder) / "tokens.jsonl"
            tokens.write_text("".join(f"{list(range(3, 3 + n))}\n" for n in (4, 7, 9, 30)))
            for words in ((), ("--json", )):
                done = subprocess.run([
                    sys.executable, ROOT / "bench/cores.py", MODEL, tokens, "--threads", "1,2",
                    "--batch", "3", "--callers", "2", "--seconds", "0.02", "--rounds", "2",
                    "--memory-bandwidth", "50", "--anydim", os.environ["ANYDIM"], *words],
                    check=True, capture_output=True, text=True, timeout=300)
                if words:
                    self.check(json.loads(done.stdout))
                else:
                    lines = done.stdout.splitlines()
                    self.assertEqual(len(lines), 4 + 6)
                    self.assertEqual({line.count("|") for line in lines[2:]}, {11})

    def check(self, told):
        self.assertEqual([(row["calls"], row["threads"]) for row in told["rows"]],
                         [(calls, threads) for threads in (1, 2)
                          for calls in ("one text", "3 texts", "one text each of 2 callers")])
        for row in told["rows"]:
            for engine in cores.ENGINES:
                self.assertGreater(row[engine]["rate"], 0)
                self.assertGreater(row[engine]["efficiency"], 0)
            self.assertTrue(0 < row["modelled"] <= 1.2, row)
        first = told["rows"][0]
        self.assertEqual((first["modelled"], first["anydim"]["efficiency"]), (1, 1))
        self.assertGreaterEqual(told["machine"]["processors"], 1)


unittest.main()
