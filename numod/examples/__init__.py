"""Scripts to start from. Each runs by itself, and each is a test."""
