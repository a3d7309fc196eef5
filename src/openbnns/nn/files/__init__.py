"""Files of networks: weights, descriptions and whole models, read with limits from untrusted sources."""
