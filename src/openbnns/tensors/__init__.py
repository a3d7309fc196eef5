"""Tensors: what a descriptor means, whose memory it is, and how kernels and formulas get at it."""
