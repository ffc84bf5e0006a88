"""The style sheet of the report page: phone and desktop, light and dark, and print."""

from __future__ import annotations

__all__ = ["REPORT_CSS"]

REPORT_CSS = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b1f24; --soft: #59636e; --line: #d8dee4;
  --accent: #0a5f94; --best: #e3f4ec;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1e2329; --text: #e8ebee; --soft: #a5afba; --line: #38404a;
    --accent: #7cc0ee; --best: #17382b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 68rem; background: var(--page); color: var(--text);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word;
}
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; }
a { color: var(--accent); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none; }
section {
  margin: 1rem 0; padding: 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem;
}
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1rem 0;
}
.tiles div {
  padding: .7rem .9rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem;
}
.tiles dt { color: var(--soft); font-size: .9rem; }
.tiles dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.3; }
.tiles small { display: block; color: var(--soft); font-size: .85rem; font-weight: 400; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .95rem; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: left; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
tr.best { background: var(--best); font-weight: 600; }
tr.best td:first-child::after { content: " \\2605"; }
figure { margin: 1rem 0; }
/* On a phone a picture keeps a readable width and scrolls sideways. */
img { display: block; max-width: 100%; min-width: 34rem; height: auto; background: #ffffff;
  border-radius: .4rem; }
pre { overflow-x: auto; margin: .5rem 0; padding: .5rem .8rem; background: var(--page);
  border-radius: .4rem; font-size: .9rem; }
.how { color: var(--soft); font-size: .92rem; }
@media print {
  body { max-width: none; padding: 0; }
  section { border: none; padding: 0; break-inside: avoid; }
  img { min-width: 0; }
}
"""
