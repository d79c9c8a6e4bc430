"""Optimizers; each returns a Solution with a status sentence."""
