"""How the particles of a guided generation became what they are: who was copied, round after round."""
