"""One module per subcommand; ``pcsuite.cli`` imports only the one that is called."""
