"""The parameters of filters in plain types, which the rules and the formulas of a family share."""
