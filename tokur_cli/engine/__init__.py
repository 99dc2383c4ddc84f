"""The one inference engine: the only room that imports torch, transformers or accelerate; it never sees a record."""
