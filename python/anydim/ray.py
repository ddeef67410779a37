"""Embeddings of a corpus that is too large for one process: a class for Ray Data, and a job over
files that can be killed and begun again.

    from anydim.ray import Embedder
    dataset.map_batches(
        Embedder, fn_constructor_kwargs={"model": "model.onnx", "tokenizer": "tokenizer.json"},
        compute=ray.data.ActorPoolStrategy(size=2), num_cpus=4)

    python -m anydim.ray corpus/*.parquet --model model.onnx --tokenizer tokenizer.json \\
        --output embeddings --workers 2

`embed_files` and the command want ray[data]; Embedder alone wants tokenizers (or transformers).
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _model, _tokens
from .errors import Error, OptionError, ResourceError, UnsupportedError


class Embedder:
    """Embeds the texts of batches: a callable class for `ray.data.Dataset.map_batches`, or for use
    by itself.

    model, tokenizer: an ONNX file of an encoder or its bytes; a file tokenizer.json, or what
    transformers.AutoTokenizer takes. text, embedding: columns, of texts and of what is made of
    them: float32 (texts, width). result: the model's result that is wanted, (texts, width), or
    (texts, tokens, width), of which the mean over a text's tokens is taken; None: its only one of
    two dims, else of three. batch_tokens: texts of a call have as many tokens together at most; a
    longer text has a call of its own. Texts are called in order of their lengths, whatever order
    they come in. max_tokens: of a text, what is beyond is cut off; all that the model takes where
    None. normalize: embeddings have length 1. options: as `anydim.compile` takes them; masked_rows
    is "zero" unless it is said, and nothing of padding is computed where the model allows (else a
    `PaddingWarning`).

    Raises a class of `anydim.errors` for each kind of error: InputError for a row that is no text,
    OptionError for a column that there is not.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        text: str = "text",
        embedding: str = "embedding",
        result: str | None = None,
        batch_tokens: int = 8192,
        max_tokens: int | None = None,
        normalize: bool = False,
        **options: Any,
    ) -> None:
        if batch_tokens < 1:
            raise OptionError(f"batch_tokens is {batch_tokens}: expected at least 1")
        self.text, self.embedding = text, embedding
        self.batch_tokens, self.normalize = batch_tokens, normalize
        if options.get("threads"):  # tokenizers has threads of its own
            os.environ.setdefault("RAYON_NUM_THREADS", str(options["threads"]))
        source = _model.source_of(model)
        if result is None:
            with _model.compile(
                    source, **{"warn_level": 2, **options, "cache": False,
                               "masked_rows": "keep"}) as whole:
                result = embedding_result(whole)
        self.result = result
        self.model = _model.compile(
            source, **{"masked_rows": "zero", "warn_level": 2, **options, "outputs": [result]})
        (info,) = self.model.outputs
        if len(info.shape) not in (2, 3) or not isinstance(info.shape[-1], int):
            raise UnsupportedError(
                f"the result is {info}: expected the shape (texts, width) or (texts, tokens, width)"
            )
        self.of_tokens, self.width = len(info.shape) == 3, info.shape[-1]
        self.input_names = _tokens.encoder_inputs(self.model)
        self.max_tokens = _tokens.most_tokens(self.model, max_tokens, "max_tokens")
        self.tokenizer = _tokens.tokenizer_of(tokenizer)
        if _tokens.is_plain(self.tokenizer):
            self.tokenizer.enable_truncation(self.max_tokens)
        self.ragged = not self.model.padded_because
        self.tokens = 0  # embedded up to now

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The batch with the column of embeddings."""
        from ._shards import texts_of

        if self.text not in batch:
            raise OptionError(f"there is no column '{self.text}'; there are {', '.join(batch)}")
        return {
            **batch, self.embedding: self.embed(texts_of(batch[self.text],
                                                         f"column '{self.text}'"))}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32 (texts, width), in the order of the texts."""
        embeddings = np.empty((len(texts), self.width), "float32")
        encoded = _tokens.encode(self.tokenizer, list(texts), self.max_tokens) if texts else []
        lengths = np.array([len(ids) for ids, _ in encoded], dtype="int64")
        for rows in self.batches(lengths):
            embeddings[rows] = self.call([encoded[row] for row in rows], lengths[rows])
        self.tokens += int(lengths.sum())
        if self.normalize:
            embeddings /= np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
        return embeddings

    def batches(self, lengths: np.ndarray) -> list[np.ndarray]:
        """Rows of each call. Padded calls hold their longest text as often as they hold texts."""
        batches: list[list[int]] = []
        tokens = 0
        for row in np.argsort(lengths, kind="stable"):
            tokens = tokens + lengths[row] if self.ragged else (len(batches[-1]) +
                                                                1 if batches else 1) * lengths[row]
            if not batches or tokens > self.batch_tokens:
                batches.append([])
                tokens = lengths[row]
            batches[-1].append(row)
        return [np.array(batch) for batch in batches]

    def call(self, encoded: _tokens.Encoded, lengths: np.ndarray) -> np.ndarray:
        if self.ragged:
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            flat = {
                name: np.array([number for text in encoded for number in text[part]], dtype="int64")
                for part, name in enumerate(("input_ids", "token_type_ids"))}
            result = self.model.run_ragged(
                {name: flat[name] for name in self.input_names if name in flat},
                offsets)[self.result]
            return np.add.reduceat(result, offsets[:-1],
                                   axis=0) / lengths[:, None] if self.of_tokens else result
        padded = {
            name: np.zeros((len(encoded), int(lengths.max())), "int64")
            for name in ("input_ids", "token_type_ids", "attention_mask")}
        for row, (ids, types) in enumerate(encoded):
            padded["input_ids"][row, :len(ids)], padded["token_type_ids"][
                row, :len(types)], padded["attention_mask"][row, :len(ids)] = ids, types, 1
        result = self.model.run({name: padded[name] for name in self.input_names})[self.result]
        return (result * padded["attention_mask"][:, :, None]).sum(
            axis=1) / lengths[:, None] if self.of_tokens else result


