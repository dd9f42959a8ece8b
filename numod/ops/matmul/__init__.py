"""Matrix products and the epilogues that products and convolutions share."""
