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
    evidence.py           scales and metric by the evidence
    prediction.py         utilities given the answers, for new people and new items too
    calibration.py        probabilities that are as sure as they should be
    effects.py            utilities along one feature, or over the plane of two
"""
