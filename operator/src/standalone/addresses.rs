//! Which local address a listener port is opened at.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use postern_config::ObjectKey;

/// What is added to a listener port unless `--bind` says otherwise: ports below 1024 need privileges.
pub const OFFSET: u16 = 8000;

/// `[NAMESPACE/NAME:]PORT=ADDRESS:PORT`: where a listener port is opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bind {
    /// The Gateway; all of them when `None`.
    pub gateway: Option<ObjectKey>,
    /// The listener port.
    pub port: u16,
    /// The local address; port 0 asks for a free one.
    pub address: SocketAddr,
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write [NAMESPACE/NAME:]PORT=ADDRESS:PORT, for example 80=127.0.0.1:8080";
        let (listener, address) = text.split_once('=').ok_or(form)?;
        let (gateway, port) = match listener.rsplit_once(':') {
            Some((gateway, port)) => (Some(gateway.parse().map_err(|_| form)?), port),
            None => (None, listener),
        };
        let port = port.parse().map_err(|_| form)?;
        let loopback = || address.parse().ok().map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        let address = address.parse().ok().or_else(loopback).ok_or(form)?;
        Ok(Self { gateway, port, address })
    }
}

/// Chooses an address for every port of every Gateway; a choice is kept for as long as the Gateway has the port.
#[derive(Debug, Default)]
pub struct Addresses {
    asked: Vec<Bind>,
    chosen: BTreeMap<(ObjectKey, u16), SocketAddr>,
}

/// A port for which a free one has to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moved {
    /// The Gateway that comes second.
    pub gateway: ObjectKey,
    /// Its listener port.
    pub port: u16,
    /// The address that another Gateway has.
    pub taken: SocketAddr,
}

impl Addresses {
    /// With what the command line asks for.
    pub fn new(asked: Vec<Bind>) -> Self {
        Self { asked, chosen: BTreeMap::new() }
    }

    /// Chooses for these ports, keeping what was chosen before, and gives those that had to move.
    pub fn choose(&mut self, wanted: &BTreeSet<(ObjectKey, u16)>) -> Vec<Moved> {
        self.chosen.retain(|key, _| wanted.contains(key));
        let mut moved = Vec::new();
        for key in wanted {
            if self.chosen.contains_key(key) {
                continue;
            }
            let mut address = self.preferred(key);
            let taken = self.chosen.values().any(|other| overlap(*other, address));
            if taken {
                moved.push(Moved { gateway: key.0.clone(), port: key.1, taken: address });
                address.set_port(0);
            }
            self.chosen.insert(key.clone(), address);
        }
        moved
    }

    /// All addresses chosen for a Gateway.
    pub fn of(&self, gateway: &ObjectKey) -> BTreeMap<u16, SocketAddr> {
        let own = self.chosen.iter().filter(|((owner, _), _)| owner == gateway);
        own.map(|((_, port), address)| (*port, *address)).collect()
    }

    fn preferred(&self, (gateway, port): &(ObjectKey, u16)) -> SocketAddr {
        let for_port = |bind: &&Bind| bind.port == *port;
        let own = self.asked.iter().find(|bind| bind.gateway.as_ref() == Some(gateway) && bind.port == *port);
        let any = || self.asked.iter().filter(for_port).find(|bind| bind.gateway.is_none());
        let offset = || SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.checked_add(OFFSET).unwrap_or(0));
        own.or_else(any).map_or_else(offset, |bind| bind.address)
    }
}

/// Whether both cannot be open at once.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let any = |address: IpAddr| address.is_unspecified();
    a.port() != 0 && a.port() == b.port() && (a.ip() == b.ip() || any(a.ip()) || any(b.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(text: &str) -> Bind {
        text.parse().expect(text)
    }

    fn ports(list: &[(&str, u16)]) -> BTreeSet<(ObjectKey, u16)> {
        list.iter().map(|(gateway, port)| (gateway.parse().expect("a key"), *port)).collect()
    }

    #[test]
    fn a_bind_names_a_port_and_an_address() {
        assert_eq!(bind("80=127.0.0.1:0").address, "127.0.0.1:0".parse().expect("an address"));
        assert_eq!(bind("80=9000").address, "127.0.0.1:9000".parse().expect("an address"));
        assert_eq!(bind("shop/web:80=0.0.0.0:80").gateway, Some(ObjectKey::new("shop", "web")));
        for wrong in ["80", "x=127.0.0.1:1", "80=localhost", "web:80=127.0.0.1:1"] {
            assert!(wrong.parse::<Bind>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_own_bind_comes_before_the_general_one_and_that_before_the_offset() {
        let mut binds = Addresses::new(vec![bind("80=127.0.0.1:9000"), bind("shop/web:80=127.0.0.1:9001")]);
        let wanted = ports(&[("shop/web", 80), ("shop/web", 443), ("shop/other", 80)]);
        assert_eq!(binds.choose(&wanted), []);
        let port =
            |gateway, port| binds.of(&ObjectKey::new("shop", gateway)).get(&port).map(SocketAddr::port);
        assert_eq!(port("web", 80), Some(9001));
        assert_eq!(port("other", 80), Some(9000));
        assert_eq!(port("web", 443), Some(8443));
    }

    #[test]
    fn the_second_gateway_on_a_port_gets_a_free_one_and_the_first_keeps_its_own() {
        let mut binds = Addresses::default();
        binds.choose(&ports(&[("shop/b", 80)]));
        let moved = binds.choose(&ports(&[("shop/a", 80), ("shop/b", 80)]));
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].gateway, ObjectKey::new("shop", "a"));
        assert_eq!(binds.of(&ObjectKey::new("shop", "a")).get(&80).map(SocketAddr::port), Some(0));
        assert_eq!(binds.of(&ObjectKey::new("shop", "b")).get(&80).map(SocketAddr::port), Some(8080));
    }
}
