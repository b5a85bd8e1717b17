"""The tables of a report, one module per family of CSV files."""
