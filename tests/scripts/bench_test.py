"""The measuring scripts feed every text exactly once and compare valid positions only."""
import unittest

import numpy

import compare
import encoder

TEXTS = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14], [15]]


class Batches(unittest.TestCase):
    def test_every_token_once_in_both_orders(self):
        for order in ("arrival", "sorted"):
            for size in (1, 2, 8):
                fed = [row[mask != 0].tolist() for batch in encoder.batches(TEXTS, size, order)
                       for row, mask in zip(batch["input_ids"], batch["attention_mask"])]
                self.assertEqual(sorted(fed), sorted(TEXTS))
                self.assertEqual(fed, TEXTS if order == "arrival" else sorted(TEXTS, key=len))

    def test_padding_to_the_longest_of_the_batch(self):
        shapes = [batch["input_ids"].shape for batch in encoder.batches(TEXTS, 2, "arrival")]
        self.assertEqual(shapes, [(2, 3), (2, 4), (1, 1)])

    def test_inputs_are_int64(self):
        for batch in encoder.batches(TEXTS, 2, "sorted"):
            self.assertEqual({each.dtype for each in batch.values()}, {numpy.dtype(numpy.int64)})


class Difference(unittest.TestCase):
    mask = numpy.array([[1, 1], [1, 0]])

    def test_padding_is_not_compared(self):
        ours = numpy.zeros((2, 2, 3), numpy.float32)
        theirs = ours.copy()
        theirs[1, 1] = 9
        self.assertEqual(compare.difference("hidden", ours, theirs, self.mask), 0)
        theirs[1, 0, 2] = -0.5
        self.assertEqual(compare.difference("hidden", ours, theirs, self.mask), 0.5)

    def test_pooled_output_is_compared_whole(self):
        self.assertEqual(
            compare.difference("pooled", numpy.zeros((2, 2)), numpy.full((2, 2), 3.0), self.mask),
            3)

    def test_not_a_number_is_no_agreement(self):
        self.assertTrue(
            numpy.isnan(
                compare.difference("pooled", numpy.full((2, 2), numpy.nan), numpy.zeros((2, 2)),
                                   self.mask)))

    def test_the_least_cosine_of_valid_vectors_counts(self):
        ours = numpy.array([[[1.0, 0], [1, 0]], [[0, 2], [0, 1]]])
        theirs = numpy.array([[[2.0, 0], [1, 1]], [[0, 1], [1, 0]]])
        self.assertAlmostEqual(compare.cosine("hidden", ours, theirs, self.mask), 0.5**0.5)
        self.assertEqual(compare.cosine("pooled", ours[0], ours[0], self.mask), 1)

    def test_other_shape_is_refused(self):
        with self.assertRaisesRegex(
                SystemExit, r"output pooled: expected float64\(2, 2\), got float64\(2, 3\)"):
            compare.difference("pooled", numpy.zeros((2, 3)), numpy.zeros((2, 2)), self.mask)


unittest.main()
