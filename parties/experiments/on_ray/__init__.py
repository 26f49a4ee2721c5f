"""Searches and studies on a Ray cluster."""
