"""Files and programs of other libraries."""
