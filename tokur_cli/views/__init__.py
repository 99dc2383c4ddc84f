"""What people look at: heat maps for the terminal, as a web page and as a figure."""
