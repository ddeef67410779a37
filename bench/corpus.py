#!/usr/bin/env python3
"""Makes a token file of real short texts: one JSON list of token ids a line, as `anydim bench
--tokens` reads it.

usage: corpus.py TOKENIZER.json OUT.jsonl [--count N] [--longest L] [--uniform LOW:HIGH] [--seed S]

The texts are the quotations of the Debian package `fortunes`, each once, in an order that depends
on nothing but their words and the seed. With --uniform their lengths are drawn from LOW to HIGH
instead, and each text is repeated or cut between its first and last token; LOW:LOW makes all equal.
The file appears complete or not at all. Its lengths are summed up on standard output.
"""
import argparse
import json
import os
import pathlib
import sys

import numpy
from tokenizers import Tokenizer

from texts import FORTUNES, quotations, shuffled


def of_length(ids, length):
    inner = ids[1:-1] or ids[:1]
    return ids[:length] if length < 2 else ids[:1] + [
        inner[i % len(inner)] for i in range(length - 2)] + ids[-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=512, help="number of texts (default 512)")
    parser.add_argument("--longest", type=int, default=512,
                        help="tokens after which a text is cut (default 512)")
    parser.add_argument("--uniform", metavar="LOW:HIGH",
                        help="draw the lengths, each as likely as the other")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()

    texts = quotations(FORTUNES) if FORTUNES.is_dir() else set()
    if len(texts) < arguments.count:
        sys.exit(
            f"corpus.py: found {len(texts)} texts in {FORTUNES}, need {arguments.count}: install the Debian package fortunes"
        )
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_padding()
    tokenizer.enable_truncation(arguments.longest)
    rows = [
        encoding.ids
        for encoding in tokenizer.encode_batch(shuffled(texts, arguments.seed)[:arguments.count])]

    if arguments.uniform:
        low, _, high = arguments.uniform.partition(":")
        if not (low.isdigit() and high.isdigit() and 1 <= int(low) <= int(high)):
            sys.exit(
                f"corpus.py: --uniform {arguments.uniform}: expected LOW:HIGH with 1 <= LOW <= HIGH, as in 1:512"
            )
        drawn = numpy.random.default_rng(arguments.seed).integers(int(low),
                                                                  int(high) + 1, len(rows))
        rows = [of_length(row, int(length)) for row, length in zip(rows, drawn)]

    unfinished = arguments.out.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(unfinished, arguments.out)
    lengths = numpy.array([len(row) for row in rows])
    print(
        f"{len(rows)} texts, {lengths.sum()} tokens; length mean {lengths.mean():.0f}, median {numpy.median(lengths):.0f}, "
        f"99th percentile {numpy.percentile(lengths, 99):.0f}, longest {lengths.max()}")


if __name__ == "__main__":
    main()
