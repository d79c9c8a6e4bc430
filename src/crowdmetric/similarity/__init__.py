"""A metric from similarity judgements: the mathematics behind `SimilarityMetric`.

::

    pair_choices.py   judgements -> choices among distinct pairs of items
    likelihood.py     how answers depend on squared distances: links, lapses, derivatives
    choice_kernels.py  its compiled loop
    structures.py     what a metric may look like: full, diagonal, a multiple of the identity
    objective.py      likelihood of a structure's parameters: gradient and curvature
    cone_step.py      a Newton step that stays in the cone
    newton.py         the fit, with size and ridges by evidence and a certificate
    size.py           what the evidence says of the size, and its limit
    clustering.py     how many answers of one person count as one
    structure_choice.py  the structure that predicts judgements about items left out
    symmetric_fit.py  a fit over all symmetric matrices, for intervals
    metric_draws.py   how sure the metric is
    personal_metrics.py  everybody's own metric
    factored.py       the fit by gradients alone: many features, or low rank
    judgement_term.py  judgements in a fit to preferences: one metric from both
"""
