"""Shows a program as text and as a graph."""
