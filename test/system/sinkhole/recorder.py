"""
Tells every packet that arrives at one network device, as JSON lines on stdout. Usage: recorder.py DEVICE MARKER

Of a TCP connection that was seen to begin only the beginning is told; everything else is told packet by packet.
A UDP payload "MARKER n" is told as {"marker": n} with what was left out so far: neighbour discovery and ARP
("ignored"), and packets that the kernel dropped because this program was too slow ("lost"). Ends with its stdin.
"""
import json
import select
import socket
import struct
import sys

ETH_P_ALL, ETH_P_IPV4, ETH_P_IPV6, ETH_P_ARP = 0x0003, 0x0800, 0x86DD, 0x0806
SO_RCVBUFFORCE, SOL_PACKET, PACKET_STATISTICS, PACKET_OUTGOING = 33, 263, 6, 4
RECEIVE_BUFFER_BYTES = 64 << 20
COPIED_BYTES = 1024
MOST_CONNECTIONS = 65536

NAMES = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6", 132: "sctp", 136: "udplite"}
WITH_PORTS = (6, 17, 132, 136)
# multicast listener queries and reports, router and neighbour solicitations and advertisements, redirects
NEIGHBOUR_TYPES = (130, 131, 132, 133, 134, 135, 136, 137, 143)
EXTENSION_HEADERS = (0, 43, 60)
FRAGMENT_HEADER = 44


def tell(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def ipv4(data):
    """(protocol, source, destination, payload, is a later fragment)"""
    later = struct.unpack_from("!H", data, 6)[0] & 0x1FFF != 0
    text = [socket.inet_ntop(socket.AF_INET, data[at : at + 4]) for at in (12, 16)]
    return data[9], *text, data[(data[0] & 15) * 4 :], later


def ipv6(data):
    protocol, rest, later = data[6], data[40:], False
    while protocol in EXTENSION_HEADERS and len(rest) >= 8:
        protocol, rest = rest[0], rest[(rest[1] + 1) * 8 :]
    if protocol == FRAGMENT_HEADER and len(rest) >= 8:
        later = struct.unpack_from("!H", rest, 2)[0] & 0xFFF8 != 0
        protocol, rest = rest[0], rest[8:]
    text = [socket.inet_ntop(socket.AF_INET6, data[at : at + 16]) for at in (8, 24)]
    return protocol, *text, rest, later


def question_name(message):
    """The first name of a DNS message, byte for byte; None when there is none."""
    labels, at = [], 12
    while at < len(message) and 0 < message[at] < 64:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    return ".".join(labels) if at < len(message) and message[at] == 0 else None


class Recorder:
    def __init__(self, marker):
        self.marker = marker.encode() + b" "
        self.begun = set()
        self.ignored = self.lost = 0

    def take(self, ethertype, data, length):
        if ethertype == ETH_P_ARP:
            self.ignored += 1
        elif ethertype == ETH_P_IPV4 and len(data) >= 20:
            self.take_ip(4, ipv4(data), length)
        elif ethertype == ETH_P_IPV6 and len(data) >= 40:
            self.take_ip(6, ipv6(data), length)
        else:
            tell({"protocol": f"ethertype {ethertype:#06x}", "source": "", "address": "", "bytes": length})

    def take_ip(self, family, parts, length):
        protocol, source, address, payload, later = parts
        packet = {"family": family, "protocol": NAMES.get(protocol, str(protocol)), "source": source}
        packet |= {"address": address, "bytes": length}
        if protocol in (1, 58) and payload and not later:
            if protocol == 58 and payload[0] in NEIGHBOUR_TYPES:
                self.ignored += 1
                return
            packet["icmpType"] = payload[0]
        if protocol in WITH_PORTS and len(payload) >= 8 and not later:
            packet["sourcePort"], packet["port"] = struct.unpack_from("!HH", payload)
            if protocol == 17 and payload[8:].startswith(self.marker):
                self.mark(payload[8 + len(self.marker) :])
                return
            if protocol == 17 and packet["port"] == 53:
                packet["question"] = question_name(payload[8:])
            if protocol == 6 and len(payload) >= 14 and not self.is_news(packet, payload[13]):
                return
        tell(packet)

    def is_news(self, packet, flags):
        """Whether a TCP segment belongs to no connection that was told. Forgetting one makes news of it, never silence."""
        packet["isSyn"] = flags & 0x12 == 0x02
        connection = (packet["source"], packet["sourcePort"], packet["address"], packet["port"])
        if connection in self.begun and not packet["isSyn"]:
            return False
        if len(self.begun) >= MOST_CONNECTIONS:
            self.begun.clear()
        self.begun.add(connection)
        return True

    def mark(self, text):
        self.lost += struct.unpack("=II", wire.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        tell({"marker": int(text), "ignored": self.ignored, "lost": self.lost})


device, marker = sys.argv[1:]
# protocol 0 receives nothing until it is bound to the one device
wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
wire.bind((device, ETH_P_ALL))
recorder = Recorder(marker)
buffer = bytearray(COPIED_BYTES)
tell({"ready": True})
while True:
    readable, _, _ = select.select([wire, sys.stdin], [], [])
    if sys.stdin in readable:
        break
    length, sender = wire.recvfrom_into(buffer, COPIED_BYTES, socket.MSG_TRUNC)
    if sender[2] != PACKET_OUTGOING:
        recorder.take(sender[1], bytes(buffer[: min(length, COPIED_BYTES)]), length)
