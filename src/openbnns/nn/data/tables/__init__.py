"""Readers of data as people have it: tables, folders of images, arrays."""
