"""Training: optimisers, steps and loops."""
