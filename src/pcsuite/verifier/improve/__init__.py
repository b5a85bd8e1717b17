"""The improvement loop: change the extraction prompt, extract again, keep what does not hurt."""
