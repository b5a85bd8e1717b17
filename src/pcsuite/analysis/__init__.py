"""Plain functions on arrays and tables: effects, uncertainty, information."""
