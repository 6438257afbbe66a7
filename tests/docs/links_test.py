#!/usr/bin/env python3
"""What the project's pages point at is there: files, headings, and every page of docs/ in its index.

    links_test.py path/to/project
"""
import re
import sys
import unittest
from pathlib import Path

PROJECT = Path(sys.argv[1]).resolve()
FOLDERS = ("docs", "recipes", "scripts", "src")
PAGES = sorted({*PROJECT.glob("*.md"), *(page for folder in FOLDERS for page in (PROJECT / folder).rglob("*.md"))})


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE))


def links(page):
    """The targets of a page's links into the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8")))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page):
    """The names under which a page's headings are linked to, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_lead_to_files_and_headings_that_are_there(self):
        for page in PAGES:
            for target in links(page):
                with self.subTest(page=str(page.relative_to(PROJECT)), target=target):
                    path, _, heading = target.partition("#")
                    file = (page.parent / path).resolve() if path else page
                    self.assertTrue(file.exists(), "there is no such file")
                    if heading:
                        self.assertIn(heading, anchors(file))

    def test_the_index_has_every_page(self):
        index = PROJECT / "docs" / "README.md"
        listed = {(index.parent / target.partition("#")[0]).resolve() for target in links(index)}
        for page in (PROJECT / "docs").glob("*.md"):
            if page != index:
                self.assertIn(page, listed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
