"""Shared parts of networks from other libraries: tensors, control flow, modules that hold weights."""
