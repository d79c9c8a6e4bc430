"""Where arrays are, and where sums over people are taken.

::

    contract.py               what an engine is
    local.py                  this machine
    dask_engine.py            a Dask cluster; the one place for dask
    torch_engine.py           PyTorch, on a GPU or not; the one place for torch
    named.py                  engines by name: what `engine=` may be
    folding.py                the order of additions, the same for every engine
    threads.py                one thread of BLAS per job
"""
