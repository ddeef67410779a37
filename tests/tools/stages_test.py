#!/usr/bin/env python3
"""What `anydim opt --stage STAGE` prints of the test models, `anydim opt` reads and prints again,
byte for byte."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ANYDIM = os.environ["ANYDIM"]
MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"


def opt(*arguments):
    result = subprocess.run([ANYDIM, "opt", *map(str, arguments)], capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


class Stages(unittest.TestCase):
    def reread(self, model, stage):
        status, printed, errors = opt(MODELS / model, "--stage", stage)
        self.assertEqual(status, 0, errors)
        text = "".join(line for line in printed.splitlines(True) if not line.startswith("//"))
        self.assertTrue(text.startswith(stage), text[:200])
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "stage.txt"
            file.write_text(text)
            return text, opt(file)

    def test_round_trips(self):
        for model in ("gray_to_rgb.onnx", "rnn_loop.onnx", "tiny_bert.onnx"):
            for stage in ("loops", "kernel", "program"):
                with self.subTest(model=model, stage=stage):
                    text, (status, again, errors) = self.reread(model, stage)
                    self.assertEqual((status, errors), (0, ""))
                    self.assertEqual(again, text)

    def test_what_is_not_proven_is_refused(self):
        # How many elements `unique` gives is bounded in the module alone, not in the region that
        # reads them.
        for stage in ("loops", "kernel"):
            with self.subTest(stage=stage):
                _, (status, again, errors) = self.reread("data_dependent.onnx", stage)
                self.assertEqual((status, again), (4, ""))
                self.assertIn("which is not proven to be inside [0, s0*s1)", errors)


if __name__ == "__main__":
    unittest.main()
