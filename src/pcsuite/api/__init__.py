"""The front door for Python: what ``import pcsuite as pcs`` offers, and what the commands call.

Nothing here is imported before it is used; see :mod:`pcsuite`.
"""
