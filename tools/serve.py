"""The site on this machine alone: `make serve`."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.errors import BookError


def serve(site: Path, port: str) -> None:
    """Show the folder `site` until Ctrl-C. Raises BookError if the port cannot be had."""
    if not site.is_dir():
        raise BookError(f"{site}: the site is not built; build it with 'make book'")
    try:
        address = ("127.0.0.1", int(port))
        server = ThreadingHTTPServer(
            address, partial(SimpleHTTPRequestHandler, directory=site)
        )
    except (OSError, ValueError, OverflowError) as error:
        reason = (
            getattr(error, "strerror", None) or "it is not a number from 0 to 65535"
        )
        advice = "choose another: 'make serve PORT=8001'"
        raise BookError(f"port {port}: cannot be had ({reason}); {advice}") from None
    with server:
        print(
            f"http://127.0.0.1:{server.server_port} shows {site}; Ctrl-C ends it",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
