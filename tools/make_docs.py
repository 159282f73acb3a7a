#!/usr/bin/env python3
"""make_docs.py OUT: the site of the docs, from docs/*.md and the changelog. Every page needs nothing else: no script, font or picture
comes from elsewhere, and none may (Content-Security-Policy).

Own instead of mkdocs, whose pages need a server for their search, and whose themes have more files than the docs."""
import base64
import html
import pathlib
import re
import sys

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAVIGATION = [
    ("Start", [("index", "Quick start"), ("tickets", "A worked example"), ("contents", "All pages"), ("from_run_glue", "From run_glue.py"),
               ("differences", "How it differs"), ("limits", "Limits")]),
    ("Use", [("train", "Train"), ("own_data", "Own data"), ("ner", "Labels of words"), ("mlm", "Masked language models"), ("clm", "Models that write"), ("swag", "Multiple choice"), ("reranking", "Reranking"), ("evaluate", "Evaluate"), ("predict", "Predict"), ("encode", "Vectors of texts"), ("embed", "Train vectors"), ("lora", "LoRA"), ("resume", "Resume"),
             ("report", "See runs"), ("devices", "Devices"), ("memory", "Memory"), ("measure", "Measure"), ("flags", "Every flag"),
             ("commands", "Every command"), ("models", "Models and tokenizers"), ("hub", "The Hub"),
             ("distributed", "Several processes"), ("apple", "Apple silicon")]),
    ("Program", [("python", "Python"), ("cpp", "C++")]),
    ("More", [("RESULTS", "Figures"), ("performance", "Performance"), ("developers", "Developers"), ("add_a_model", "Adding a model"),
              ("add_an_op", "Adding an op"), ("add_a_device", "Adding a device"), ("security", "Security"), ("changelog", "Changelog")]),
]
# Files whose page has another name.
NAMES = {"quick_start.md": "index", "README.md": "contents", "arguments.md": "flags", "../CHANGELOG.md": "changelog",
         "../README.md": "index", "../SECURITY.md": "security", "SECURITY.md": "security"}
STYLE = """
:root { --ink: #1c2127; --paper: #fff; --soft: #f4f5f7; --line: #d9dde3; --link: #0b57a4; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe3e8; --paper: #15181c; --soft: #1f242a; --line: #38404a; --link: #7cb7f2; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
.page { display: grid; grid-template-columns: 15rem minmax(0, 1fr); max-width: 82rem; margin: auto; }
nav { padding: 1.5rem 1rem; align-self: start; position: sticky; top: 0; max-height: 100vh; overflow-y: auto; }
nav summary { font-size: 1.3rem; font-weight: 700; cursor: pointer; }
nav h2 { font-size: .8rem; text-transform: uppercase; letter-spacing: .06em; margin: 1.2rem 0 .2rem; border: 0; opacity: .7; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: .15rem .5rem; border-radius: .3rem; color: inherit; text-decoration: none; }
nav a:hover, nav a[aria-current] { background: var(--soft); color: var(--link); }
main { padding: 1rem 2rem 4rem; min-width: 0; min-height: 100vh; border-left: 1px solid var(--line); }
a { color: var(--link); }
h1 { line-height: 1.2; } h2 { margin-top: 2.2rem; border-bottom: 1px solid var(--line); }
code { font: .9em ui-monospace, monospace; background: var(--soft); padding: .1em .25em; border-radius: .2rem; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; line-height: 1.45; }
pre code { padding: 0; background: none; overflow-wrap: normal; font-size: 13px; }
img { display: block; max-width: min(100%, 45rem); height: auto; border: 1px solid var(--line); border-radius: .4rem; }
code.flag { white-space: nowrap; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
td, th { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; min-width: 4rem; }
th { background: var(--soft); }
input { width: 100%; padding: .5rem; font: inherit; border: 1px solid var(--line); border-radius: .3rem; background: var(--paper); color: inherit; }
@media (max-width: 48rem) {
  .page { display: block; } nav { position: static; max-height: none; border-bottom: 1px solid var(--line); padding: .8rem 1rem; }
  main { padding: .5rem 1rem 3rem; border: 0; }
  .flags thead { display: none; }
  .flags tr { display: block; border: 1px solid var(--line); border-radius: .3rem; margin-bottom: .6rem; padding: .4rem .6rem; }
  .flags tr[hidden] { display: none; }
  .flags td { display: inline; border: 0; padding: 0 .4rem 0 0; } .flags td:nth-child(4) { display: block; }
  .flags td:first-child { display: block; font-weight: 600; }
}
"""
# The menu is open where there is room for it.
MENU = "if (matchMedia('(max-width: 48rem)').matches) document.querySelector('nav details').open = false;"
FILTER = """<p><input type="search" placeholder="Filter flags" aria-label="Filter flags"></p>
<script>document.querySelector('main input').addEventListener('input', event => {
  const wanted = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll('tbody tr')) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});</script>
"""


