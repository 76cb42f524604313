"""The page: one HTML file of models and their scores, and what it says of them."""
