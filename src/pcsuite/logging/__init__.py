"""The append-only run log: rows, writer, reader, resume index."""
