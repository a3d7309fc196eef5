"""The data types of BNNS as C has them: enumerations, structs, what their fields accept, and memory behind addresses."""
