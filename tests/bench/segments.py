# SPDX-License-Identifier: Apache-2.0
"""usage: segments.py DEVICE BYTES

Lets a network device of this namespace send and receive TCP segments of up to BYTES, which is more
than the 64 KiB of an IPv4 packet (BIG TCP, Linux 6.3 or later). It speaks netlink itself, because
iproute2 has the option only since 6.3. Exit: 0; 1 the kernel refuses; 2 arguments.
"""

import socket
import struct
import sys

RTM_NEWLINK, RTM_GETLINK, RTM_SETLINK, NLMSG_ERROR = 16, 18, 19, 2
NLM_F_REQUEST, NLM_F_ACK = 1, 4
# IFLA_GSO_MAX_SIZE, IFLA_GRO_MAX_SIZE: IPv6; then the same of IPv4.
GSO, GRO, GSO_IPV4, GRO_IPV4 = 41, 58, 63, 64
HEADER = struct.Struct("=IHHII")  # nlmsghdr
LINK = struct.Struct("=BxHiII")  # ifinfomsg


def ask(kind, flags, index, attributes):
    """Sends one request about the device and returns the kind and the bytes of the answer."""
    body = LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0)
    for kind_of_attribute, value in attributes:
        body += struct.pack("=HHI", 8, kind_of_attribute, value)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body)
        answer = kernel.recv(1 << 16)
    return HEADER.unpack_from(answer)[1], answer[HEADER.size :]


def attribute(answer, wanted):
    """The number that an attribute of an RTM_NEWLINK has, or None."""
    at = LINK.size
    while at + 4 <= len(answer):
        size, kind = struct.unpack_from("=HH", answer, at)
        if kind == wanted:
            return struct.unpack_from("=I", answer, at + 4)[0]
        at += max(4, (size + 3) & ~3)
    return None


def main():
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    device, size = sys.argv[1], int(sys.argv[2])
    try:
        index = socket.if_nametoindex(device)
    except OSError:
        print(f"segments.py: found no network device '{device}'", file=sys.stderr)
        return 2
    sizes = [(which, size) for which in (GSO, GRO, GSO_IPV4, GRO_IPV4)]
    _, answer = ask(RTM_SETLINK, NLM_F_ACK, index, sizes)
    error = struct.unpack_from("=i", answer)[0]
    # A kernel that does not know an attribute ignores it.
    found = attribute(ask(RTM_GETLINK, 0, index, [])[1], GSO_IPV4)
    if error != 0 or found != size:
        print(f"segments.py: {device}: found segments of {found} bytes, expected {size} (error "
              f"{-error}); IPv4 has more than 64 KiB since Linux 6.3", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
