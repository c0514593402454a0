"""TLS with any pairing of address, server name and Host (NX-17, NX-18), and hellos that are none."""
import ssl
import socket
import struct

from plain_sockets import read_to_end, send_all


def add_commands(commands):
    tls = commands.add_parser("tls", help="a handshake, then one request; host may be an address or a name")
    tls.add_argument("host")
    tls.add_argument("port", type=int)
    add_name_options(tls)
    tls.add_argument("--host-header", help="default: the server name")
    tls.add_argument("--path", default="/")
    tls.add_argument("--alpn", action="append", default=[], help="may be given more than once")
    tls.set_defaults(run=run_tls)

    hello = commands.add_parser("hello", help="sends a broken or odd first flight, and tells what comes back")
    hello.add_argument("host")
    hello.add_argument("port", type=int)
    hello.add_argument("kind", choices=sorted(HELLOS))
    hello.add_argument("--sni", default="sinkhole.example")
    hello.set_defaults(run=run_hello)


def add_name_options(parser):
    parser.add_argument("--sni", help="server name; default: host")
    parser.add_argument("--no-sni", action="store_true")
    parser.add_argument("--ca", help="file with the roots to trust; default: the system's")
    parser.add_argument("--insecure", action="store_true")


def open_tls(arguments, alpn=()):
    context = ssl.create_default_context(cafile=arguments.ca)
    if arguments.insecure or arguments.no_sni:
        context.check_hostname = False
    if arguments.insecure:
        context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    name = None if arguments.no_sni else arguments.sni or arguments.host
    connection = socket.create_connection((arguments.host, arguments.port), arguments.timeout)
    try:
        return context.wrap_socket(connection, server_hostname=name)
    except BaseException:
        connection.close()
        raise


def run_tls(arguments):
    with open_tls(arguments, arguments.alpn) as session:
        result = {"version": session.version(), "alpn": session.selected_alpn_protocol()}
        issuer = session.getpeercert() or {}
        result["issuer"] = dict(pair for part in issuer.get("issuer", ()) for pair in part).get("commonName")
        if session.selected_alpn_protocol() == "h2":
            return result
        host = arguments.host_header or arguments.sni or arguments.host
        session.sendall(f"GET {arguments.path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
        data, ending = read_to_end(session)
    head, _, body = data.partition(b"\r\n\r\n")
    status = head.split(b" ")[1].decode("latin-1") if head.startswith(b"HTTP/1.") else None
    return result | {"status": status, "body": body.decode("latin-1"), "ending": ending}


def record(body, kind=22, version=0x0301):
    return struct.pack("!BHH", kind, version, len(body)) + body


def hello_of(extensions):
    """A ClientHello (RFC 8446 4.1.2) for TLS 1.2: what a server needs to agree, and these extensions."""
    ciphers = struct.pack("!3H", 4, 0xC02B, 0xC02F)
    body = struct.pack("!H", 0x0303) + bytes(32) + b"\0" + ciphers + b"\x01\x00"
    # supported_groups: secp256r1, x25519; signature_algorithms: with SHA-256, ECDSA and RSA
    extensions += extension(10, struct.pack("!3H", 4, 23, 29)) + extension(13, struct.pack("!4H", 6, 0x0403, 0x0804, 0x0401))
    body += struct.pack("!H", len(extensions)) + extensions
    return b"\x01" + len(body).to_bytes(3, "big") + body


def extension(kind, body):
    return struct.pack("!HH", kind, len(body)) + body


def server_name(*names):
    entries = b"".join(b"\0" + struct.pack("!H", len(name)) + name for name in names)
    return extension(0, struct.pack("!H", len(entries)) + entries)


def in_records_of(size, body):
    return b"".join(record(body[at : at + size]) for at in range(0, len(body), size))


HELLOS = {
    "valid": lambda name: record(hello_of(server_name(name))),
    "one-byte-records": lambda name: in_records_of(1, hello_of(server_name(name))),
    "no-name": lambda name: record(hello_of(b"")),
    "two-names": lambda name: record(hello_of(server_name(name, b"evil.example"))),
    "two-name-extensions": lambda name: record(hello_of(server_name(name) + server_name(b"evil.example"))),
    "nul-in-name": lambda name: record(hello_of(server_name(b"evil.example\0." + name))),
    "empty-name": lambda name: record(hello_of(server_name(b""))),
    "dot-name": lambda name: record(hello_of(server_name(name + b"."))),
    "address-name": lambda name: record(hello_of(server_name(b"192.0.2.1"))),
    "long-name": lambda name: record(hello_of(server_name(b"a" * 10000))),
    # encrypted_client_hello (RFC 9849): outer, with an inner that nobody can read
    "ech": lambda name: record(hello_of(server_name(name) + extension(0xFE0D, b"\0\0\1\0\1\0\0\x20" + bytes(66)))),
    "lying-length": lambda name: record(b"\x01\xff\xff\xff" + hello_of(server_name(name))[4:]),
    "lying-extension": lambda name: record(hello_of(struct.pack("!HH", 0, 65535) + name)),
    "huge-record": lambda name: struct.pack("!BHH", 22, 0x0301, 65535) + bytes(65535),
    "endless-hello": lambda name: b"".join(record(b"\x01\xff\xff\xff" + bytes(16380)) for _ in range(64)),
    "empty-records": lambda name: record(b"") * 5000 + record(hello_of(server_name(name))),
    "sslv2": lambda name: b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(37),
    "alert-first": lambda name: record(b"\x02\x28", kind=21) + record(hello_of(server_name(name))),
    "half": lambda name: record(hello_of(server_name(name)))[:40],
    "noise": lambda name: b"\x16" + bytes(range(256)) * 8,
}


def run_hello(arguments):
    first = HELLOS[arguments.kind](arguments.sni.encode("latin-1"))
    with socket.create_connection((arguments.host, arguments.port), arguments.timeout) as connection:
        is_sent = send_all(connection, first, ends=arguments.kind != "half")
        data, ending = read_to_end(connection)
    return {"isSent": is_sent, "received": data[:64].hex(), "receivedBytes": len(data), "ending": ending}
