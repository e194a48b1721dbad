"""The pages' Python: every block is run, page by page, and prints what the page shows."""

import doctest
import re
from pathlib import Path

import pytest

pytest.importorskip("pandas")
ROOT = Path(__file__).parents[2]


def examples(page):
    """The page with everything but its blocks of Python left blank, so that lines keep their numbers."""
    def kept(block):
        return "\n" + block[1] if block[1] else "\n" * block[0].count("\n")
    return re.sub(r"(?ms)^```python\n(.*?)^```$|^[^\n]*\n", kept, page)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/export.md"])
@pytest.mark.filterwarnings("ignore::moe_regression.ModelSuspectWarning")
def test_page(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = examples((ROOT / page).read_text(encoding="utf-8"))
    session = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, tried = runner.run(session, out=said.append)
    assert tried > 0 and not failed, "".join(said)
