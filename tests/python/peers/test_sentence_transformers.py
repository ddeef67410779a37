"""SentenceTransformer.encode over Anydim's module gives what it gives over sentence-transformers'
own."""

import copy

import numpy as np
import pytest

import anydim
import minilm
from anydim.sentence_transformers import Transformer


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory):
    return minilm.with_torch(tmp_path_factory.mktemp("minilm"))


@pytest.fixture(scope="module", params=[False, True], ids=["padded batches", "texts end to end"])
def with_anydim(request):
    return minilm.with_anydim(ragged=request.param)


def least_cosine(one, other):
    one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
    return ((one * other).sum(1) / np.linalg.norm(one, axis=1) /
            np.linalg.norm(other, axis=1)).min()


def test_embeddings_of_real_texts(with_anydim, with_torch, texts):
    expected, got = with_torch.encode(texts), with_anydim.encode(texts)
    assert got.shape == (len(texts), 384) and got.dtype == expected.dtype
    assert least_cosine(got, expected) >= 0.99999
    assert np.abs(got - expected).max() < 1e-5


def test_texts_longer_than_the_model(with_anydim, with_torch):
    texts = ["word " * 1000, "", "a", "word " * 254, "word " * 255]
    assert least_cosine(with_anydim.encode(texts), with_torch.encode(texts)) >= 0.99999


def test_other_ways_to_call_encode(with_anydim, with_torch, texts):
    assert with_anydim.encode(texts[0]).shape == (384,)
    tensor = with_anydim.encode(texts[:3], convert_to_tensor=True, batch_size=2)
    assert least_cosine(tensor, with_torch.encode(texts[:3])) >= 0.99999
    prompted = with_anydim.encode(texts[:4], prompt="query: ")
    assert least_cosine(prompted, with_torch.encode(texts[:4], prompt="query: ")) >= 0.99999
    assert with_anydim.encode([]).shape == with_torch.encode([]).shape
    assert with_anydim.get_embedding_dimension() == 384 and with_anydim.max_seq_length == 256


def test_a_prompt_that_pooling_leaves_out(with_anydim, with_torch, texts):
    for model in (with_anydim, with_torch):
        model[1].include_prompt = False
    try:
        prompted = [
            model.encode(texts[:4], prompt="query: ") for model in (with_anydim, with_torch)]
    finally:
        for model in (with_anydim, with_torch):
            model[1].include_prompt = True
    assert least_cosine(*prompted) >= 0.99999


def test_embeddings_of_tokens(with_torch, texts):
    ours = minilm.with_anydim().encode(texts[:5], output_value="token_embeddings")
    theirs = with_torch.encode(texts[:5], output_value="token_embeddings")
    for got, expected in zip(ours, theirs, strict=True):
        assert got.shape == expected.shape and least_cosine(got, expected) >= 0.99999


def test_tokenizers_of_transformers(with_torch, texts):
    model = minilm.sentence_transformer(
        Transformer(minilm.MODEL, with_torch.tokenizer, max_seq_length=256))
    assert least_cosine(model.encode(texts), with_torch.encode(texts)) >= 0.99999
    assert least_cosine(model.encode([("one", "two")]),
                        with_torch.encode([("one", "two")])) >= 0.99999


def test_hidden_rows_are_not_computed(texts):
    model = minilm.with_anydim()
    model.encode(texts)
    calls = model[0].model.stats().calls
    assert calls.packed == calls.calls
    assert calls.tokens_computed == calls.tokens_useful < calls.tokens_given
    ragged = minilm.with_anydim(ragged=True)
    ragged.encode(texts)
    assert ragged[0].model.stats().calls.ragged == calls.calls


def test_copies_compile_again(texts):
    model = minilm.with_anydim()
    assert (copy.deepcopy(model).encode(texts[:4]) == model.encode(texts[:4])).all()


def test_what_does_not_fit(tmp_path):
    with pytest.raises(anydim.OptionError, match="no_such"):
        Transformer(minilm.MODEL, minilm.TOKENIZER, output="no_such")
    with pytest.raises(anydim.UnsupportedError, match="expected the shape"):
        Transformer(minilm.MODEL, minilm.TOKENIZER, output="sentence_embedding")
    with pytest.raises(anydim.OptionError, match="the model takes 512 tokens at most"):
        Transformer(minilm.MODEL, minilm.TOKENIZER, max_seq_length=1000)
    with pytest.raises(anydim.UnsupportedError, match="is not saved"):
        minilm.with_anydim().save_pretrained(str(tmp_path))
