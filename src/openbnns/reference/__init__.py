"""The reference engine: every filter as float64 NumPy, written from its formula to be read.

It computes on plain arrays in canonical form: C order, batch first; images (N, C, H, W), convolution weights
(O, I/groups, KH, KW), fully connected weights (out, in). It knows nothing of descriptors, buffers or layouts, and it
keeps no state: what a backward needs, it is given. Each module holds the forward and the backward of one family.
"""
