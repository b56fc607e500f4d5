"""Command lines that take paths and options: their arguments, and tables and JSON to answer with."""
