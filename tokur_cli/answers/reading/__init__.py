"""Reading: what a text states, and what that is: one grammar of numbers, units and words."""
