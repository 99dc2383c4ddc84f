"""What the subcommands do: read records, compute, write. Their options and what they share stand beside them."""
