"""What an ONNX file says of itself beside its graph."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

# Fields of ModelProto; 2 of GraphProto is its name, and metadata_props are pairs of 1 (key) and 2
# (value).
PRODUCER_NAME, MODEL_DOMAIN, MODEL_VERSION, DOC_STRING, GRAPH, METADATA_PROPS = 2, 4, 5, 6, 7, 14
GRAPH_NAME, GRAPH_DOC_STRING = 2, 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_metadata(model: str | bytes) -> dict[str, Any]:
    """The metadata of a model given as a path or bytes: names of `ModelMetadata` to values. A
    module in text form has none."""
    if isinstance(model, bytes):
        return fields_of(memoryview(model))
    with open(model, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return fields_of(memoryview(b""))
        with mmap.mmap(file.fileno(), 0,
                       access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            return fields_of(view)


def fields_of(view: memoryview) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "producer_name": "", "domain": "", "version": 0, "description": "", "graph_name": "",
        "graph_description": "", "custom_metadata_map": {}}
    texts = {PRODUCER_NAME: "producer_name", MODEL_DOMAIN: "domain", DOC_STRING: "description"}
    try:
        for field, value in fields(view):
            if field in texts:
                metadata[texts[field]] = text(value)
            elif field == MODEL_VERSION:
                metadata["version"] = value
            elif field == METADATA_PROPS:
                pair = dict(fields(value))
                metadata["custom_metadata_map"][text(pair.get(1, b""))] = text(pair.get(2, b""))
            elif field == GRAPH:
                for inner, content in fields(value):
                    if inner == GRAPH_NAME:
                        metadata["graph_name"] = text(content)
                    elif inner == GRAPH_DOC_STRING:
                        metadata["graph_description"] = text(content)
    except (IndexError, ValueError, TypeError):
        pass  # no ONNX: what was read stands
    return metadata


def text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace")


def fields(view: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a protobuf message; bytes are views, nothing large is
    copied."""
    at = 0
    while at < len(view):
        tag, at = varint(view, at)
        kind = tag & 7
        value: Any
        if kind == VARINT:
            value, at = varint(view, at)
        elif kind == BYTES:
            length, at = varint(view, at)
            value, at = view[at : at + length], at + length
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
            value, at = view[at : at + length], at + length
        else:
            raise ValueError(f"no field of protobuf is of kind {kind}")
        yield tag >> 3, value


def varint(view: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = view[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
