"""Items: bundled samples, loading, sampling, export."""
