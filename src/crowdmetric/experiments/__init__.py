"""The paper's experiments: settings, learners, and the runner that keeps what is finished.

::

    cells.py                  what the paper ran: the cells of every panel
    learners.py               who learns from the simulated crowds, and the runs of one cell
    runner.py                 runs cells in processes and keeps what is finished
    result_tables.py          mean and standard deviation over runs, as tables
    figures.py                the paper's panels, with what a user without an oracle gets
    reproduction_page.py      every figure on one page
"""
