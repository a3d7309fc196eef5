"""What networks that come from other libraries share: tensors, and parts that hold weights."""
