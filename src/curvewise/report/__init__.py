"""What one can show: figures and pages."""