def embedding_result(model: Any) -> str:
    for rank in (2, 3):
        names = [info.name for info in model.outputs if len(info.shape) == rank]
        if len(names) == 1:
            return names[0]
        if names:
            break
    raise OptionError(
        f"which result is the embedding? Give `result`, one of {', '.join(info.name for info in model.outputs)}"
    )


class Progress(NamedTuple):
    """How far a job is: parts written, of so many; of this run, texts and tokens embedded, and
    seconds; of its workers together kernels taken from the cache and compiled, tokens computed
    (padding included) and bytes that models hold; of the slowest worker seconds of a call, the
    median and the 99th percentile."""

    parts: int
    of_parts: int
    texts: int
    tokens: int
    seconds: float
    kernels_from_cache: int
    kernels_compiled: int
    tokens_computed: int
    memory_bytes: int
    p50: float
    p99: float

    def __str__(self) -> str:
        rate = self.tokens / self.seconds if self.seconds > 0 else 0
        return (
            f"{self.parts} of {self.of_parts} parts, {self.texts} texts, {rate:.0f} tokens/s, "
            f"{self.tokens_computed} tokens computed, calls p50 {1e3 * self.p50:.1f} ms, p99 {1e3 * self.p99:.1f} ms, {self.memory_bytes >> 20} MB, "
            f"kernels: {self.kernels_from_cache} from the cache, {self.kernels_compiled} compiled")


class AtWork(NamedTuple):
    """What a progress line says of one worker's model."""

    from_cache: int
    compiled: int
    computed: int
    memory: int
    p50: float
    p99: float


def at_work(model: Any) -> AtWork:
    calls, kernels, memory, _ = model.stats()
    return AtWork(kernels.from_cache, kernels.compiled, calls.tokens_computed, sum(memory),
                  calls.latency.p50, calls.latency.p99)


