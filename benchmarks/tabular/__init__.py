"""Classifiers for a rare class on 62 KEEL tables: `python -m benchmarks.tabular.run --help`."""
