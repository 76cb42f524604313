"""scikit-learn classifiers trained over a family of losses."""
