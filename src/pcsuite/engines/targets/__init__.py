"""Systems that answer in a model's place, and the folders that they work in."""
