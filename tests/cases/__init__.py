"""Sample problems: one record list per family, and the means to run them through openbnns.capi."""
