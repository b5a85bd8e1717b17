"""Statistics on plain arrays: intervals, tests, effects, models, information. Nothing here knows a log."""
