"""Networks: an MLP, CNNs for small and large images, and the registry that names them."""
