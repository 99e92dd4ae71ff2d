"""Write the manual of a zip: python tools/manual.py [FOLDER]

The zip contains the pages of the site that users need, as plain HTML without scripts, clips and large pictures.
Links between these pages are kept; links to other pages become text. Anchors are those of the site.

Programs that open a local page may drop its anchor: xdg-open on Linux does, and ShellExecute on Windows may. Each
anchor that the add-on opens is therefore a page of its own, PAGE/ANCHOR.html, which forwards to PAGE.html#ANCHOR.
"""

from __future__ import annotations

import ast
import html
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import markdown
from markdown.extensions.toc import slugify
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Sections of the site with pages for users, and their entries that are left out: those for readers of papers or code.
SECTIONS = ("Tutorials", "How-to guides", "Reference", "Explanation")
LEFT_OUT = {"Core in Python", "Bibliography", "Papers", "Physics", "Decisions"}
# Largest size of a picture in the zip, bytes.
MAX_PICTURE = 60_000
# File with the table of pages by property and operator, and the page with an anchor for each parameter.
TABLE, PARAMETERS = ROOT / "dampsim_addon" / "ui" / "common" / "manual.py", "reference/parameters"

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title} – DampSim</title>
<link rel="stylesheet" href="{root}manual.css">
</head>
<body>
<p><a href="{root}index.html">DampSim manual</a></p>
{body}
</body>
</html>
"""
FORWARD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>DampSim</title>
<meta http-equiv="refresh" content="0; url={target}">
</head>
<body><p><a href="{target}">Open the page</a></p></body>
</html>
"""
STYLE = """:root { color-scheme: light dark; }
body { font: 16px/1.5 sans-serif; max-width: 52em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; }
th, td { border: 1px solid #8888; padding: 0.3em 0.6em; text-align: left; vertical-align: top; }
pre, code { background: #8882; }
pre { padding: 0.6em; overflow-x: auto; }
img { max-width: 100%; }
:target, tr:has(:target) { background: #fc06; }
"""


def shipped_pages(nav: list[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield section, title and path of each page of the zip, in the order of the site."""
    for section, entries in ((name, entries) for part in nav for name, entries in part.items()):
        for title, path in ((title, path) for one in entries if section in SECTIONS for title, path in one.items()):
            if title not in LEFT_OUT:
                yield section, title, path


def anchors_of_table() -> Iterator[tuple[str, str]]:
    """Yield page and anchor of each entry of PAGES in the add-on's table that has an anchor."""
    for node in ast.parse(TABLE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGES":
            for target in ast.literal_eval(node.value):
                page, _, anchor = target.partition("#")
                if anchor:
                    yield page, anchor


def shipped_picture(folder: Path, target: str) -> Path | None:
    """Return the file of a picture of a page in a folder, or None if it is too large for the zip."""
    path = (folder / target).resolve()
    return path if path.suffix in {".png", ".jpg"} and path.stat().st_size <= MAX_PICTURE else None


def keep_links(text: str, folder: Path, pages: set[str]) -> str:
    """Return a page whose links and pictures lead to files of the zip.

    folder: of the page in docs/.  pages: paths of the shipped pages in docs/.
    """

    def link(match: re.Match[str]) -> str:
        target, anchor = (html.unescape(match[1]).partition("#")[index] for index in (0, 2))
        if re.match(r"https?:|mailto:", target) or not target:
            return match[0]
        path = (folder / target).resolve().relative_to(DOCS).as_posix()
        if path not in pages:
            return match[2]
        return f'<a href="{target.removesuffix(".md")}.html{anchor and "#"}{anchor}">{match[2]}</a>'

    def picture(match: re.Match[str]) -> str:
        alternative, target = re.search(r'alt="([^"]*)"', match[0]), re.search(r'src="([^"]*)"', match[0])
        assert target is not None
        if shipped_picture(folder, target[1]) is None:
            return f"<em>{alternative[1] if alternative else ''}</em>"
        return match[0]

    text = re.sub(r"<img\b[^>]*>", picture, text)
    return re.sub(r'<a href="([^"]*)"[^>]*>(.*?)</a>', link, text, flags=re.DOTALL)


def write_manual(folder: Path) -> None:
    """Replace a folder by the manual. Raises SystemExit if the add-on's table names a page that is not shipped."""
    # The site's theme logs an advertisement for its successor.
    logging.disable(logging.WARNING)
    config = load_config(str(ROOT / "mkdocs.yml"))
    options = {**config["mdx_configs"], "toc": {"permalink": False}, "pymdownx.highlight": {"use_pygments": False}}
    shutil.rmtree(folder, ignore_errors=True)
    entries = list(shipped_pages(config["nav"]))
    pages, contents = {path for _, _, path in entries} | {"index.md"}, list[str]()
    forwarded = set(anchors_of_table())
    for section, title, path in entries:
        source = DOCS / path
        body = markdown.markdown(
            source.read_text(encoding="utf-8"), extensions=config["markdown_extensions"], extension_configs=options
        )
        body = keep_links(body, source.parent, pages)
        write(folder, path.removesuffix(".md"), title, body)
        for target in re.findall(r'<img\b[^>]*src="([^"]*)"', body):
            copy = folder / (source.parent / target).resolve().relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.parent / target, copy)
        if path == f"{PARAMETERS}.md":
            forwarded |= {(PARAMETERS, anchor) for anchor in re.findall(r'<a id="([^"]+)"', body)}
        if not contents or section not in contents:
            contents += [f'<h2 id="{slugify(section, "-")}">{section}</h2>', section]
        contents.append(f'<p><a href="{path.removesuffix(".md")}.html">{html.escape(title)}</a></p>')
    write(folder, "index", "Manual", "\n".join(["<h1>DampSim</h1>", *(one for one in contents if one[0] == "<")]))
    (folder / "manual.css").write_text(STYLE, encoding="utf-8")
    for page, anchor in sorted(forwarded):
        if f"{page}.md" not in pages:
            sys.exit(f"{TABLE.relative_to(ROOT)}: {page} is not among the pages of the zip")
        place = folder / page / f"{anchor}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(FORWARD.format(target=f"../{Path(page).name}.html#{anchor}"), encoding="utf-8")


def write(folder: Path, name: str, title: str, body: str) -> None:
    """Write a page. name: its path in the folder, without the ending."""
    path = folder / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    root = os.path.relpath(folder, path.parent).replace(os.sep, "/") + "/"
    path.write_text(PAGE.format(title=html.escape(title), root=root, body=body), encoding="utf-8")


if __name__ == "__main__":
    write_manual(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "manual")