class ShardEmbedder:
    """What a worker does: a shard read, embedded, and written as one part."""

    def __init__(self, folder: str, model: str, tokenizer: str, text: str,
                 options: dict[str, Any]) -> None:
        from ._shards import Reader

        self.folder, self.reader, self.text = folder, Reader(text), text
        self.embedder = Embedder(model, tokenizer, text=text, **options)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        import pyarrow as pa

        from . import _shards

        told: dict[str, list[Any]] = {
            name: [] for name in ("texts", "tokens", "worker", *AtWork._fields)}
        for row in zip(*(batch[field] for field in _shards.Shard._fields)):
            shard = _shards.Shard(int(row[0]), str(row[1]), *map(int, row[2:]))
            table, before = self.reader.read(shard), self.embedder.tokens
            texts = _shards.texts_of(
                table[self.text], f"{shard.file} from {shard.begin} on") if table.num_rows else []
            flat = pa.array(self.embedder.embed(texts).reshape(-1))
            column = pa.FixedSizeListArray.from_arrays(flat, self.embedder.width)
            _shards.write_part(self.folder, shard.number,
                               table.append_column(self.embedder.embedding, column))
            values = (len(texts), self.embedder.tokens - before, os.getpid(),
                      *at_work(self.embedder.model))
            for name, value in zip(told, values):
                told[name].append(value)
        return {name: np.array(values) for name, values in told.items()}


