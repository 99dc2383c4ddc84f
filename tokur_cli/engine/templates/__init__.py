"""Templates, which are code of somebody else's: filled in a process that may be killed."""
