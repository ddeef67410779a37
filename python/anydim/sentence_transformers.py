"""A module of sentence-transformers that runs an ONNX encoder with Anydim:

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
    from anydim.sentence_transformers import Transformer

    transformer = Transformer("model.onnx", "tokenizer.json")
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu")
    model.encode(["texts", "of different lengths"])

Rows that only pad a text to the length of the longest are not computed. Wants sentence-transformers
6 or newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule

from . import _model, _tokens
from .errors import UnsupportedError


class Transformer(InputModule):
    """Tokens in, an embedding of each out: what sentence-transformers' own Transformer does.

    model: an ONNX file of an encoder that takes input_ids and attention_mask, and token_type_ids
    where it likes; or its bytes.
    tokenizer: a file tokenizer.json, a folder or name as transformers.AutoTokenizer takes them, or
    a tokenizer of either library.
    max_seq_length: tokens of a text, what is beyond is cut off; the most that the model takes where
    None.
    output: the result of shape (texts, tokens, width) that embeds tokens; no other is computed.
    ragged: texts lie end to end, without padding from the tokenizer to the pooling. For Pooling and
    what comes after it alone: there is no
        encode(output_value="token_embeddings").
    options: as `anydim.compile` takes them; masked_rows is "zero" unless it is said.
    """

    def __init__(self, model: Any, tokenizer: Any, *, max_seq_length: int | None = None,
                 output: str = "last_hidden_state", ragged: bool = False, **options: Any) -> None:
        super().__init__()
        self.source, self.options, self.ragged = _model.source_of(model), {
            "masked_rows": "zero", **options}, ragged
        self.output = output
        self.compile_model(warn_level=3)
        self.tokenizer = _tokens.tokenizer_of(tokenizer)
        self.max_seq_length = max_seq_length

    def compile_model(self, warn_level: int) -> None:
        self.model = _model.compile(self.source, outputs=[self.output], warn_level=warn_level,
                                    **self.options)
        (self.info,) = self.model.outputs
        if len(self.info.shape) != 3 or not isinstance(self.info.shape[-1], int):
            raise UnsupportedError(
                f"the result is {self.info}: expected the shape (texts, tokens, width)")
        self.input_names = _tokens.encoder_inputs(self.model)

    @property
    def max_seq_length(self) -> int:
        return self.most_tokens

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self.most_tokens = _tokens.most_tokens(self.model, value, "max_seq_length")
        if _tokens.is_plain(self.tokenizer):
            self.tokenizer.enable_truncation(self.most_tokens)

    def get_embedding_dimension(self) -> int:
        return int(self.info.shape[-1])

    # Its name before sentence-transformers 6.
    get_word_embedding_dimension = get_embedding_dimension

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None,
                   **kwargs: Any) -> dict[str, Any]:
        """Tokens of texts, or of pairs of texts, as tensors."""
        features = {}
        if prompt:
            inputs = [prompt + text for text in inputs]
            *begin, last = self.encode([prompt])[0][0]
            features["prompt_length"] = len(begin) + (last not in self.special_ids())
        encoded = self.encode(list(inputs))
        lengths = [len(ids) for ids, _ in encoded]
        if self.ragged:
            rows = [
                torch.tensor([number
                              for part in parts
                              for number in part])
                for parts in zip(*encoded)]
            offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64)
            offsets[1:] = torch.tensor(lengths).cumsum(0)
            features.update(input_ids=rows[0], token_type_ids=rows[1], cu_seq_lens_q=offsets)
        else:
            longest = max(lengths, default=0)
            ids, types, mask = [
                torch.zeros(len(lengths), longest, dtype=torch.int64) for _ in range(3)]
            for row, (numbers, kinds) in enumerate(encoded):
                ids[row, : len(numbers)] = torch.tensor(numbers)
                mask[row, : len(numbers)] = 1
                if any(kinds):
                    types[row, : len(kinds)] = torch.tensor(kinds)
            features.update(input_ids=ids, attention_mask=mask, token_type_ids=types)
        return features

    def encode(self, texts: Sequence[Any]) -> _tokens.Encoded:
        return _tokens.encode(self.tokenizer, texts, self.most_tokens)

    def special_ids(self) -> set[int]:
        if _tokens.is_plain(self.tokenizer):
            return {
                number for number, token in self.tokenizer.get_added_tokens_decoder().items()
                if token.special}
        return set(self.tokenizer.all_special_ids)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        inputs = {name: features[name] for name in self.input_names if name in features}
        if self.ragged:
            results = self.model.run_ragged(inputs, features["cu_seq_lens_q"], arrays="torch")
            features["token_embeddings"] = results[self.output].unsqueeze(0)
        else:
            features["token_embeddings"] = self.model.run(inputs, arrays="torch")[self.output]
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(
            "a model compiled by Anydim is not saved: keep the ONNX file and its tokenizer")

    # Copies and other processes' workers compile it again.
    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("model", "info"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.compile_model(warn_level=2)
