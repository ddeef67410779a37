"""A corpus in pieces: texts of Parquet and JSON lines files, each piece read by whoever embeds it
and written as a Parquet file of its own."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import InputError, MalformedError, OptionError, WriteError


class Shard(NamedTuple):
    """Rows `begin` to `end` - 1 of a row group; of JSON lines (`group` -1) the lines that begin at
    those bytes."""

    number: int
    file: str
    group: int
    begin: int
    end: int


def input_files(inputs: list[str]) -> list[str]:
    """Files and those of folders, in order of their names. Raises MalformedError, OptionError."""
    files = []
    for given in inputs:
        if os.path.isdir(given):
            files += sorted(name for ending in ("parquet", "jsonl")
                            for name in glob.glob(os.path.join(glob.escape(given), f"*.{ending}")))
        elif os.path.isfile(given):
            files.append(given)
        else:
            raise MalformedError(f"{given}: there is no such file or folder")
    if not files:
        raise MalformedError(f"{', '.join(inputs)}: there is no .parquet or .jsonl file")
    return files


def is_parquet(file: str) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == b"PAR1"


def shards_of(files: list[str], rows: int, line_bytes: int) -> list[Shard]:
    """Pieces of at most `rows` rows, or of the lines that begin within `line_bytes` bytes. No text
    is read."""
    pieces: list[tuple[str, int, int, int]] = []
    for file in files:
        if is_parquet(file):
            metadata = parquet_file(file).metadata
            for group in range(metadata.num_row_groups):
                count = metadata.row_group(group).num_rows
                pieces += [(file, group, begin, min(count, begin + rows))
                           for begin in range(0, count, rows)]
        else:
            size = os.path.getsize(file)
            pieces += [(file, -1, begin, min(size, begin + line_bytes))
                       for begin in range(0, size, line_bytes)]
    return [Shard(number, *piece) for number, piece in enumerate(pieces)]


def parquet_file(file: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as fault:
        raise MalformedError(f"{file}: this is no Parquet file ({fault})") from None


class Reader:
    """Reads shards; keeps the row group of the last one, since the next is mostly of the same."""

    def __init__(self, text: str) -> None:
        self.text, self.last, self.table = text, None, None

    def read(self, shard: Shard) -> pa.Table:
        table = self.lines(shard) if shard.group < 0 else self.rows(shard)
        if self.text not in table.column_names and (table.num_rows > 0 or shard.group >= 0):
            raise OptionError(
                f"{shard.file}: there is no column '{self.text}'; there are {', '.join(table.column_names) or 'none'}"
            )
        return table

    def rows(self, shard: Shard) -> pa.Table:
        if self.last != (shard.file, shard.group):
            self.table, self.last = parquet_file(shard.file).read_row_group(
                shard.group), (shard.file, shard.group)
        return self.table.slice(shard.begin, shard.end - shard.begin)

    def lines(self, shard: Shard) -> pa.Table:
        rows = []
        with open(shard.file, "rb") as stream:
            if shard.begin > 0:  # a line that begins before belongs to another shard
                stream.seek(shard.begin - 1)
                stream.readline()
            while (place := stream.tell()) < shard.end:
                line = stream.readline()
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as fault:
                    raise MalformedError(
                        f"{shard.file}: the line at byte {place} is no JSON ({fault})") from None
                if not isinstance(row, dict):
                    raise MalformedError(
                        f"{shard.file}: the line at byte {place} is no JSON object")
                rows.append(row)
        try:
            return pa.Table.from_pylist(rows)
        except pa.ArrowException as fault:
            raise MalformedError(
                f"{shard.file}: lines from byte {shard.begin} on do not make a table ({fault})"
            ) from None


def texts_of(column: Any, where: str) -> list[str]:
    """Raises InputError for what is no text."""
    texts = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{where}: row {number} is {'null' if text is None else 'a ' + type(text).__name__}: expected a text"
            )
    return texts


def part_name(number: int) -> str:
    return f"part-{number:06}.parquet"


def write_part(folder: str, number: int, table: pa.Table) -> None:
    """Whole or not at all: under another name first."""
    partial = os.path.join(folder, f".{part_name(number)}.{os.getpid()}.partial")
    try:
        pq.write_table(table, partial)
        os.replace(partial, os.path.join(folder, part_name(number)))
    except OSError as fault:
        if os.path.exists(partial):
            os.unlink(partial)
        raise WriteError(
            f"{os.path.join(folder, part_name(number))}: cannot be written ({fault})") from None


def finished_parts(folder: str) -> set[int]:
    return {
        int(name[5:11])
        for name in os.listdir(folder)
        if len(name) == len(part_name(0)) and name.startswith("part-") and name.endswith(".parquet")
    }


def drop_partials(folder: str) -> None:
    """Removes what processes left that were killed while they wrote. Raises WriteError."""
    try:
        for name in os.listdir(folder):
            if name.endswith(".partial"):
                os.unlink(os.path.join(folder, name))
    except OSError as fault:
        raise WriteError(f"{folder}: what was not finished cannot be removed ({fault})") from None


def open_job(folder: str, what: dict[str, Any]) -> None:
    """Begins a job in the folder, or goes on with the one that is there. Raises OptionError where
    that is of other inputs or options, or where the folder holds something else; WriteError."""
    fingerprint = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
    file = os.path.join(folder, "_job.json")
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(file):
            with open(file, encoding="utf8") as stream:
                known = json.load(stream)
            if known.get("fingerprint") != fingerprint:
                changed = [
                    name for name, value in what.items()
                    if known.get("what", {}).get(name) != value]
                raise OptionError(
                    f"{folder}: it holds parts of a job that differs in {', '.join(changed)}: give a new folder, or what was given then"
                )
            drop_partials(folder)
            return
        if os.listdir(folder):
            raise OptionError(
                f"{folder}: it holds files that are not of such a job: give a new or an empty folder"
            )
        partial = file + ".partial"
        with open(partial, "w", encoding="utf8") as stream:
            json.dump({"fingerprint": fingerprint, "what": what}, stream, indent=1)
        os.replace(partial, file)
    except (OSError, ValueError) as fault:
        if isinstance(fault, (OptionError, WriteError)):
            raise
        raise WriteError(f"{file}: cannot be read or written ({fault})") from None
