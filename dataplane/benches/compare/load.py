"""The scenarios: what the load generators do, and what they saw."""

import os
import re
import socket
import ssl
import subprocess
import tempfile
import time

from proxies import LOAD_CORE

CONNECTIONS = 1000


def wrk(url, seconds):
    out = generate(["wrk", "-t1", "-c32", f"-d{seconds}s", url])
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    errors = re.search(r"Socket errors: (.*)", out)
    return dict(
        requests=int(re.search(r"(\d+) requests in", out).group(1)),
        rate=float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
        errors=" ".join(found.group(1) for found in (bad, errors) if found),
    )


def http2(proxy, seconds):
    """Runs of 60,000 requests over 8 connections: Postern ends a connection after some 10,000, and h2load opens no other."""
    total, begin = dict(requests=0, errors=""), time.monotonic()
    while time.monotonic() - begin < seconds:
        seen = h2load(f"https://127.0.0.1:{proxy.tls}/", "-c8", "-m8", "-n60000")
        total["requests"] += seen["requests"]
        total["errors"] += seen["errors"]
    return dict(total, rate=total["requests"] / (time.monotonic() - begin))


def h2load(url, *options):
    out = generate(["h2load", "-t1", *options, url])
    failed = re.search(r"requests:.*, ([1-9]\d*) failed.*\nstatus codes:.*", out)
    return dict(
        requests=int(re.search(r"(\d+) succeeded", out).group(1)),
        rate=float(re.search(r"finished in.*?, ([\d.]+) req/s", out).group(1)),
        errors=failed.group(0).replace("\n", ", ") if failed else "",
    )


def fixed_rate(proxy, seconds):
    """6,000 requests a second over 20 connections; latencies as h2load logs them for every request."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        options = ["--h1", "-c20", "--rps", "300", "--log-file", log]
        seen = h2load(f"http://127.0.0.1:{proxy.plain}/", "-D", str(seconds), *options)
        with open(log) as file:
            latencies = sorted(int(line.split()[2]) for line in file if line.split()[1] == "200")
    at = lambda share: latencies[min(int(len(latencies) * share), len(latencies) - 1)]
    return dict(seen, requests=len(latencies), p50=at(0.5), p99=at(0.99), p999=at(0.999))


SCENARIOS = {
    "h1": lambda proxy, seconds: wrk(f"http://127.0.0.1:{proxy.plain}/", seconds),
    "h1+tls": lambda proxy, seconds: wrk(f"https://127.0.0.1:{proxy.tls}/", seconds),
    "h2+tls": http2,
    "6000/s": fixed_rate,
}


def idle(started, name):
    """Memory with connections that have had one request each and stay open: first plain, then TLS."""
    proxy = started.running[name]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for kind, port, wrap in (("plain", proxy.plain, lambda s: s), ("TLS", proxy.tls, context.wrap_socket)):
        before = started.memory(name)
        connections = [asked(wrap(socket.create_connection(("127.0.0.1", port)))) for _ in range(CONNECTIONS)]
        time.sleep(0.5)
        yield f"{CONNECTIONS} idle {kind}", started.memory(name)
        for connection in connections:
            connection.close()
        time.sleep(0.5)
        yield f"before {CONNECTIONS} idle {kind}", before


def asked(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nHost: bench.example.com\r\n\r\n")
    seen = b""
    while b"x\n" not in seen:
        piece = connection.recv(4096)
        if not piece:
            raise SystemExit(f"a connection was closed after {seen[:80]!r}")
        seen += piece
    return connection


def generate(command):
    done = subprocess.run(["taskset", "-c", LOAD_CORE] + command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr or done.stdout}")
    return done.stdout
