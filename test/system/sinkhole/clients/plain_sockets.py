"""Sockets as they are: TCP, UDP, echo requests, raw sockets, and a client that tries both address families."""
import errno
import selectors
import socket
import struct
import time

MOST_RECEIVED = 65536


def add_commands(commands):
    connect = commands.add_parser("connect", help="TCP to an address or name; sends, and tells the first answer")
    connect.add_argument("host")
    connect.add_argument("port", type=int)
    connect.add_argument("--send", default="", help="text; \\r, \\n and \\xNN are understood")
    connect.add_argument("--all", action="store_true", help="end our half, and read until the other ends too")
    connect.set_defaults(run=run_connect)

    udp = commands.add_parser("udp", help="one datagram, and its answer")
    udp.add_argument("address")
    udp.add_argument("port", type=int)
    udp.add_argument("--send", default="hello")
    udp.set_defaults(run=run_udp)

    ping = commands.add_parser("ping", help="an echo request through a ping socket, which needs no capability")
    ping.add_argument("address")
    ping.set_defaults(run=run_ping)

    raw = commands.add_parser("raw", help="tries each kind of raw socket, and sends an echo request through it")
    raw.add_argument("address")
    raw.set_defaults(run=run_raw)

    eyeballs = commands.add_parser("happy-eyeballs", help="RFC 8305: every address of a name, IPv6 first, 250 ms apart")
    eyeballs.add_argument("host")
    eyeballs.add_argument("port", type=int)
    eyeballs.set_defaults(run=run_happy_eyeballs)


def bytes_of(text):
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def send_all(connection, data, ends=True):
    """@returns whether all went out: the other side may have had enough before that, and reset."""
    try:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        return True
    except TimeoutError:
        return False
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
            return False
        raise


def read_to_end(connection):
    """(what came, how it ended: "end", "reset", "timeout" or "bound")"""
    data = b""
    while len(data) < MOST_RECEIVED:
        try:
            chunk = connection.recv(MOST_RECEIVED)
        except ConnectionError:
            return data, "reset"
        except TimeoutError:
            return data, "timeout"
        if not chunk:
            return data, "end"
        data += chunk
    return data, "bound"


def run_connect(arguments):
    with socket.create_connection((arguments.host, arguments.port), arguments.timeout) as connection:
        peer = connection.getpeername()
        send_all(connection, bytes_of(arguments.send), ends=arguments.all)
        if arguments.all:
            data, ending = read_to_end(connection)
        else:
            data = connection.recv(MOST_RECEIVED)
            ending = "open" if data else "end"
    return {"peer": peer[0], "received": data.decode("latin-1"), "ending": ending}


def run_udp(arguments):
    with socket.socket(family_of(arguments.address), socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(arguments.timeout)
        # connected, so that a refusal by the network comes back as an error
        datagrams.connect((arguments.address, arguments.port))
        datagrams.send(bytes_of(arguments.send))
        return {"received": datagrams.recv(MOST_RECEIVED).decode("latin-1")}


def echo_request(address):
    """Type 8 or 128; of a ping socket the kernel fills in checksum and identifier, of ICMPv6 always."""
    head = struct.pack("!BBHHH", 128 if ":" in address else 8, 0, 0, 0x5A11, 1)
    body = head + b"sinkhole"
    total = sum(struct.unpack(f"!{len(body) // 2}H", body))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return body[:2] + struct.pack("!H", checksum) + body[4:]


def icmp_of(address):
    return socket.IPPROTO_ICMPV6 if ":" in address else socket.IPPROTO_ICMP


def run_ping(arguments):
    address = arguments.address
    with socket.socket(family_of(address), socket.SOCK_DGRAM, icmp_of(address)) as pings:
        pings.settimeout(arguments.timeout)
        pings.sendto(echo_request(address), (address, 0))
        data, sender = pings.recvfrom(MOST_RECEIVED)
    return {"from": sender[0], "icmpType": data[0]}


def run_raw(arguments):
    address = arguments.address
    family = family_of(address)
    tries = {
        "icmp": lambda: send_raw(family, icmp_of(address), address),
        "udp": lambda: send_raw(family, socket.IPPROTO_UDP, address),
        "raw": lambda: send_raw(family, socket.IPPROTO_RAW, address),
        "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close(),
        "netlink-route": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close(),
        "vsock": lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close(),
    }
    return {name: outcome(attempt) for name, attempt in tries.items()}


def send_raw(family, protocol, address):
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        if protocol != socket.IPPROTO_RAW:
            raw.sendto(echo_request(address), (address, 0))


def outcome(attempt):
    try:
        attempt()
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)


def run_happy_eyeballs(arguments):
    found = socket.getaddrinfo(arguments.host, arguments.port, type=socket.SOCK_STREAM)
    ordered = sorted({(family, address) for family, _, _, _, address in found}, key=lambda it: it[0] != socket.AF_INET6)
    tried, errors = [], {}
    with selectors.DefaultSelector() as selector:
        until = time.monotonic() + arguments.timeout
        waiting = list(ordered)
        try:
            while (waiting or selector.get_map()) and time.monotonic() < until:
                if waiting:
                    start_attempt(selector, *waiting.pop(0), tried, errors)
                for key, _ in selector.select(0.25 if waiting else until - time.monotonic()):
                    selector.unregister(key.fileobj)
                    number = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if number == 0:
                        winner = key.fileobj.getpeername()[0]
                        key.fileobj.close()
                        return {"connected": winner, "tried": tried, "errors": errors}
                    errors[key.data] = errno.errorcode.get(number, number)
                    key.fileobj.close()
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()
    return {"connected": None, "tried": tried, "errors": errors}


def start_attempt(selector, family, address, tried, errors):
    attempt = socket.socket(family, socket.SOCK_STREAM)
    attempt.setblocking(False)
    tried.append(address[0])
    number = attempt.connect_ex(address)
    if number in (0, errno.EINPROGRESS):
        selector.register(attempt, selectors.EVENT_WRITE, address[0])
        return
    errors[address[0]] = errno.errorcode.get(number, number)
    attempt.close()
