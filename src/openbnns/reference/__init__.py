"""The reference engine: every filter in float64 NumPy, written from its formula and meant to be read.

It computes on plain arrays in canonical form: C order, batch first; images (N, C, H, W), convolution weights
(O, I/groups, KH, KW), fully connected weights (out, in). It knows nothing of descriptors, buffers or layouts, and it
keeps no state: a backward is given whatever it needs. Each module holds the forward and the backward of one family.
"""
