"""Invented buildings and what is made of them: truth exports, compliance documents, extractions."""
