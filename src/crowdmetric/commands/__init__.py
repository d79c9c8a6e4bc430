"""The commands of the command line, one per file; a new one is a file and an entry here.

A command's file is imported when the command is called, so ``crowdmetric --help`` loads none of them.

::

    command.py     what a command is
    simulate.py    a crowd with a known truth -> tables
    importing.py   Sushi, MovieLens, Jester as distributed -> tables
    plan.py        items -> how many people an error takes
    design.py      items -> what to ask whom
    collect.py     items -> a study that people take, and its answers
    diagnose.py    tables -> what they can teach
    evaluate.py    tables -> which model predicts hidden answers best
    fit.py         tables -> a saved model
    predict.py     a saved model and questions -> expected answers
    locate.py      a saved model and answers -> where people stand, what to ask them next
    export.py      a saved model -> one matrix for other programs
    info.py        a saved model -> what is in it
    reproduce.py   the paper's experiments, run again

What commands share::

    reading.py              tables that are given: columns, categories, standard input, answers left on disk
    item_tables.py          tables about the items: subspaces, names, pictures
    preparing.py            what is done to items first: --standardize, --pca, --whiten
    ids.py                  ids of a table and of a model made the same type
    writing.py              tables that are written
    engines.py              --engine: where sums over people are taken
    similarity_commands.py  commands that are given similarity judgements
    fit_options.py          fit: its options
    fit_choice.py           fit: the model, where the options leave it open
    fit_findings.py         fit: what answers can teach, and how well they are predicted
    fit_saving.py           fit: save first, judge then
    fit_ending.py           fit: what is printed at the end
    streamed.py             fit --memory
"""

from __future__ import annotations

from crowdmetric.commands.command import Command, UsageError

__all__ = ["COMMANDS", "Command", "UsageError"]

# In the order in which people meet them, which is the order of `crowdmetric --help`.
COMMANDS: tuple[Command, ...] = (
    Command(
        name="simulate",
        module="simulate",
        help="draw a crowd with a known metric and write its items and answers",
        example="crowdmetric simulate --dimension 5 --subspaces 15 --rank 2 --comparisons 8 --out crowd",
    ),
    Command(
        name="import",
        module="importing",
        help="write tables that fit reads: real choices that are included, or Sushi, MovieLens, Jester from your disk",
        example="crowdmetric import travel --out travel\ncrowdmetric import movielens ml-latest-small.zip --out films",
    ),
    Command(
        name="plan",
        module="plan",
        help="say how many people it takes to learn the metric to an error, before anyone is asked",
        example="crowdmetric plan items.csv --answers 2 --error 0.10",
    ),
    Command(
        name="design",
        module="design",
        help="choose what to ask whom, and say how well the metric will then be known",
        example="crowdmetric design items.csv --people 2000 --answers 2 --kind optimal --out questionnaire.csv",
    ),
    Command(
        name="collect",
        module="collect",
        help="ask the crowd: turn a table of items into a study that people take, and collect their answers",
        example=(
            "crowdmetric collect items.csv\n"
            "crowdmetric collect study --rehearse 200\n"
            "crowdmetric collect study\n"
            "crowdmetric collect export study --out answers.parquet"
        ),
    ),
    Command(
        name="diagnose",
        module="diagnose",
        help="say what answers can teach about the metric, whoever gave them, before anything is fitted",
        example="crowdmetric diagnose items.csv comparisons.csv",
    ),
    Command(
        name="evaluate",
        module="evaluate",
        help="compare models, and simple baselines, by how well they predict hidden answers",
        example="crowdmetric evaluate crowd/items.csv crowd/comparisons.csv --split pairs --repeats 1",
    ),
    Command(
        name="fit",
        module="fit",
        help="learn the metric that a crowd's answers reveal, and save it",
        example="crowdmetric fit crowd/items.csv crowd/comparisons.csv --labels crowd/labels.csv --out model",
    ),
    Command(
        name="predict",
        module="predict",
        help="predict answers with a saved model",
        example="crowdmetric predict model crowd/comparisons.csv > predictions.csv",
    ),
    Command(
        name="locate",
        module="locate",
        help="say where people stand, what they like best and what to ask them next",
        example="crowdmetric locate model crowd/comparisons.csv --next > people.csv",
    ),
    Command(
        name="export",
        module="export",
        help="write a model's linear map for vector indexes and linear layers",
        example="crowdmetric export model --out head.npz",
    ),
    Command(
        name="info",
        module="info",
        help="say what a saved model learned, from what and how well",
        example="crowdmetric info model --json",
    ),
    Command(
        name="reproduce",
        module="reproduce",
        help="run the paper's experiments again, and show what a user without an oracle gets",
        example="crowdmetric reproduce --quick --out reproduction\ncrowdmetric reproduce exp1-logistic-beta1 --runs 30",
    ),
)
