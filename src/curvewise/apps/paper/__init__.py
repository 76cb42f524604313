"""The paper's figures and tables, one module each or few: the sweep it needs, how it is read."""
