"""Records: the fields of a JSON line, their checks, and the streams they travel in. Imports nothing else of tokur."""
