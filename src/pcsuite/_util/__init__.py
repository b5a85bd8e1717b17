"""What every package may use and none owns."""
