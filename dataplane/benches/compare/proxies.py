"""Starts and stops the proxies and the backend, and reads their CPU time and memory."""

import base64
import os
import re
import shutil
import socket
import string
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["postern", "postern-quiet", "nginx", "haproxy", "envoy"]
PROXY_CORE, LOAD_CORE = (str(core) for core in sorted(os.sched_getaffinity(0))[:2])
TICK = os.sysconf("SC_CLK_TCK")


class Proxy:
    """A running proxy."""

    def __init__(self, name, plain, tls, process):
        self.name, self.plain, self.tls, self.process = name, plain, tls, process


class Started:
    """The backend and every proxy that is there, until the end of the `with` block."""

    def __init__(self, folder, args):
        self.folder, self.args, self.running, self.processes = folder, args, {}, []

    def __enter__(self):
        try:
            self.start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def start_all(self):
        certificate(self.folder)
        self.backend = free_port()
        config = self.written("backend.conf", body="x" * 1023 + "\\n")
        self.spawn("backend", LOAD_CORE, ["nginx", "-p", self.folder, "-c", config])
        wait_for(self.backend)
        for name in self.args.proxies.split(","):
            plain, tls = free_port(), free_port()
            command = self.command(name, plain, tls)
            if not shutil.which(command[0]):
                print(f"{name} is left out: {command[0]} is not there", file=sys.stderr)
                continue
            process = self.spawn(name, PROXY_CORE, command)
            wait_for(plain)
            wait_for(tls)
            self.running[name] = Proxy(name, plain, tls, process)
        time.sleep(1)

    def command(self, name, plain, tls):
        ports = dict(plain=plain, tls=tls)
        if name == "nginx":
            return ["nginx", "-p", self.folder, "-c", self.written("nginx.conf", **ports)]
        if name == "haproxy":
            return ["haproxy", "-db", "-f", self.written("haproxy.cfg", **ports)]
        if name == "envoy":
            config = self.written("envoy.yaml", **ports)
            return [self.args.envoy or "envoy", "-c", config, "--concurrency", "1", "-l", "error", "--disable-hot-restart"]
        manifests = self.written("postern.yaml", certificate=self.encoded("server.pem"), key=self.encoded("server.key"))
        return [
            self.args.postern, "serve", "-f", manifests, "--backend", f"bench/web:80=http://127.0.0.1:{self.backend}",
            "--bind", f"80=127.0.0.1:{plain}", "--bind", f"443=127.0.0.1:{tls}",
        ] + ([] if name == "postern-quiet" else ["--access-log"])

    def written(self, template, **values):
        """A configuration with its ports filled in."""
        with open(os.path.join(HERE, template)) as file:
            text = string.Template(file.read()).substitute(values, folder=self.folder, backend=self.backend)
        path = os.path.join(self.folder, f"{values.get('plain', '')}{template}")
        with open(path, "w") as file:
            file.write(text)
        return path

    def encoded(self, file):
        with open(os.path.join(self.folder, file), "rb") as file:
            return base64.b64encode(file.read()).decode()

    def spawn(self, name, core, command):
        log = open(os.path.join(self.folder, f"{name}.log"), "w")
        null = open(os.devnull, "w")
        process = subprocess.Popen(["taskset", "-c", core] + command, stdout=null, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def cpu(self, name):
        """Seconds of CPU time so far, children included."""
        total = 0
        for pid in family(self.running[name].process.pid):
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def memory(self, name):
        """Resident MiB, children included."""
        kib = 0
        for pid in family(self.running[name].process.pid):
            with open(f"/proc/{pid}/status") as file:
                kib += int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
        return kib / 1024


def family(pid):
    """A process and its children, and theirs."""
    pids = [pid]
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            for child in file.read().split():
                pids += family(int(child))
    return pids


def certificate(folder):
    """Self-signed, ECDSA P-256: server.pem, server.key, and both.pem for HAProxy."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench.example.com"
    names = ["-addext", "subjectAltName=DNS:bench.example.com"]
    files = ["-keyout", "server.key", "-out", "server.pem"]
    subprocess.run(command.split() + names + files, cwd=folder, check=True, capture_output=True)
    with open(os.path.join(folder, "both.pem"), "w") as both:
        for part in ("server.pem", "server.key"):
            with open(os.path.join(folder, part)) as file:
                both.write(file.read())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing listens at 127.0.0.1:{port} after 10 s")
