//! How many connections clients may have, in all and each.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::settings::Limits;

/// The count of client connections.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    most_per_client: usize,
    open: AtomicUsize,
    /// Touched twice in the life of a connection, never by a request.
    clients: Mutex<HashMap<IpAddr, usize, foldhash::fast::RandomState>>,
    none_left: Notify,
}

/// The right to one connection; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    client: IpAddr,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    /// All connections are taken.
    Connections,
    /// The client has as many as one client may have.
    ConnectionsPerClient,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            most: limits.connections,
            most_per_client: limits.connections_per_client,
            open: AtomicUsize::new(0),
            clients: Mutex::default(),
            none_left: Notify::new(),
        })
    }

    /// Counts a connection of `address`, unless that is one too many.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Permit, Refused> {
        let client = client(address);
        if self.open.fetch_add(1, Ordering::AcqRel) >= self.most {
            self.leave();
            return Err(Refused::Connections);
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        if *count >= self.most_per_client {
            drop(clients);
            self.leave();
            return Err(Refused::ConnectionsPerClient);
        }
        *count += 1;
        Ok(Permit { connections: Arc::clone(self), client })
    }

    /// Open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Resolves when no connection is open.
    pub(crate) async fn none_left(&self) {
        loop {
            let notified = self.none_left.notified();
            if self.open() == 0 {
                return;
            }
            notified.await;
        }
    }

    fn leave(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none_left.notify_waiters();
        }
    }
}

/// Who an address stands for: with IPv6, one client has a network of 64 bits to choose addresses from.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut clients = self.connections.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
        drop(clients);
        self.connections.leave();
    }
}

impl Refused {
    /// The word for it in metrics.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerClient => "connections_per_client",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_take_all_and_all_cannot_take_more_than_there_is() {
        let limits = Limits { connections: 3, connections_per_client: 2, ..Limits::default() };
        let connections = Connections::new(&limits);
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let first = connections.admit(a).expect("first of a");
        let _second = connections.admit(a).expect("second of a");
        assert_eq!(connections.admit(a).err(), Some(Refused::ConnectionsPerClient));
        let _third = connections.admit(b).expect("first of b");
        assert_eq!(connections.admit(b).err(), Some(Refused::Connections));
        drop(first);
        assert_eq!(
            client("2001:db8::1".parse().expect("an address")),
            client("2001:db8::2:0:0:1".parse().expect("an address"))
        );
        assert_eq!(client("::ffff:10.0.0.1".parse().expect("an address")), a);
        assert!(connections.admit(a).is_ok());
        assert_eq!(connections.open(), 2);
    }
}
