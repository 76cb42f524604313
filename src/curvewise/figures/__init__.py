"""Figures by matplotlib: values in, Axes out."""
