"""What ``libopenbnns``, the C library, calls: the functions of :mod:`openbnns.capi` for addresses and numbers.

The library (``core/clib``) exports the C names, finds or starts an interpreter and imports :mod:`openbnns.clib.library`.
Rules, messages and status codes are those of ``capi``; here C structs become its structs, and nothing else happens.

=============  ======================================================================
``layouts``    sizes and offsets of the structs, parameters of the functions (generated)
``reading``    a struct at an address to one of ``capi``, and the few ways back
``functions``  one Python function per C function
``library``    what the library asks for when it starts
``flags``      where it is installed, for compilers
=============  ======================================================================
"""
