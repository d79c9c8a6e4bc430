"""How the report looks: light or dark as the reader likes, on a phone, on a desk and on paper."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1d1f21; --paper: #fdfdfb; --line: #d4d4cf; --soft: #f3f2ec; --care: #b45309; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e3; --paper: #16181a; --line: #3c4043; --soft: #202326; --care: #f0a350; }
}
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0 0; } h2 { font-size: 1.2rem; margin: 0 0 .4rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
section { margin: 2rem 0; } p { margin: .5rem 0; } ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
.lead, .careful { background: var(--soft); border-left: 4px solid var(--ink); padding: .8rem 1rem; margin: 1.2rem 0; }
.careful { border-color: var(--care); } .careful h2 { color: var(--care); }
.small, figcaption { font-size: .875rem; opacity: .85; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .925rem; min-width: 60%; }
td, th { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td { overflow-wrap: break-word; min-width: 3rem; } .number { text-align: right; } td.number { white-space: nowrap; }
tr.saved td { font-weight: 600; background: var(--soft); }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.pictures > * { flex: 1 1 20rem; min-width: 0; } .pictures > div { flex-basis: 28rem; }
.pictures figure { max-width: 32rem; }
.thumbnail { width: 2rem; height: 2rem; object-fit: cover; border-radius: 4px; vertical-align: middle; }
th a { color: inherit; text-decoration: underline dotted; text-underline-offset: .2em; }
dl { font-size: .875rem; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.2rem; } dt:target { color: var(--care); }
code { white-space: nowrap; font-size: .92em; }
figure { margin: .8rem 0; } svg { max-width: 100%; height: auto; } svg text { fill: currentColor; }
pre { overflow-x: auto; font-size: .8rem; } summary { cursor: pointer; } details { margin: 1rem 0; }
footer { margin: 2rem 0 1rem; border-top: 1px solid var(--line); padding-top: .5rem; }
@media (max-width: 32rem) {
  body { padding: .7rem; } table { font-size: .8rem; min-width: 100%; } td, th { padding: .25rem .45rem .25rem 0; }
  td { min-width: 2.4rem; }
}
@media print {
  :root { color-scheme: light; --ink: #000; --paper: #fff; --line: #bbb; --soft: #fff; --care: #8a3f00; }
  body { max-width: none; padding: 0; font-size: 11pt; } .wide, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  section, figure, tr, aside { break-inside: avoid; } h2, h3 { break-after: avoid; }
}
"""
