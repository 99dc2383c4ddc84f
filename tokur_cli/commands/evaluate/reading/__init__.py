"""From labelled records to columns: responses, spans of them, or questions, one set of columns per run."""
