"""`python -m headwater`: the same as the command."""

from headwater.cli.main import main

main()
