"""``tokur evaluate``: labelled records into columns, columns into results, results into tables and plots."""
