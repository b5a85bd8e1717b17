"""How targets are asked: the call and its answer, commands and workers, functions, addresses, and their folders."""