def sources():
    """Page → Markdown."""
    pages = {NAMES.get(path.name, path.stem): path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    for name in ("CHANGELOG", "SECURITY"):
        pages[name.lower()] = (ROOT / f"{name}.md").read_text(encoding="utf-8").replace("](docs/", "](")
    return pages


def with_includes(text):
    def include(match):
        path = match.group(1)
        return f"```cpp\n{(ROOT / path).read_text(encoding='utf-8')}```\n"
    return re.sub(r"<!-- include: (\S+) -->", include, text)


def target(link, pages):
    """Where a link of a Markdown file leads on the site; None for files that are no pages (sources)."""
    if re.match(r"https?:|#", link):
        return link
    path, _, anchor = link.partition("#")
    if not path.endswith(".md") or (path.startswith("../") and path not in NAMES):
        return None
    stem = NAMES.get(path, pathlib.Path(path).stem)
    if stem not in pages:
        raise SystemExit(f"make_docs.py: a link leads to {link}, of which there is no page")
    return stem + ".html" + ("#" + anchor if anchor else "")


def with_pictures(body):
    """The pictures of docs/images within the page."""
    def data(match):
        picture = base64.b64encode((ROOT / "docs" / match.group(2)).read_bytes()).decode()
        return f'{match.group(1)}="data:image/png;base64,{picture}"'
    return re.sub(r'(src|srcset)="(images/[^"]+\.png)"', data, body)


def slug(text):
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def with_targets(tokens, pages):
    kept, leads_nowhere = [], False
    for token in tokens:
        if token.type == "link_open":
            href = target(token.attrGet("href"), pages)
            leads_nowhere = href is None
            if not leads_nowhere:
                token.attrSet("href", href)
        if not (leads_nowhere and token.type in ("link_open", "link_close")):
            kept.append(token)
    return kept


def render(text, pages):
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(with_includes(text))
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(tokens[i + 1].content))
        if token.children:
            token.children = with_targets(token.children, pages)
    body = markdown.renderer.render(tokens, markdown.options, {})
    body = re.sub(r"<code>(--?[^\s<]+|--[^<]{,34})</code>", r'<code class="flag">\1</code>', body)
    return with_pictures(body).replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")


def title_of(text):
    return re.search(r"^# (.+)$", text, re.MULTILINE).group(1)


def menu(pages):
    """NAVIGATION as far as there are pages, and at its end the pages that have no place in it."""
    listed = [stem for _, entries in NAVIGATION for stem, _ in entries]
    others = [(stem, title_of(text)) for stem, text in sorted(pages.items()) if stem not in listed]
    there = [(title, [entry for entry in entries if entry[0] in pages]) for title, entries in NAVIGATION]
    return there[:-1] + [(there[-1][0], there[-1][1] + others)]


def navigation(current, pages):
    text = "<nav><details open><summary>Lathe</summary>"
    for title, entries in menu(pages):
        links = "".join(f'<li><a href="{stem}.html"{" aria-current=page" if stem == current else ""}>{html.escape(name)}</a></li>'
                        for stem, name in entries)
        text += f"<h2>{title}</h2><ul>{links}</ul>"
    return text + "</details></nav>"


def page(stem, text, pages):
    body = render(text, pages)
    if stem == "flags":
        body = body.replace("</h1>", "</h1>" + FILTER, 1)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,"><title>{html.escape(title_of(text))} · Lathe</title><style>{STYLE}</style></head>
<body><div class="page">{navigation(stem, pages)}<main class="{stem}">
{body}</main></div><script>{MENU}</script></body></html>
"""


def main(out):
    pages = sources()
    out.mkdir(parents=True, exist_ok=True)
    for stem, text in pages.items():
        (out / f"{stem}.html").write_text(page(stem, text, pages), encoding="utf-8")
    print(f"{out / 'index.html'}: {len(pages)} pages")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
