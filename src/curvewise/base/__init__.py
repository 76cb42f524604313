"""What every room stands on: errors, whole files, and what is known of the machine."""
