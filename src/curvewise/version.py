"""The version, where every layer may read it."""

VERSION = "0.1.0"

# Part of every run's identity: raise it by hand whenever the same run gives another result.
NUMERICS_VERSION = 2
