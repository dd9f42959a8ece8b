"""Reading and writing by index, and copies that move elements: concat, pad, flip, transpose."""
