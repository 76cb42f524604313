"""The paper's experiments, figures and tables."""
