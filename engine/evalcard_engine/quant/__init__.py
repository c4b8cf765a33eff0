"""Schemes, quantized weights and the linears that run them."""
