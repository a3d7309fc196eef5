"""What filters are made with, in plain types: the terms that the rules and the formulas of a family share."""