def embed_files(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str],
    tokenizer: str | os.PathLike[str],
    text: str = "text",
    workers: int = 2,
    threads: int | None = None,
    rows: int = 2048,
    progress: Any = None,
    **options: Any,
) -> Progress:
    """Embeds every text of Parquet and JSON lines files on workers of Ray, each text once, into a
    folder of Parquet files, part-000000.parquet and so on, whose rows are the inputs' in their
    order, with all of their columns and the embeddings (fixed_size_list<float32>).

    inputs: files, or folders of .parquet and .jsonl files. output: a folder, made where absent.
    model, tokenizer: paths that every worker can read. text: the column of texts. workers, threads:
    processes, and threads of each; as many as there are processors for it where None. Ray is begun
    here unless it is at work already, with a cluster as well. rows: of a part, at most; of JSON
    lines a part has 256 bytes for each. progress: called with a `Progress` about once a second.
    options: as of `Embedder`.

    A part is written whole or not at all, and only what has no part is computed: a worker that is
    lost costs the parts it was at, which others take over, and a job that was killed goes on where
    it was when it is begun again. Kernels are compiled once, before the workers begin, and shared
    through the cache. Raises a class of `anydim.errors`; OptionError where the folder holds another
    job's parts.
    """
    import ray
    import ray.data

    from . import _shards

    if workers < 1 or rows < 1:
        raise OptionError(f"workers is {workers} and rows is {rows}: expected at least 1 of each")
    names = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    files = _shards.input_files([os.path.abspath(os.fspath(name)) for name in names])
    folder, model, tokenizer = os.path.abspath(os.fspath(output)), os.path.abspath(
        os.fspath(model)), os.path.abspath(os.fspath(tokenizer))
    threads = threads or max(1, len(os.sched_getaffinity(0)) // workers)
    options = {**options, "threads": threads}
    shards = _shards.shards_of(files, rows, 256 * rows)
    warm(model, tokenizer, text, options)
    stamps = [[file, os.path.getsize(file), os.stat(file).st_mtime_ns]
              for file in [*files, model, tokenizer]]
    defaults = {
        name: option.default for kind in (_model.compile, Embedder)
        for name, option in inspect.signature(kind).parameters.items()}
    same = {
        name: str(value)
        for name, value in options.items()
        if name not in ("threads", "cache_dir", "cache", "database") and value != defaults.get(name)
    }
    _shards.open_job(folder, {"files": stamps, "text": text, "rows": rows, "options": same})
    done = _shards.finished_parts(folder)
    left = [shard for shard in shards if shard.number not in done]
    report = Watch(len(done), len(shards), progress)
    if left:
        begin_ray(workers * threads + 1)
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        dataset = ray.data.from_items([shard._asdict() for shard in left],
                                      override_num_blocks=len(left)).map_batches(
                                          ShardEmbedder,
                                          fn_constructor_kwargs={
                                              "folder": folder, "model": model,
                                              "tokenizer": tokenizer, "text": text,
                                              "options": options},
                                          batch_size=1,
                                          compute=ray.data.ActorPoolStrategy(size=workers),
                                          num_cpus=threads,
                                      )
        try:
            for row in dataset.iter_rows():
                report.add(row)
        except ray.exceptions.RayError as fault:
            raise ours(fault) from None
        _shards.drop_partials(folder)
    return report.end()


def begin_ray(processors: int) -> None:
    """Unless it is at work. It gives its own processes half a minute to start, which is not always
    enough beside other work."""
    import ray

    for attempt in range(3):
        if ray.is_initialized():
            return
        try:
            ray.init(num_cpus=processors, include_dashboard=False, log_to_driver=False,
                     logging_level="error")
        except Exception as fault:  # of no class of its own
            ray.shutdown()
            if attempt == 2:
                raise ResourceError(f"Ray does not begin: {fault}") from None


def warm(model: str, tokenizer: str, text: str, options: dict[str, Any]) -> None:
    """Every kernel compiled, so that workers find it in the cache; and what is wrong with the
    options, before Ray is begun."""
    embedder = Embedder(model, tokenizer, text=text, **options)
    embedder.embed(["warm"])
    while embedder.model.stats().kernels.pending > 0:
        time.sleep(0.05)
    embedder.model.close()


def ours(fault: BaseException) -> BaseException:
    """What a worker raised, where that is an error of Anydim's."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, Error) and not hasattr(cause, "as_instanceof_cause"):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return fault


class Watch:
    def __init__(self, done: int, parts: int, progress: Any) -> None:
        self.begin, self.told, self.progress = time.monotonic(), 0.0, progress
        self.done, self.parts, self.texts, self.tokens = done, parts, 0, 0
        self.workers: dict[int, AtWork] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        self.done += 1
        self.texts += int(row["texts"])
        self.tokens += int(row["tokens"])
        self.workers[int(row["worker"])] = AtWork(
            *(int(row[name]) for name in AtWork._fields[:4]),
            *(float(row[name]) for name in AtWork._fields[4:]))
        if self.progress is not None and time.monotonic() - self.told >= 1:
            self.told = time.monotonic()
            self.progress(self.now())

    def now(self) -> Progress:
        columns = list(zip(*self.workers.values())) or [(0,)] * len(AtWork._fields)
        whole = [*map(sum, columns[:4]), *map(max, columns[4:])]
        return Progress(self.done, self.parts, self.texts, self.tokens,
                        time.monotonic() - self.begin, *whole)

    def end(self) -> Progress:
        if self.progress is not None:
            self.progress(self.now())
        return self.now()


def main() -> int:
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m anydim.ray", description=
        "Embeds the texts of Parquet and JSON lines files; begun again, it goes on where it was.")
    parser.add_argument("inputs", nargs="+", help="files, or folders of .parquet and .jsonl files")
    parser.add_argument("--output", required=True, help="folder of Parquet files")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer", required=True, help="tokenizer.json")
    parser.add_argument("--text", default="text", help="column of texts (default: text)")
    parser.add_argument("--result", help="the model's result that is wanted")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--threads", type=int,
                        help="of each worker (default: processors / workers)")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="of a call (default: 8192)")
    parser.add_argument("--max-tokens", type=int, help="of a text; what is beyond is cut off")
    parser.add_argument("--rows", type=int, default=2048, help="of a part (default: 2048)")
    parser.add_argument("--normalize", action="store_true", help="embeddings of length 1")
    parser.add_argument("--precision", default="f32",
                        help="as anydim.compile takes it (default: f32)")
    parser.add_argument("--cache-dir", help="folder of compiled kernels")
    words = vars(parser.parse_args())
    try:
        done = embed_files(
            words.pop("inputs"), words.pop("output"),
            progress=lambda told: print(f"anydim: {told}", file=sys.stderr, flush=True), **words)
    except Error as error:
        print(f"anydim: {error}", file=sys.stderr)
        return 1
    print(f"{done.texts} texts embedded, {done.tokens} tokens, in {done.seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
