"""Files of networks: descriptions and whole models."""
