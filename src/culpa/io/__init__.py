"""Files in and out: tables, and model files."""
