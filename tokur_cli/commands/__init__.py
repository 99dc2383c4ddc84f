"""Subcommands: read, compute, write; a file each."""
