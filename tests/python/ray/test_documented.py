"""The code of docs/corpus.md, in a folder with a small model, its tokenizer and a corpus."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_code_of_the_documentation(tmp_path):
    shutil.copy(ROOT / "tests/models/tiny_bert.onnx", tmp_path / "model.onnx")
    vocabulary = {
        word: number
        for number, word in enumerate(["[UNK]", "some", "texts", "of", "two", "lengths"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "corpus.jsonl").write_text("".join(
        json.dumps({"id": number, "text": "some texts of lengths"[:4 + number % 18]}) + "\n"
        for number in range(40)))
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", (ROOT / "docs/corpus.md").read_text(),
                        re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["sh", "python", "python"]
    environment = {
        **os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])}
    for language, block in blocks:
        command = ["bash", "-euc", block] if language == "sh" else [sys.executable, "-c", block]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True,
                              text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        if language == "sh":
            assert done.stdout.startswith("40 texts embedded"), done.stdout
    table = pq.read_table(tmp_path / "embeddings/part-000000.parquet")
    assert table.column_names == ["id", "text", "embedding"] and table["id"].to_pylist() == list(
        range(40))
