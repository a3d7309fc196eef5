"""What networks that come from other libraries share: tensors whose batch may be any axis, and parts that hold weights."""
