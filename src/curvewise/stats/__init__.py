"""What compares areas and scores of many models: frames in, frames out."""
