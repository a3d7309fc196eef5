"""Declared calls: a family says once what a call takes, and everything else follows from that record.

A filter *declares* its calls (:mod:`.signature`): which tensors each takes, which it writes, what needs what. A public
function or method has a *form* (:mod:`.form`): the names and the order of its arguments. From the two come

* the native call that takes arguments already in the form kernels want, after checks in constant time (:mod:`.fast`);
* the binding of everything else: memory, layouts, element types, NULL and overlap rules (:mod:`.binding`);
* the staging around a native plan (:mod:`.run`);
* the messages, in the words of the face that was called (:mod:`openbnns._words`).
"""
