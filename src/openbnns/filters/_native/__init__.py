"""Plans over compiled kernels: one file per family, each turning resolved parameters into a native plan."""
