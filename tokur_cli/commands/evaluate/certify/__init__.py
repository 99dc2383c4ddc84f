"""``--certify``: from labelled scores to a certificate, as a file, a table and a plot."""
