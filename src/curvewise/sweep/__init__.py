"""Sweeps: many runs from one file, in one store, on one machine or a cluster."""
