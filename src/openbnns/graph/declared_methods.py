"""Methods of tensors that are declared functions, which set them; editors and type checkers read the stub."""


class DeclaredMethods:
    __slots__ = ()
