"""What evaluation found, in tables, rows, plots and words."""
