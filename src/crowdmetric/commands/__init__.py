"""The commands of the command line, one a file; a new one is a file and a line here.

::

    base.py        what a command is, and what commands share
    simulate.py    a crowd with a known truth -> tables
    importing.py   Sushi, MovieLens, Jester as distributed -> tables
    diagnose.py    tables -> what they can teach
    collect.py     items -> a study that people take, and its answers
    design.py      items -> what to ask whom, and how many people an error takes (plan)
    evaluate.py    tables -> which model predicts hidden answers best
    fit.py         tables -> a saved model
    predict.py     a saved model and questions -> expected answers
    export.py      a saved model -> one matrix for other programs
    locate.py      a saved model and answers -> where people stand, what to ask them next
    info.py        a saved model -> what is in it
    reproduce.py   the paper's experiments, run again
"""

from __future__ import annotations

from crowdmetric.commands.base import Command, UsageError
from crowdmetric.commands.collect import COLLECT
from crowdmetric.commands.design import DESIGN, PLAN
from crowdmetric.commands.diagnose import DIAGNOSE
from crowdmetric.commands.evaluate import EVALUATE
from crowdmetric.commands.export import EXPORT
from crowdmetric.commands.fit import FIT
from crowdmetric.commands.importing import IMPORT
from crowdmetric.commands.info import INFO
from crowdmetric.commands.locate import LOCATE
from crowdmetric.commands.predict import PREDICT
from crowdmetric.commands.reproduce import REPRODUCE
from crowdmetric.commands.simulate import SIMULATE

__all__ = ["COMMANDS", "Command", "UsageError"]

# In the order in which people meet them; `crowdmetric --help` lists them so.
COMMANDS: tuple[Command, ...] = (
    SIMULATE, IMPORT, PLAN, DESIGN, COLLECT, DIAGNOSE, EVALUATE, FIT, PREDICT, LOCATE, EXPORT, INFO, REPRODUCE,
)  # fmt: skip
