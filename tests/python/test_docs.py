"""Every block of code in docs/python.md, in order, as one program. Those of sentence-transformers
are run where that is installed (peers/test_documented.py)."""

import documented
from models import dense_inputs


def test_the_code_of_the_documentation(monkeypatch, capsys):
    monkeypatch.chdir(documented.ROOT)
    blocks = [block for block in documented.blocks() if "sentence_transformers" not in block]
    assert len(blocks) >= 8
    documented.run(blocks)
    assert "TensorInfo(name='input_ids', dtype='int64', shape=('batch', 'seq'))" in capsys.readouterr(
    ).out


def test_the_code_of_the_page_on_traces(dense, random, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = documented.blocks("docs/tracing.md")
    assert len(blocks) == 1
    documented.run(blocks, "docs/tracing.md", model=dense, inputs=dense_inputs(random, 2, 3))
    assert (tmp_path / "trace.json").stat().st_size > 0


def test_every_option_is_documented():
    import inspect

    import anydim

    text = (documented.ROOT / "docs/python.md").read_text()
    for name in inspect.signature(anydim.compile).parameters:
        assert name in ("model", "warn_level") or f"`{name}`" in text, name
    for name in anydim.__all__:
        if name.endswith("Error") and name != "Error":
            assert f"| `{name}` |" in text, name
