"""``python -m evalcard.lm_eval``: lm_eval's own command with our engine as the model ``evalcard``."""

import sys

from lm_eval.__main__ import cli_evaluate

import evalcard.backends.adapter  # noqa: F401 - importing it registers the model
from evalcard.errors import UserError

if __name__ == "__main__":
    try:
        cli_evaluate()
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
