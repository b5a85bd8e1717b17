"""The subcommands, one module per family; ``pcsuite.cli`` imports only the one that is called."""
