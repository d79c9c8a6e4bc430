"""What to ask whom, and how well the metric will then be known.

::

    guess.py            the guess of the metric and of people before anyone is asked
    questionnaire.py    what every design returns: a table of questions and the error to expect
    information.py      expected information of matched questions, optimal weights, whole numbers of people
    parallelograms.py   near-parallelograms in a catalogue
    matched_questions.py  matched questions, from generated items or from a catalogue
    bundles.py          expected information of questions to people of one population
    exchange.py         the best use of people: shares, sensitivities, exchange
    question_sources.py where items come from: a catalogue, or a generator of items
    optimal.py          questions at random, and those that tell most
    within.py           questions within subspaces
    entry.py            `design` and `plan`
    learning.py         what the answers so far say: a law and metrics drawn from its posterior
    surprise.py         whether that law predicts the answers that come
    waves.py            questions for the next people, from the answers of those who came before
    stopping.py         when enough is known, and how long it will still take
    live.py             `LiveDesign`: ask, learn, and ask better
    live_file.py        a live design as one file
    adaptive.py         the next question for a person who has already answered some
    kinds.py            the kinds of questions that a live design asks
    judgement_plan.py   the same for similarity judgements: `design` and `plan`
    next_questionnaire.py   the next wave as a questionnaire, for studies run in waves
"""

from __future__ import annotations

from crowdmetric.design.entry import Plan, Planned, design, plan
from crowdmetric.design.live import Asked, LiveDesign
from crowdmetric.design.matched_questions import matched_from_catalogue, matched_from_generator
from crowdmetric.design.next_questionnaire import next_questionnaire
from crowdmetric.design.questionnaire import Questionnaire
from crowdmetric.design.stopping import Forecast, Stop

__all__ = [
    "Asked",
    "Forecast",
    "LiveDesign",
    "Plan",
    "Planned",
    "Questionnaire",
    "Stop",
    "design",
    "matched_from_catalogue",
    "matched_from_generator",
    "next_questionnaire",
    "plan",
]
