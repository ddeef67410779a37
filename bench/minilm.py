"""all-MiniLM-L6-v2 as libraries of Python run it, from the files of scripts/fetch_minilm.sh: for
bench/python_peers.py and tests/python/peers."""

import json
import pathlib

import corpus

FOLDER = pathlib.Path(__file__).resolve().parents[1] / ".cache/minilm"
MODEL, TOKENIZER = FOLDER / "minilm.onnx", FOLDER / "tokenizer.json"
MAX_TOKENS = 256  # as the model's authors have it
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}


def texts_of_fortunes(count):
    return corpus.shuffled(corpus.quotations(corpus.FORTUNES), 0)[:count]


def sentence_transformer(transformer):
    """The whole model around a module that embeds tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    return SentenceTransformer(
        modules=[transformer,
                 Pooling(transformer.get_embedding_dimension(), "mean"),
                 Normalize()], device="cpu")


def with_anydim(**options):
    from anydim.sentence_transformers import Transformer

    return sentence_transformer(Transformer(MODEL, TOKENIZER, max_seq_length=MAX_TOKENS, **options))


def with_torch(folder):
    """Sentence-transformers' own; `folder` gets the model as transformers reads it."""
    from sentence_transformers.base.modules import Transformer
    from transformers import PreTrainedTokenizerFast

    folder = pathlib.Path(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").symlink_to(FOLDER / "model.safetensors")
    special = {
        "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
        "mask_token": "[MASK]"}
    PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER), **special).save_pretrained(folder)
    return sentence_transformer(Transformer(str(folder), max_seq_length=MAX_TOKENS))


def with_onnx_runtime(threads):
    """The same module as Anydim's, its calls made by a session of onnxruntime's."""
    import onnxruntime
    import torch
    from anydim.sentence_transformers import Transformer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])

    class OnnxRuntimeTransformer(Transformer):
        def forward(self, features, **kwargs):
            feed = {name: features[name].numpy() for name in self.input_names}
            features["token_embeddings"] = torch.from_numpy(session.run([self.output], feed)[0])
            return features

    return sentence_transformer(
        OnnxRuntimeTransformer(MODEL, TOKENIZER, max_seq_length=MAX_TOKENS, threads=1))
