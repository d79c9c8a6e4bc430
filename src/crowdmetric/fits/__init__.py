"""Fits: from validated answers to a law of people and a metric. Estimators are what a user sees of them.

People::

    units.py               items centered and scaled to size one
    item_span.py           the dimensions in which items differ
    crowd.py               chunks of people, in memory, on disk or on a device
    question_stream.py     the same for fits by gradients
    on_device.py           questions that are read on the device
    memory.py              how much memory a fit will take
    passes.py              progress, pass by pass
    checkpoints.py         a fit saved after every step

Population fits by scoring::

    scoring_fit.py         the whole fit, and its results in the items' own units
    problem.py             sums over a crowd: log-likelihood, score, information
    starts.py              where a fit begins, and the best end
    correction.py          a fit by propagation, moved to where exact integrals would have it
    uncertainty.py         draws from the posterior of the metric
    size_posterior.py      sizes by their evidence, and a Gaussian law of all else at each
    exact_draws.py         draws from the likelihood itself, for live studies that are about to stop
    unknowns.py            what predictions do not know, besides where a person stands
    set_probabilities.py   how likely each alternative of a set is to be chosen
    hidden_items.py        how much people differ about items new to them
    doubts.py              status and warnings

Other fits::

    many_features.py       population fits by gradients alone
    linear_utilities.py    linear utilities and item effects with three variances, for any number of items
    common_utility.py      one utility for everybody, shrunk as cross-validation asks
    low_rank_posterior.py  how sure they are, and the evidence for a rank
    matched_people.py      matched questions, ideal points conditioned away
"""
