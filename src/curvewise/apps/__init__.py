"""Jobs that compose data, training, files and figures."""
