"""Code generated from `nearcast.proto`; `make proto` writes it anew."""
