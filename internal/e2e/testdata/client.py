"""Python's http.client against a gateway: python3 client.py HOST:PORT.

Ends with status 0 and "ok" if everything came as it should.
"""

import hashlib
import http.client
import sys

BLOCK = bytes(range(256)) * 256  # 64 KiB


def expect(condition, what):
    if not condition:
        sys.exit("wrong: %s" % (what,))


def text(response, status=200):
    body = response.read()
    expect(response.status == status, (response.status, body))
    return body.decode()


def told(blocks):
    digest = hashlib.sha256(BLOCK * blocks).hexdigest()
    return "POST %d %s" % (len(BLOCK) * blocks, digest)


conn = http.client.HTTPConnection(sys.argv[1], timeout=30)

# One connection for many requests.
conn.request("GET", "/hello")
expect(text(conn.getresponse()) == "hello", "the first answer")
socket = conn.sock
for n in range(20):
    method = ("GET", "POST", "HEAD")[n % 3]
    conn.request(method, "/hello")
    answer = text(conn.getresponse())
    expect(answer == ("" if method == "HEAD" else "hello"), (method, answer))
    expect(conn.sock is socket, "the connection was closed")

# A body with its length, one in chunks, one that the server is asked for first.
conn.request("POST", "/sum", body=BLOCK * 16)
expect(text(conn.getresponse()) == told(16), "a body with its length")
conn.request("POST", "/sum", body=(BLOCK for _ in range(16)), encode_chunked=True,
             headers={"Transfer-Encoding": "chunked"})
expect(text(conn.getresponse()) == told(16), "a body in chunks")
conn.putrequest("POST", "/sum")
conn.putheader("Content-Length", str(len(BLOCK)))
conn.putheader("Expect", "100-continue")
conn.endheaders()
begin = conn.sock.recv(4096)
expect(begin.startswith(b"HTTP/1.1 100 ") and begin.endswith(b"\r\n\r\n"), begin)
conn.send(BLOCK)
expect(text(conn.getresponse()) == told(1), "a body that was asked for")

# An answer in chunks, and one whose client wants no more.
conn.request("GET", "/stream")
response = conn.getresponse()
expect(response.getheader("Transfer-Encoding") == "chunked", "no chunks")
expect(text(response) == "".join("part %d\n" % n for n in range(100)), "the parts")
expect(conn.sock is socket, "the connection was closed by then")
conn.request("GET", "/hello", headers={"Connection": "close"})
response = conn.getresponse()
expect(text(response) == "hello" and conn.sock is None, "the end of the connection")

# HTTP/1.0.
old = http.client.HTTPConnection(sys.argv[1], timeout=30)
old._http_vsn, old._http_vsn_str = 10, "HTTP/1.0"
old.request("GET", "/stream")
response = old.getresponse()
expect(response.getheader("Transfer-Encoding") is None, "chunks for HTTP/1.0")
expect(text(response) == "".join("part %d\n" % n for n in range(100)), "the parts for HTTP/1.0")

# A large download, in pieces.
conn.request("GET", "/file", headers={"Range": "bytes=1000-1999"})
part = conn.getresponse()
expect(part.status == 206, part.status)
part = part.read()
conn.request("GET", "/file")
whole = conn.getresponse().read()
expect(whole[1000:2000] == part, "a range")

print("ok")
