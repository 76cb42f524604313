"""Tables: columns in, arrays out."""
