"""Heat maps of responses: in the terminal, as a page and as a figure."""
