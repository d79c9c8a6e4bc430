"""Benchmarks: ratios measured in one run, outside the tests."""
