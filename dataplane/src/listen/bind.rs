//! Which ports are open: brings the sockets in line with the listeners, and leaves alone what is already right.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::drain::Drainer;
use crate::worker::Workers;

/// Where the ports of listeners are bound.
#[derive(Clone, Debug)]
pub struct Binds {
    /// The address of ports that are not named in `overrides`.
    pub ip: IpAddr,
    /// Added to those ports: a laptop's user may not bind 80.
    pub offset: u16,
    /// Addresses for single listener ports. Port 0 takes a free one.
    pub overrides: BTreeMap<u16, SocketAddr>,
}

/// The open ports.
#[derive(Debug, Default)]
pub(crate) struct Ports(BTreeMap<u16, Open>);

/// A port that is open: every worker accepts from its own clone of one listening socket.
#[derive(Debug)]
struct Open {
    local: SocketAddr,
    drainer: Drainer,
}

/// Connections that the kernel accepts for us before we do.
const BACKLOG: i32 = 4096;

impl Default for Binds {
    fn default() -> Self {
        Self { ip: Ipv4Addr::LOCALHOST.into(), offset: 8000, overrides: BTreeMap::new() }
    }
}

impl Binds {
    /// The address for a listener port; `None` when the offset leads beyond the last port.
    pub fn address(&self, port: u16) -> Option<SocketAddr> {
        match self.overrides.get(&port) {
            Some(address) => Some(*address),
            None => Some(SocketAddr::new(self.ip, port.checked_add(self.offset)?)),
        }
    }
}

impl Ports {
    /// Begins the end of ports that are no longer wanted. Returns when they take no more connections.
    pub(crate) async fn close_unwanted(
        &mut self,
        wanted: &BTreeSet<u16>,
        workers: &Workers,
        drain: Duration,
    ) {
        let gone: Vec<u16> = self.0.keys().filter(|port| !wanted.contains(port)).copied().collect();
        for port in gone {
            self.close(port, workers, drain).await;
        }
    }

    /// Opens what is not open yet. A port that is keeps its socket, whatever its listeners have become.
    pub(crate) fn open_wanted(
        &mut self,
        wanted: &BTreeSet<u16>,
        binds: &Binds,
        workers: &Workers,
    ) -> (BTreeMap<u16, SocketAddr>, BTreeMap<u16, String>) {
        let (mut open, mut failed) = (BTreeMap::new(), BTreeMap::new());
        for &port in wanted {
            match self.open(port, binds, workers) {
                Ok(local) => _ = open.insert(port, local),
                Err(message) => _ = failed.insert(port, message),
            }
        }
        (open, failed)
    }

    /// Begins the end of every port. Returns when no more connections are taken.
    pub(crate) async fn close_all(&mut self, workers: &Workers, drain: Duration) {
        for open in self.0.values() {
            open.drainer.begin(drain);
        }
        let ports: Vec<u16> = self.0.keys().copied().collect();
        for port in ports {
            self.close(port, workers, drain).await;
        }
    }

    async fn close(&mut self, port: u16, workers: &Workers, drain: Duration) {
        if let Some(open) = self.0.remove(&port) {
            open.drainer.begin(drain);
            workers.close(port).await;
            tracing::info!(port, address = %open.local, "Closed a port");
        }
    }

    fn open(&mut self, port: u16, binds: &Binds, workers: &Workers) -> Result<SocketAddr, String> {
        if let Some(open) = self.0.get(&port) {
            return Ok(open.local);
        }
        let wanted = binds.address(port).ok_or_else(|| {
            format!(
                "port {port} plus the offset {} is above 65535: bind it to an address of its own",
                binds.offset
            )
        })?;
        let drainer = Drainer::new();
        let local = listen(wanted)
            .and_then(|socket| {
                let local = socket.local_addr()?;
                workers.listen(port, &socket, &drainer)?;
                Ok(local)
            })
            .map_err(|error| explain(port, wanted, &error))?;
        tracing::info!(port, address = %local, "Opened a port");
        self.0.insert(port, Open { local, drainer });
        Ok(local)
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier run may still be on their way out. SO_REUSEPORT is left alone: it would hide that another
    // process has the port, and lose what waits in a worker's own queue when that worker stops.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The fact, and what to do about it.
fn explain(port: u16, address: SocketAddr, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "stop whatever listens there, or bind the port to another address",
        io::ErrorKind::PermissionDenied => "bind the port to 1024 or above, or allow this user low ports",
        io::ErrorKind::AddrNotAvailable => "bind the port to an address of this machine",
        _ => "bind the port to another address",
    };
    format!("cannot listen on {address} for port {port}: {error}: {hint}")
}
