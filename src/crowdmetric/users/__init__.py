"""How a person is eliminated: each module turns unseen ideal points into an objective in the metric alone.

The layout that they share::

    blocks.py                 people in blocks of equal shape
    layout.py                 the positions of the natural parameters in one vector
    people.py                 where people stand, given the law of people and their answers

Population: ideal points integrated out::

    population_sums.py        log-likelihood, scores and information, summed over people
    integration.py            the entry point: the method for each person, and the fallback where it fails
    integrals.py              on a grid, in few dimensions
    propagation.py            by expectation propagation, in any number
    sets.py                   the first of several: answers of several rows, on grids and around modes
    set_propagation.py        the same by expectation propagation
    adaptive_quadrature.py    slowly, around each person's own posterior
    expected.py               expected information, for few people with many answers
    first_order.py            value and gradient for a metric of low rank
    item_effects.py           utilities of items beyond their features

Matched, and unquantized::

    conditioning.py           matched questions: ideal points conditioned away
    projected.py              unquantized answers: ideal points removed by linear algebra

Compiled loops::

    compiled.py               how loops are compiled; the one place for Numba
    line_kernels.py           integrals along a line
    population_kernels.py     grids in two and three dimensions, and scores
    propagation_kernels.py    expectation propagation
    set_kernels.py            the same for answers of several rows
    fused_kernels.py          lines and propagation on a GPU; the one place for Triton
"""
