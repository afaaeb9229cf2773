"""The site on this machine alone: `make serve`."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.errors import BookError


def serve(site: Path, port: str) -> None:
    """Show the folder `site` until Ctrl-C. Raises BookError if the port cannot be had."""
    if not site.is_dir():
        raise BookError(str(site), "the site is not built", "build it with 'make book'")
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
    except OSError as error:
        raise _no_port(port, error.strerror) from None
    except (ValueError, OverflowError):
        raise _no_port(port, "it is not a number from 0 to 65535") from None

    with server:
        address = f"http://127.0.0.1:{server.server_port}"
        print(f"{address} shows {site}; Ctrl-C ends it", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _no_port(port: str, reason: str) -> BookError:
    return BookError(
        f"port {port}",
        f"cannot be used ({reason})",
        "choose another: 'make serve PORT=8001'",
    )
