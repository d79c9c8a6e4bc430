"""One self-contained page on what was learned: from a saved model, a diagnosis and, where there is one, an evaluation.

::

    changes.py      what the metric changed: neighbors, pairs that moved
    directions.py   how differences between items add up to a distance
    warnings.py     what to be careful about, and whether the metric is worth using
    quote.py        sentences to quote
    withheld.py     where answers carry no claim: why, and what would tell
    map.py          items before and after, with a choice of an item
    pictures.py     inline SVG of matplotlib
    thumbnails.py   small pictures of items
    glossary.py     what the words mean
    style.py        how the page looks
    page_parts.py   texts, lists, tables and pictures as HTML
    shared_sections.py  sections that both reports have
    page.py         the report on preferences: everything together
    similarity_page.py  the same for a metric from similarity judgements
"""

from __future__ import annotations

from crowdmetric.report.page import report_page
from crowdmetric.report.similarity_page import similarity_page

__all__ = ["report_page", "similarity_page"]
