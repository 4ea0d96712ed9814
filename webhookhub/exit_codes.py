"""What the commands exit with, for whoever supervises them."""

# It can never work as configured: starting it again would only repeat the message (EX_CONFIG).
UNFIT = 78
# The database does not answer (EX_UNAVAILABLE).
UNREACHABLE = 69
