"""ROC statistics: curves, bands, intervals, operating points and the scalar metrics."""
