//! Which backend gets a request, by weight, and which of its endpoints.
//!
//! Backends: a low-discrepancy sequence (steps of the golden ratio) over the cumulative weights. Shares are exact in
//! expectation like those of a random choice, but a share of one in ten comes about every tenth request instead of in bursts.
//! Endpoints: the less busy of two that are drawn at random, which needs no lock, keeps away from slow endpoints, and does
//! not send everybody to the same one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use postern_config::BackendKey;

/// Things with weights, of which one is chosen at a time.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    /// Each with the sum of the weights up to and with its own; those of weight 0 are left out.
    entries: Box<[(u64, T)]>,
    position: AtomicU64,
}

/// A Service port with the endpoints that it has at present.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Its key as text, for logs and metrics.
    pub(crate) name: Arc<str>,
    endpoints: Box<[Arc<Endpoint>]>,
}

/// An address that serves a backend. It outlives changes of the configuration as long as it is in there.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    in_flight: AtomicU32,
    /// When a connection could last not be made, in milliseconds since the first use; 0 is never.
    failed: AtomicU64,
}

/// An exchange with an endpoint; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Endpoint>);

/// 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// How long an endpoint that refused a connection is passed over while there are others.
const AVOID: Duration = Duration::from_secs(1);

impl<T> Shares<T> {
    pub(crate) fn new(weighted: impl IntoIterator<Item = (u32, T)>) -> Self {
        let mut sum = 0;
        let entries = weighted.into_iter().filter(|(weight, _)| *weight > 0).map(|(weight, entry)| {
            sum += u64::from(weight);
            (sum, entry)
        });
        Self { entries: entries.collect(), position: AtomicU64::new(fastrand::u64(..)) }
    }

    /// The next choice; `None` when there is nothing with a weight.
    pub(crate) fn choose(&self) -> Option<&T> {
        let (sum, last) = match &*self.entries {
            [] => return None,
            [(_, only)] => return Some(only),
            [.., (sum, last)] => (*sum, last),
        };
        let position = self.position.fetch_add(STEP, Relaxed);
        // Scales the position to 0..sum: the high half of the product is below `sum`, and every value has its equal part.
        let point = u64::try_from((u128::from(position) * u128::from(sum)) >> 64).unwrap_or(u64::MAX);
        let index = self.entries.partition_point(|(upto, _)| *upto <= point);
        Some(self.entries.get(index).map_or(last, |(_, entry)| entry))
    }
}

impl Backend {
    pub(crate) fn new(key: &BackendKey, endpoints: impl IntoIterator<Item = Arc<Endpoint>>) -> Self {
        Self { name: key.to_string().into(), endpoints: endpoints.into_iter().collect() }
    }

    pub(crate) fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    /// The endpoint for a request, counted as busy from now on. `not` is one that was just tried; it is taken again only if
    /// there is no other. `None` when the backend has no endpoint.
    pub(crate) fn choose(&self, not: Option<SocketAddr>) -> Option<InFlight> {
        let chosen = match &*self.endpoints {
            [] => return None,
            [only] => only,
            many => {
                let first = fastrand::usize(..many.len());
                let second = (first + fastrand::usize(1..many.len())) % many.len();
                let (a, b) = (&many[first], &many[second]);
                if b.cost(not) < a.cost(not) { b } else { a }
            }
        };
        // Both that were drawn may be unfit although others are not.
        let chosen = match chosen.cost(not) {
            AVOIDED.. => self.endpoints.iter().min_by_key(|endpoint| endpoint.cost(not)).unwrap_or(chosen),
            _ => chosen,
        };
        Some(InFlight::new(Arc::clone(chosen)))
    }
}

/// Costs from here on are of endpoints that should not be asked.
const AVOIDED: u64 = 1 << 32;

impl Endpoint {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, in_flight: AtomicU32::new(0), failed: AtomicU64::new(0) }
    }

    /// A connection to it could not be made.
    pub(crate) fn has_failed(&self) {
        self.failed.store(milliseconds(), Relaxed);
    }

    fn cost(&self, not: Option<SocketAddr>) -> u64 {
        let busy = u64::from(self.in_flight.load(Relaxed));
        let failed = match self.failed.load(Relaxed) {
            0 => false,
            at => milliseconds().saturating_sub(at) < AVOID.as_millis() as u64,
        };
        busy + if failed { AVOIDED } else { 0 } + if not == Some(self.address) { 2 * AVOIDED } else { 0 }
    }
}

impl InFlight {
    fn new(endpoint: Arc<Endpoint>) -> Self {
        endpoint.in_flight.fetch_add(1, Relaxed);
        Self(endpoint)
    }
}

impl std::ops::Deref for InFlight {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Milliseconds since the first use, at least 1.
fn milliseconds() -> u64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_one_in_ten_comes_about_every_tenth_time() {
        let shares = Shares::new([(90, 'a'), (0, 'z'), (10, 'b')]);
        let (mut since, mut longest, mut count) = (0, 0, 0);
        for _ in 0..10_000 {
            match shares.choose() {
                Some('b') => (since, count) = (0, count + 1),
                Some('a') => (since, longest) = (since + 1, longest.max(since + 1)),
                other => panic!("{other:?} has no weight"),
            }
        }
        assert!((995..=1005).contains(&count), "{count} of 1000");
        assert!(longest < 20, "{longest} in a row without");
    }

    #[test]
    fn without_weight_nothing_is_chosen() {
        assert!(Shares::<()>::new([]).choose().is_none());
        assert!(Shares::new([(0, ())]).choose().is_none());
        assert!(Shares::new([(u32::MAX, 1), (u32::MAX, 2)]).choose().is_some());
    }

    fn backend(count: u8) -> Backend {
        let key = "shop/web:80".parse().expect("a key");
        Backend::new(&key, (0..count).map(|n| Arc::new(Endpoint::new(([10, 0, 0, n], 80).into()))))
    }

    #[test]
    fn busy_and_failed_endpoints_are_passed_over() {
        let three = backend(3);
        assert!(backend(0).choose(None).is_none());
        let held: Vec<_> = (0..300).filter_map(|_| three.choose(None)).collect();
        let most = three.endpoints().iter().map(|e| e.in_flight.load(Relaxed)).max();
        assert!(most < Some(110), "{most:?} of 300 on one of three");
        drop(held);
        three.endpoints()[0].has_failed();
        let not = three.endpoints()[1].address;
        for _ in 0..100 {
            let chosen = three.choose(Some(not)).expect("one of three");
            assert_eq!(chosen.address, three.endpoints()[2].address);
        }
        assert!(backend(1).choose(Some(([10, 0, 0, 0], 80).into())).is_some(), "better than nothing");
    }
}
