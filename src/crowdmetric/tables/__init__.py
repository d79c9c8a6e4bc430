"""Files and data frames in and out, as plain columns: a dictionary of names and one-dimensional arrays.

::

    columns.py            the types of columns
    stored.py             a file or a pipe -> bytes with a name
    text.py               text tables: encoding, separator, cells
    spreadsheet.py        .xls and .xlsx -> rows; the one place for xlrd and openpyxl
    frozen_table.py       what tables of answers have in common: written, converted, pickled, cut
    files.py              all kinds of files, pandas, Polars and Arrow <-> columns
    items.py              columns -> items with ids and features; categories -> features of 0 and 1
    matching.py           a table of answers and the ids of items -> the same answers, by rows of the items
    codings.py            the coding of a column of choices
    answers.py            columns -> coded answers, and a count of rejected rows
    pair_origin.py        were pairs asked one by one, or cut from choices, rankings or ratings?
    choice_columns.py     columns -> sets of alternatives and what came first
    recognition.py        which answers does a table hold?
    judgement_columns.py  columns -> coded similarity judgements
    firsts.py             choices, rankings, best and worst as "first of this set"; steps of a scale
    sources.py            files larger than memory -> batches of columns
    spool.py              coded answers grouped by person, on disk
    scan.py               sources and spool together: answers that stay on disk; a sample of their people
"""

from __future__ import annotations

from crowdmetric.tables.answers import PEOPLE, CodedAnswers, OnBad, canonical_columns, code_answers, rename_columns
from crowdmetric.tables.choice_columns import code_choices, name_choices, named_once, number_alternatives
from crowdmetric.tables.columns import Column, Columns, as_ids, unique_ids
from crowdmetric.tables.files import (
    column_names,
    is_data_frame,
    labeled_matrix,
    read_columns,
    safe_columns,
    to_arrow,
    to_pandas,
    to_polars,
    write_batches,
    write_columns,
    write_csv,
)
from crowdmetric.tables.firsts import Firsts, Steps, firsts_of, ranges
from crowdmetric.tables.frozen_table import FrozenTable, spread
from crowdmetric.tables.items import Items, feature_columns, features_of, ids_of, in_order_of, known_items, read_items
from crowdmetric.tables.judgement_columns import (
    CodedJudgements,
    code_judgements,
    has_answers,
    judgement_kind,
    name_judgements,
    refuse_judgements,
)
from crowdmetric.tables.matching import IDS_ARE, IdsAre, check_same_items, check_same_order, matched, rows_of_ids
from crowdmetric.tables.pair_origin import ASKED, DECLARED, cut_sentence, origin_of_pairs
from crowdmetric.tables.recognition import RecognizedAnswers, recognize_answers
from crowdmetric.tables.scan import ComparisonScan, is_drawn
from crowdmetric.tables.sources import CsvSource, DatasetSource, ParquetSource, RowSource, matching_files
from crowdmetric.tables.spool import SpoolChunk
from crowdmetric.tables.stored import Stored

__all__ = [
    "ASKED",
    "DECLARED",
    "IDS_ARE",
    "PEOPLE",
    "CodedAnswers",
    "CodedJudgements",
    "Column",
    "Columns",
    "ComparisonScan",
    "CsvSource",
    "DatasetSource",
    "Firsts",
    "FrozenTable",
    "IdsAre",
    "Items",
    "OnBad",
    "ParquetSource",
    "RecognizedAnswers",
    "RowSource",
    "SpoolChunk",
    "Steps",
    "Stored",
    "as_ids",
    "canonical_columns",
    "check_same_items",
    "check_same_order",
    "code_answers",
    "code_choices",
    "code_judgements",
    "column_names",
    "cut_sentence",
    "feature_columns",
    "features_of",
    "firsts_of",
    "has_answers",
    "ids_of",
    "in_order_of",
    "is_data_frame",
    "is_drawn",
    "judgement_kind",
    "known_items",
    "labeled_matrix",
    "matched",
    "matching_files",
    "name_choices",
    "name_judgements",
    "named_once",
    "number_alternatives",
    "origin_of_pairs",
    "ranges",
    "read_columns",
    "read_items",
    "recognize_answers",
    "refuse_judgements",
    "rename_columns",
    "rows_of_ids",
    "safe_columns",
    "spread",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "unique_ids",
    "write_batches",
    "write_columns",
    "write_csv",
]
