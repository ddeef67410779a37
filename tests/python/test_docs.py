"""Every block of code in docs/python.md, in order, as one program. Those of sentence-transformers are run where that is installed (peers/test_documented.py)."""

import documented


def test_the_code_of_the_documentation(monkeypatch, capsys):
    monkeypatch.chdir(documented.ROOT)
    blocks = [block for block in documented.blocks() if "sentence_transformers" not in block]
    assert len(blocks) >= 8
    documented.run(blocks)
    assert "TensorInfo(name='input_ids', dtype='int64', shape=('batch', 'seq'))" in capsys.readouterr().out


def test_every_option_is_documented():
    import inspect

    import anydim

    text = (documented.ROOT / "docs/python.md").read_text()
    for name in inspect.signature(anydim.compile).parameters:
        assert name in ("model", "warn_level") or f"`{name}`" in text, name
    for name in anydim.__all__:
        if name.endswith("Error") and name != "Error":
            assert f"| `{name}` |" in text, name
