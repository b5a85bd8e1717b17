"""What each block of a prompt is worth: ``pcsuite ablate`` and the functions it is made of."""
