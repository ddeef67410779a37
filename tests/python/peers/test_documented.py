"""The blocks of docs/python.md that need sentence-transformers, after those that they build on."""

import documented


def test_the_code_of_the_documentation(monkeypatch):
    monkeypatch.chdir(documented.ROOT)
    blocks = documented.blocks()
    assert sum("sentence_transformers" in block for block in blocks) == 1
    documented.run(blocks)
