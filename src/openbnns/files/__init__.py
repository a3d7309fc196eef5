"""Files from untrusted sources: limits, checked reading, and arrays in safetensors files. Nothing of networks is known here."""
