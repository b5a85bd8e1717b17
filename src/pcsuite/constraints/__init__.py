"""Ways to enforce a constraint while decoding; :mod:`pcsuite.engines.constrained` chooses among them."""
