"""Rows from elsewhere than lines: data sets of the Hugging Face hub, Reasoning Gym's tasks, Parquet and CSV files."""
