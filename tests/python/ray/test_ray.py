"""anydim.ray with the real Ray, in an environment of its own (.cache/ray): every text once though a
worker is killed, a job begun again, batches, and what is refused."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers

import anydim
from anydim import ray as corpus
from ray_workers import ray_workers

WORDS = [f"w{number}" for number in range(200)]
MODEL = """
fn @main(%input_ids: Tensor[(b, s), i64], %attention_mask: Tensor[(b, s), i64])
  where b in [0, 4096], s in [0, 64] {
  %table = constant(f32 (256, 16) @random(1))
  %x = gather(%table, %input_ids) {axis = 0}
  %gain = constant(f32 (16) @random(2))
  %n = layer_norm(%x, %gain) {axis = -1}
  %m3 = expand_dims(%attention_mask) {axes = (1)}
  %real = cast(%m3) {to = f32}
  %one = constant(f32 () [1])
  %low = constant(f32 () [-inf])
  %zero = constant(f32 () [0])
  %hidden = less(%real, %one)
  %bias = where(%hidden, %low, %zero)
  %a = attention(%n, %n, %x, %bias) {scale = 0.5} from "Attention"
  %rows = add(%a, %x)
  return %rows
}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, its tokenizer, a folder of kernels."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "model.anydim").write_text(MODEL)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(["[UNK]", *WORDS])},
                                    unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def texts(count):
    random = np.random.default_rng(3)
    return [" ".join(random.choice(WORDS, random.integers(1, 40))) for _ in range(count)]


def options(place, **more):
    return {
        "model": place / "model.anydim", "tokenizer": place / "tokenizer.json",
        "cache_dir": str(place / "kernels"), "database": False, "threads": 1, **more}


@pytest.fixture(scope="module")
def embedder(place):
    return corpus.Embedder(**options(place, batch_tokens=128))


def table_of(folder):
    """What readers of Parquet make of the folder: files that begin with _ or . are none of its
    parts."""
    return pq.read_table(folder)


def embeddings_of(table):
    return np.array(table["embedding"].to_pylist(), "float32")


def test_batches_hold_tokens_and_results_keep_the_order(embedder):
    given = texts(200)
    together = embedder.embed(given)
    assert together.shape == (200, 16)
    lengths = np.array([len(text.split()) for text in given])
    batches = embedder.batches(lengths)
    assert sorted(np.concatenate(batches)) == list(range(200)) and max(
        lengths[batch].sum() for batch in batches) <= 128 and len(batches) < 60
    np.testing.assert_allclose(together[[7, 150]],
                               [embedder.embed([given[7]])[0],
                                embedder.embed([given[150]])[0]], atol=1e-5)


def test_a_padded_model_gives_the_same(place, embedder):
    padded = corpus.Embedder(**options(place, batch_tokens=128, masked_rows="keep"))
    padded.ragged = False
    given = texts(30)
    np.testing.assert_allclose(padded.embed(given), embedder.embed(given), atol=1e-5)


def test_a_batch_of_ray_data_and_what_is_no_text(embedder):
    batch = embedder({"id": np.arange(2), "text": np.array(["w1 w2", "w3"], dtype=object)})
    assert list(batch) == ["id", "text", "embedding"] and batch["embedding"].shape == (2, 16)
    assert embedder.embed([]).shape == (0, 16)
    with pytest.raises(anydim.OptionError, match="there is no column 'text'; there are words"):
        embedder({"words": np.array(["w1"])})
    with pytest.raises(anydim.InputError, match="column 'text': row 1 is null: expected a text"):
        embedder({"text": np.array(["w1", None], dtype=object)})


