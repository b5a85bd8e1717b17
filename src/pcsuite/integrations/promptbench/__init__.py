"""PromptBench: attacked prompts searched on development items and run as a block of a profile."""
