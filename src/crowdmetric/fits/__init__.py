"""Fits: from validated answers to a law of people and a metric. Estimators are what a user sees of them.

::

    units.py              items centered and of size one
    item_span.py          the dimensions in which items differ
    scanned.py            a chunk of a scan as answers
    crowd.py              everybody whose answers are fitted: chunks in memory, on disk, on a device
    problem.py            sums over a crowd: log-likelihood, score, information, places
    starts.py             where a population fit begins, and the best end
    integration_check.py  was expectation propagation good enough?
    uncertainty.py        draws from the posterior of the metric
    unknowns.py           what predictions do not know beside where a person stands
    hidden_items.py       how much people differ about items new to them
    doubts.py             what to say of a fit, and what to warn of
    many_features.py      the population fit by gradients alone
    bounded_people.py     ideal points in a ball, by passes over chunks
    matched_people.py     matched questions, people conditioned away
    memory.py             how much memory a fit will take
    passes.py             progress, pass by pass
    checkpoints.py        a fit saved after every step
"""
