"""Loss functions: the vector-scaling family and its peers."""
