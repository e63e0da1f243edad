"""Measurements against the peers and against calmix's own promises; `make bench` runs them all."""
