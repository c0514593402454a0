"""
Small clients that run inside a sandbox: `python3 -B clients COMMAND …` does one thing, prints what came of it as one
line of JSON, and exits with 0 whatever it was. Needs nothing but Python 3.11. `--help` lists the commands.
"""
import argparse
import errno
import json
import sys

sys.dont_write_bytecode = True

import abuse
import dns_questions
import http_bytes
import plain_sockets
import tls_sessions


def describe(error):
    """{"error": "ECONNREFUSED", …}: the name of the errno when it has one, else of the exception."""
    number = getattr(error, "errno", None)
    name = errno.errorcode.get(number) if isinstance(number, int) and number > 0 else None
    return {"error": name or type(error).__name__, "message": str(error)[:500]}


def main():
    parser = argparse.ArgumentParser(prog="clients", allow_abbrev=False)
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for each wait (before the command)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (plain_sockets, dns_questions, tls_sessions, http_bytes, abuse):
        module.add_commands(commands)
    arguments = parser.parse_args()
    try:
        result = arguments.run(arguments)
    except (OSError, EOFError, ValueError, ArithmeticError) as error:
        result = describe(error)
    print(json.dumps(result))


main()
