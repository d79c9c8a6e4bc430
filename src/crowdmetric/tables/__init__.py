"""Files and data frames in and out, as plain columns: a dictionary of names and one-dimensional arrays.

::

    columns.py    what a column can be, whatever it came from
    files.py      CSV, Parquet, pandas, Polars and Arrow <-> columns
    items.py      columns -> items with ids and features
    answers.py    columns -> coded answers, and a count of what could not be used
    judged.py     columns -> coded similarity judgements
    sources.py    files larger than memory -> batches of columns
    spool.py      coded answers grouped by person, on disk
    scan.py       the two together: answers that stay on disk
    sampling.py   some of very many people
"""

from __future__ import annotations

from crowdmetric.tables.answers import CodedAnswers, OnBad, canonical_columns, code_answers
from crowdmetric.tables.columns import Column, Columns, as_ids, unique_ids
from crowdmetric.tables.files import (
    read_columns,
    to_arrow,
    to_pandas,
    to_polars,
    write_batches,
    write_columns,
    write_csv,
)
from crowdmetric.tables.items import Items, known_items, read_items
from crowdmetric.tables.judged import CodedJudgements, code_judgements, has_answers, judgement_kind, name_judgements
from crowdmetric.tables.sampling import is_drawn
from crowdmetric.tables.scan import ComparisonScan
from crowdmetric.tables.sources import CsvSource, DatasetSource, ParquetSource, Source, matching_files
from crowdmetric.tables.spool import SpoolChunk

__all__ = [
    "CodedAnswers",
    "CodedJudgements",
    "Column",
    "Columns",
    "ComparisonScan",
    "CsvSource",
    "DatasetSource",
    "Items",
    "OnBad",
    "ParquetSource",
    "Source",
    "SpoolChunk",
    "as_ids",
    "canonical_columns",
    "code_answers",
    "code_judgements",
    "has_answers",
    "is_drawn",
    "judgement_kind",
    "known_items",
    "matching_files",
    "name_judgements",
    "read_columns",
    "read_items",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "unique_ids",
    "write_batches",
    "write_columns",
    "write_csv",
]
