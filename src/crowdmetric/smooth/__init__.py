"""Smooth tastes: utilities that are smooth over the items, for the crowd and for every person.

::

    kernel.py             how alike the tastes for two items are, by their distance
    kernel_metrics.py     what the metric inside the kernel may be
    covariances.py        covariances between items, of one person and of the crowd
    people_blocks.py      everybody's answers in the items that they were shown
    shared.py             what people share of the crowd's utilities: any covariance, or one of low rank
    site_kernels.py       the compiled loop over a person's answers
    joint_propagation.py  everybody integrated out at once: the evidence and its gradient
    inducing.py           many items: people share the crowd's utilities through some of them
    parameter_information.py  what answers say of the parameters
    evidence.py           scales and metric by the evidence
    kernel_search.py      which structures and shapes the answers leave possible
    prediction.py         utilities given the answers, for new people and new items too
    mixture.py            predictions averaged over kernels
    calibration.py        probabilities that are as sure as they should be
    effects.py            utilities along one feature, or over the plane of two
    ahead.py              how long a fit will take yet
"""
