"""Optimizers and samplers, one algorithm per file; each optimizer returns a result that says how accurate it is.

Results::

    solution.py               what a solver returns: a value, how good it is, and a status in words

Populations::

    law_fit.py                penalized maximum likelihood over a metric and a law of people
    parametrization.py        coordinates in which a metric is of some kind by construction
    priors.py                 ridges, and a limit of noise
    scoring.py                Levenberg-damped scoring
    quasi_newton.py           for a metric of low rank, by gradients alone
    low_rank_prior.py         its prior
    low_rank_ridges.py        how strong that prior is, found from the answers

Metrics without people::

    cone.py                   the set of metrics and its interior-point step: positive semi-definite, of bounded size
    logistic.py               logistic regression over matrices, with a certified gap

Draws from a posterior::

    posterior.py              coordinates of size and shape, and a prior of the shape
    shape_draws.py            metrics under a likelihood of size and shape
    hamiltonian.py            Hamiltonian Monte Carlo
"""
