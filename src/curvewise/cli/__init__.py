"""The commands: parse, call, print; and what pages are told of stores and models."""
