"""The documentation site: that it builds without a broken link, that its reference has what the
package offers, and that no block of code is without a test (commands of indented blocks:
tests/models/documented_commands_test.py). PACKAGE names the folder of the built package."""

import ast
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Fenced blocks by page, and what runs them.
TESTED = {
    "python.md": {"python"},  # test_docs.py, peers/test_documented.py
    "tracing.md": {"python"},  # test_docs.py
    "corpus.md": {"python", "sh"},  # ray/test_documented.py
    # tests/install/install_test.py builds and runs what it holds against the page.
    "c-interface.md": {"c", "cpp", "cmake"},
    "install.md": {"sh"},  # tests/install and wheel_test.py, which run these commands
}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])


def mkdocs(configuration, folder):
    environment = {
        **os.environ, "ANYDIM_PACKAGE": os.environ["PACKAGE"], "NO_MKDOCS_2_WARNING": "1"}
    command = [
        ROOT / ".cache/docs/bin/python", "-m", "mkdocs", "build", "--strict", "-f", configuration,
        "--site-dir", folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="anydim_docs_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        done = subprocess.run([ROOT / "scripts/docs_site.sh", cls.folder / "site"],
                              capture_output=True, text=True, timeout=600,
                              env={**os.environ, "ANYDIM_PACKAGE": os.environ["PACKAGE"]})
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.pages = {
            page.name: Page(page.read_text()) for page in (cls.folder / "site").glob("*.html")}

    def test_every_page_is_there(self):
        written = {
            "index" if page.stem == "README" else page.stem
            for page in (ROOT / "docs").glob("*.md")}
        self.assertEqual(written | {"404"}, {name.removesuffix(".html") for name in self.pages})

    def test_links_lead_somewhere(self):
        for name, page in self.pages.items():
            for link in page.links:
                file, _, anchor = link.partition("#")
                if "://" in link or name == "404.html":
                    continue
                target = self.pages.get(file or name)
                if file in (".", "./"):
                    target = self.pages["index.html"]
                self.assertIsNotNone(target, f"{name}: {link}")
                self.assertTrue(not anchor or anchor in target.anchors, f"{name}: {link}")

    def test_the_reference_has_what_the_package_offers(self):
        package = ast.parse((ROOT / "python/anydim/__init__.py").read_text())
        names = {
            name.name for statement in package.body
            if isinstance(statement, ast.ImportFrom) and statement.module in ("_model", "_tuning")
            for name in statement.names}
        self.assertIn("tune", names)
        there = {
            anchor.split(".")[-1]
            for anchor in self.pages["reference.html"].anchors
            if anchor.startswith("anydim.")}
        self.assertLessEqual(names | {"run", "run_ragged", "Embedder", "embed_files", "InputError"},
                             there)
        text = (self.folder / "site/reference.html").read_text()
        self.assertIn("Those that are C-contiguous, aligned", text, "the extension's own words")

    def test_a_broken_link_is_found(self):
        copy = self.folder / "copy"
        shutil.copytree(ROOT / "docs", copy / "docs")
        shutil.copy(ROOT / "mkdocs.yml", copy)
        with open(copy / "docs/install.md", "a") as page:
            page.write("\n[nowhere](nowhere.md) and [no such part](python.md#no-such-part)\n")
        done = mkdocs(copy / "mkdocs.yml", self.folder / "broken")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nowhere.md", done.stderr)
        self.assertIn("no-such-part", done.stderr)

    def test_every_block_of_code_has_a_test(self):
        for page in (ROOT / "docs").glob("*.md"):
            languages = set(
                re.findall(r"^```(\w*)\n.*?^```$", page.read_text(), re.MULTILINE | re.DOTALL))
            self.assertLessEqual(languages, TESTED.get(page.name, set()), page.name)

    def test_scripts_that_pages_name_are_there(self):
        for page in (ROOT / "docs").glob("*.md"):
            for script in re.findall(r"\bscripts/\w+\.(?:sh|py)\b", page.read_text()):
                self.assertTrue((ROOT / script).exists(), f"{page.name}: {script}")


unittest.main()
