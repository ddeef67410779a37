"""Tokenizers, of the package tokenizers or of transformers, and the inputs of encoders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .errors import MalformedError, OptionError, UnsupportedError

Encoded = list[tuple[list[int], list[int]]]


def is_plain(tokenizer: Any) -> bool:
    """Of the package tokenizers, not of transformers."""
    return hasattr(tokenizer, "encode_batch")


def tokenizer_of(tokenizer: Any) -> Any:
    """A file tokenizer.json, a folder or name as transformers.AutoTokenizer takes them, or a
    tokenizer of either library."""
    if not isinstance(tokenizer, (str, os.PathLike)):
        if is_plain(tokenizer):
            tokenizer.no_padding()
        return tokenizer
    if os.path.isfile(tokenizer):
        from tokenizers import Tokenizer

        try:
            return tokenizer_of(Tokenizer.from_file(os.fspath(tokenizer)))
        except Exception as fault:  # of no class of its own
            raise MalformedError(
                f"{os.fspath(tokenizer)}: this is no tokenizer ({fault})") from None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer)


def encode(tokenizer: Any, texts: Sequence[Any], most_tokens: int) -> Encoded:
    """(ids, token types) of each text or pair of texts, special tokens and all. A plain tokenizer
    cuts where enable_truncation told it to."""
    if is_plain(tokenizer):
        return [(encoding.ids, encoding.type_ids) for encoding in tokenizer.encode_batch(texts)]
    pairs = {}
    if texts and not isinstance(texts[0], str):
        texts, pairs["text_pair"] = [first for first, _ in texts], [second for _, second in texts]
    encoded = tokenizer(texts, truncation=True, max_length=most_tokens, **pairs)
    ids = encoded["input_ids"]
    return list(zip(ids, encoded.get("token_type_ids") or [[0] * len(row) for row in ids]))


def encoder_inputs(model: Any) -> list[str]:
    """Names of an encoder's inputs. Raises UnsupportedError for a model that takes others."""
    names = [info.name for info in model.inputs]
    if "input_ids" not in names or set(names) - {"input_ids", "attention_mask", "token_type_ids"}:
        raise UnsupportedError(
            f"the model takes {', '.join(names)}: expected input_ids, attention_mask and perhaps token_type_ids"
        )
    return names


def most_tokens(model: Any, wanted: int | None, option: str) -> int:
    """Of a text: as many as are wanted, all that the model takes where None. Raises OptionError
    where it takes fewer."""
    extent = next(info for info in model.inputs if info.name == "input_ids").shape[1]
    most = extent if isinstance(extent, int) else model.symbols[extent].high
    if wanted is not None and not 0 < wanted <= most:
        raise OptionError(f"{option} is {wanted}, and the model takes {most} tokens at most")
    return most if wanted is None else wanted
