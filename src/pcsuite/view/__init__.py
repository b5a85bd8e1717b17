"""``pcsuite view``: look into runs in a browser."""
