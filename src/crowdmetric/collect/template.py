"""The commented `study.toml` that a new study begins with."""

from __future__ import annotations

import json

__all__ = ["template"]

TEXT = '''# A study of crowdmetric. Change what you like, then look it over with: crowdmetric collect FOLDER --check
# and try it on simulated people before you invite real ones:        crowdmetric collect FOLDER --rehearse 200

[study]
title = "Which one do you prefer?"
question = "Which one do you like better?"    # above every pair
language = "en"          # another one needs a section [words.XX] with every fixed string
people = 200             # how many people who finish
questions = 12           # per person; repeats and checks come on top
undecided = false        # true: people may say "I can't decide"
html_items = false       # true: the column text holds HTML that you trust; otherwise it is shown as it is

[pages]                  # an empty line begins a new paragraph
consent = """
You will see pairs and choose the one you prefer. There are no right or wrong answers.

Taking part is voluntary and you can stop at any time by closing this page. Your choices are stored
without your name."""
instructions = """
Look at both, then choose the one you like better. Go with your first impression."""
thanks = ""

[items]
table = @TABLE@
# Columns text, image, audio and video are what people see (files relative to this folder); item_id names the items;
# all other columns are numbers, the features of the model.

[practice]
pairs = []               # such as [["a", "b"]]: asked first, never used

[design]
kind = "optimal"         # optimal, random, within (one subspace per person), matched (parallel pairs), file, live
# file = "questionnaire.csv"    # kind = "file": person, left, right, as crowdmetric design writes it
# within = 0.1                  # kind = "live": the relative error that is wanted; the researcher's page forecasts it
# wait = true                   # kind = "live": new people wait while questions are chosen again, usually seconds
# hook = "module:function"      # kind = "live", your own: makes an object with ask(person) and tell(person, answers)
seed = 0
evaluation = 0.1         # share of people who are asked random questions and kept for evaluation
repeats = 0.1            # share of questions asked again with sides swapped, for reliability
give_back_minutes = 60   # somebody who was not seen for so long gives their place to the next person

[panel]
kind = "anonymous"       # prolific, connect, sona, anonymous, or list (one link per person)
code = ""                # completion code
screened_code = ""       # for people whom [[screening]] turns away, and when the study is full
failed_code = ""         # for people who fail the [[checks]]
url = ""                 # where to go at the end; {code} and {id} are filled in
# list = "people.csv"    # kind = "list": a column person

[careless]               # when the researcher's page points at somebody; nobody is ever dropped
fastest_ms = 400         # median response time below this
same_side = 0.95         # share of answers on one side above this
contradictions = 0.5     # share of repeated questions answered the other way above this
failed_checks = 2        # checks answered wrongly, from this number on: the failed code

[privacy]
keep_agent = false       # true: the browser's name is stored with each person

[server]
address = ""             # where people reach the study, such as https://lab.example.edu/study, behind a proxy
starts_per_minute = 120  # new people from one network address
# database: postgresql://… for several server processes; better in the environment variable CROWDMETRIC_DATABASE

# [[survey]]             # asked at the end; kind: text, long, number or choice
# name = "age"
# label = "How old are you?"
# kind = "number"
# required = false

# [[screening]]          # asked first
# name = "color_vision"
# label = "Can you tell red from green?"
# options = ["Yes", "No"]
# accept = ["Yes"]

# [[checks]]             # a question with a right answer
# left = "a"
# right = "b"
# expect = "left"
'''


def template(table: str) -> str:
    """Return the text for a study about the items in the file `table`."""
    return TEXT.replace("@TABLE@", json.dumps(table))
