"""What a trained model is: trained, saved, measured, asked."""
