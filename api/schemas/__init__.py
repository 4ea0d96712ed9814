"""Request and response bodies, as the documentation shows them."""
