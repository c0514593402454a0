"""DNS by hand (RFC 1035): any question, to any resolver, over UDP or TCP, with no library between."""
import secrets
import socket
import struct

from plain_sockets import family_of

TYPES = {
    "A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33,
    "NAPTR": 35, "DS": 43, "DNSKEY": 48, "SVCB": 64, "HTTPS": 65, "AXFR": 252, "ANY": 255, "CAA": 257,
}
NAMES = {number: name for name, number in TYPES.items()}
RCODES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")


def add_commands(commands):
    dns = commands.add_parser("dns", help="one question to one resolver")
    dns.add_argument("server")
    dns.add_argument("name", help="as it goes into the message: case and escapes (\\xNN) are kept")
    dns.add_argument("type", help="a name like A or TXT, or a number")
    dns.add_argument("--tcp", action="store_true")
    dns.add_argument("--port", type=int, default=53)
    dns.set_defaults(run=run_dns)

    lookup = commands.add_parser("lookup", help="what the system's resolver finds for a name")
    lookup.add_argument("host")
    lookup.set_defaults(run=run_lookup)


def run_lookup(arguments):
    found = socket.getaddrinfo(arguments.host, 0, type=socket.SOCK_STREAM)
    return {"addresses": sorted({address[0] for _, _, _, _, address in found})}


def run_dns(arguments):
    number = TYPES.get(arguments.type.upper()) or int(arguments.type)
    identifier = secrets.randbelow(65536)
    name = arguments.name.encode("latin-1").decode("unicode_escape").encode("latin-1")
    query = struct.pack("!6H", identifier, 0x0100, 1, 0, 0, 0) + labels_of(name) + struct.pack("!2H", number, 1)
    exchange = over_tcp if arguments.tcp else over_udp
    answer = exchange(arguments.server, arguments.port, query, arguments.timeout)
    return parsed(answer) | {"isOurs": answer[:2] == query[:2]}


def labels_of(name):
    labels = [label for label in name.split(b".") if label]
    return b"".join(bytes([len(label) & 63]) + label[:63] for label in labels) + b"\0"


def over_udp(server, port, query, timeout):
    with socket.socket(family_of(server), socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(timeout)
        datagrams.connect((server, port))
        datagrams.send(query)
        return datagrams.recv(65535)


def over_tcp(server, port, query, timeout):
    with socket.create_connection((server, port), timeout) as connection:
        connection.sendall(struct.pack("!H", len(query)) + query)
        (length,) = struct.unpack("!H", exactly(connection, 2))
        return exactly(connection, length)


def exactly(connection, length):
    data = b""
    while len(data) < length:
        chunk = connection.recv(length - len(data))
        if not chunk:
            raise EOFError(f"the connection ended after {len(data)} of {length} bytes")
        data += chunk
    return data


def parsed(message):
    if len(message) < 12:
        return {"error": "short answer", "bytes": len(message)}
    _, flags, questions, answers, _, _ = struct.unpack_from("!6H", message)
    at = 12
    for _ in range(questions):
        at = name_at(message, at)[1] + 4
    records = []
    for _ in range(answers):
        record, at = record_at(message, at)
        records.append(record)
    code = flags & 15
    rcode = RCODES[code] if code < len(RCODES) else str(code)
    return {"rcode": rcode, "isTruncated": flags & 0x0200 != 0, "answers": records}


def record_at(message, at):
    name, at = name_at(message, at)
    number, _, ttl, length = struct.unpack_from("!HHIH", message, at)
    data = message[at + 10 : at + 10 + length]
    if number in (1, 28):
        text = socket.inet_ntop(socket.AF_INET if number == 1 else socket.AF_INET6, data)
    elif number == 5:
        text = name_at(message, at + 10)[0]
    else:
        text = data.hex()
    return {"name": name, "type": NAMES.get(number, str(number)), "ttl": ttl, "data": text}, at + 10 + length


def name_at(message, at):
    """(the name, where what follows it begins); a pointer leads back, and only so often (RFC 1035 4.1.4)."""
    labels, after = [], None
    for _ in range(128):
        length = message[at]
        if length == 0:
            return ".".join(labels), after or at + 1
        if length >= 0xC0:
            after = after or at + 2
            at = struct.unpack_from("!H", message, at)[0] & 0x3FFF
            continue
        labels.append(message[at + 1 : at + 1 + length].decode("latin-1"))
        at += 1 + length
    raise ValueError("a name without end")