def test_a_worker_is_killed_and_every_text_is_there_once(place, embedder):
    """By the command, over Parquet and JSON lines; then begun again, there is nothing left to
    do."""
    count = int(os.environ.get("ANYDIM_RAY_TEXTS", "3000"))
    given = texts(count)
    half = count // 2
    pq.write_table(pa.table({"id": range(half), "text": given[:half]}), place / "a.parquet",
                   row_group_size=max(1, half // 3))
    with open(place / "b.jsonl", "w") as stream:
        for number in range(half, count):
            stream.write(json.dumps({"id": number, "text": given[number]}) + "\n")
    rows = max(50, count // 60)
    words = [
        sys.executable, "-m", "anydim.ray", place / "a.parquet", place / "b.jsonl", "--output",
        place / "out", "--model", place / "model.anydim", "--tokenizer", place / "tokenizer.json"]
    words += ["--rows", rows, "--cache-dir", place / "kernels", "--workers", 2, "--threads", 1]
    job = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    killed = []

    def kill():
        while job.poll() is None and not killed:
            if len(list((place / "out").glob("part-*"))) >= 2 and (there := ray_workers()):
                os.kill(there[0], signal.SIGKILL)
                killed.append(there[0])
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    out, errors = job.communicate(timeout=1800)
    killer.join()
    assert job.returncode == 0, errors
    assert killed, "no worker was there to be killed"
    print(out, errors)
    table = table_of(place / "out")
    assert table["id"].to_pylist() == list(range(count)), "each once, in order"
    assert table["text"].to_pylist() == given
    np.testing.assert_allclose(
        embeddings_of(table)[::max(1, count // 200)], embedder.embed(given[::max(1, count // 200)]),
        atol=1e-5)
    assert not list((place / "out").glob("*.partial"))
    told = errors.strip().splitlines()[-1]
    assert " 0 compiled" in told, "kernels come from the cache that all share"
    assert re.search(r"calls p50 [0-9.]+ ms, p99 [0-9.]+ ms, [0-9]+ MB", told), told
    again = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=600)
    assert again.stdout.startswith("0 texts embedded"), again.stderr
    for part in sorted((place / "out").glob("part-*"))[1:3]:
        part.unlink()
    (place / "out/.part-000001.parquet.1.partial").write_bytes(b"of a process that was killed")
    resumed = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=600)
    assert resumed.returncode == 0, resumed.stderr
    assert 0 < int(resumed.stdout.split()[0]) < count
    assert table_of(place / "out").equals(table) and not list((place / "out").glob(".*"))
    other = subprocess.run([*map(str, words), "--normalize"], capture_output=True, text=True,
                           timeout=600)
    assert other.returncode == 1 and other.stderr.strip().endswith(
        "it holds parts of a job that differs in options: give a new folder, or what was given then"
    )


@pytest.mark.parametrize(
    "content, error, message",
    [
        ('{"text": "w1"}\n{"text": \n', anydim.MalformedError,
         "bad.jsonl: the line at byte 15 is no JSON"),
        ('{"text": "w1"}\n[1]\n', anydim.MalformedError, "the line at byte 15 is no JSON object"),
        ('{"words": "w1"}\n', anydim.OptionError, "there is no column 'text'; there are words"),
        ('{"text": 7}\n', anydim.InputError, "row 0 is a int: expected a text"),
        ("PAR1 and nothing more", anydim.MalformedError, "this is no Parquet file"), ],
)
def test_bad_files_are_errors_of_their_kind(place, tmp_path, content, error, message):
    from anydim._shards import Reader, shards_of, texts_of

    (tmp_path / "bad.jsonl").write_text(content)
    reader = Reader("text")
    with pytest.raises(error, match=message):
        for shard in shards_of([str(tmp_path / "bad.jsonl")], 10, 1000):
            texts_of(reader.read(shard)["text"], "bad.jsonl")


def test_lines_belong_to_one_piece_wherever_it_ends(tmp_path):
    from anydim._shards import Reader, shards_of

    (tmp_path / "lines.jsonl").write_text("".join(
        json.dumps({"text": "x" * (number % 17)}) + "\n" for number in range(100)))
    for size in (1, 7, 64, 100000):
        read = [
            row for shard in shards_of([str(tmp_path / "lines.jsonl")], 10, size)
            for row in Reader("text").read(shard).to_pylist()]
        assert [len(row["text"]) for row in read] == [number % 17 for number in range(100)], size


def test_a_folder_of_something_else_is_left_alone(place, tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    (tmp_path / "in.jsonl").write_text('{"text": "w1"}\n')
    with pytest.raises(anydim.OptionError, match="it holds files that are not of such a job"):
        corpus.embed_files(tmp_path / "in.jsonl", tmp_path, **options(place))
    with pytest.raises(anydim.MalformedError, match="there is no such file or folder"):
        corpus.embed_files(tmp_path / "none", tmp_path / "out", **options(place))
    assert not (tmp_path / "out").exists() and (tmp_path / "mine.txt").read_text() == "kept"
