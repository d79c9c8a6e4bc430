"""What to ask whom, and how well the metric will then be known.

::

    questionnaire.py    what every design returns: a table of questions and the error to expect
    information.py      expected information, optimal weights, whole numbers of people
    parallelograms.py   near-parallelograms in a catalogue
    matched.py          matched questions, from generated items or from a catalogue
"""

from __future__ import annotations

from crowdmetric.design.matched import matched_from_catalogue, matched_from_generator
from crowdmetric.design.questionnaire import Questionnaire

__all__ = ["Questionnaire", "matched_from_catalogue", "matched_from_generator"]
