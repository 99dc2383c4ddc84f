"""What users can choose: each group of options is a dataclass whose annotated fields are the options, declared once."""
