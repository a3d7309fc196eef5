"""Graphs of whole tensors."""
