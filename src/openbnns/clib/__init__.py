"""The Python side of ``libopenbnns``, the C library: the functions of :mod:`openbnns.capi` for addresses and numbers.

The library (``core/clib``) exports the C names, finds or starts an interpreter and imports :mod:`openbnns.clib.library`.
Rules, messages and status codes are those of ``capi``; this package only converts C structs to the structs of ``capi``.

=============  ======================================================================
``layouts``    sizes and offsets of the structs, parameters of the functions (generated)
``reading``    converts a struct at an address to one of ``capi``, and in a few cases back
``functions``  one Python function per C function
``graphs``     the functions of BNNSGraph
``library``    what the library asks for when it starts
``flags``      where it is installed, for compilers
=============  ======================================================================
"""
