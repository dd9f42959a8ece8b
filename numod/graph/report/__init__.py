"""A program for people: as text and as a picture."""
