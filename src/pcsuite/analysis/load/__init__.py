"""From the log to item scores: JSON lines, Parquet parts, one connection that answers questions."""
