"""Sequences: recurrent cells and layers, CTC loss."""
