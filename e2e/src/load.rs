//! Requests at a steady pace, and what became of each of them: nothing is sent twice, so that nothing lost is hidden.
//!
//! An open loop: a request is sent when it is due, whatever became of the others, and its time counts from then on. Only when
//! very many are under way does everything wait for some of them: more would not say more of the gateway, and much of the machine.

mod way;

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::cluster::Error;
use way::Connections;

/// Who is asked, and what the right answer has in it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where connections go.
    pub address: SocketAddr,
    /// The host of all requests.
    pub host: String,
    /// What the right answer has in its body. So has it the path that was asked for, which is another each time.
    pub mark: String,
}

/// How a request comes to its connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Way {
    /// HTTP/1.1, on connections that are kept, each in its turn.
    Kept,
    /// HTTP/1.1, on a connection for this request alone.
    New,
    /// HTTP/2 with prior knowledge, on a few connections that all share.
    H2,
}

/// A request without its right answer. Times are since the beginning of the load.
#[derive(Clone, Debug)]
pub struct Loss {
    pub way: Way,
    pub cause: String,
    /// When its connection was there, if there was one.
    pub connected: Option<Duration>,
    pub sent: Duration,
    pub ended: Duration,
}

/// A load that runs, on a thread of its own.
pub struct Load {
    began: Instant,
    common: Arc<Common>,
    thread: JoinHandle<std::io::Result<()>>,
}

/// What became of all requests.
#[derive(Debug)]
pub struct Outcome {
    sent: BTreeMap<Way, usize>,
    pub lost: Vec<Loss>,
    /// Sent again over HTTP/2, for the server had not looked at them, and had said so.
    handed_back: u32,
    /// How long each right answer took, and when it was asked for; the quickest first.
    took: Vec<(Duration, Duration)>,
    lasted: Duration,
}

#[derive(Default)]
struct Common {
    ends: AtomicBool,
    sent: AtomicU32,
    under_way: AtomicU32,
    handed_back: AtomicU32,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    sent: BTreeMap<Way, usize>,
    lost: Vec<Loss>,
    took: Vec<(Duration, Duration)>,
}

/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(2);
/// A request without an answer after this is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// With as many under way, no more are sent.
const MOST: u32 = 500;

impl Load {
    /// Begins to send `rate` requests a second.
    pub fn start(target: Target, rate: f64) -> Self {
        let (began, common) = (Instant::now(), Arc::<Common>::default());
        let shared = Arc::clone(&common);
        let thread = std::thread::spawn(move || {
            // One thread: what it takes from the cluster's processors is little, and known.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(send_all(Arc::new(target), rate, began, shared));
            Ok(())
        });
        Self { began, common, thread }
    }

    /// The time since the beginning.
    pub fn at(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for the number of requests, stops, and waits for the last answers.
    ///
    /// Fails when the load could not run.
    pub async fn stop(self, at_least: u32) -> Result<Outcome, Error> {
        while self.common.sent.load(Ordering::Relaxed) < at_least && !self.thread.is_finished() {
            sleep(Duration::from_millis(100)).await;
        }
        let lasted = self.at();
        self.common.ends.store(true, Ordering::Relaxed);
        let thread = self.thread;
        let ended = tokio::task::spawn_blocking(move || thread.join()).await?;
        ended.map_err(|_| "the load came to an end by itself")??;
        let seen =
            std::mem::take(&mut *self.common.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let Seen { sent, mut lost, mut took } = seen;
        took.sort_unstable();
        lost.sort_by_key(|loss| loss.sent);
        let handed_back = self.common.handed_back.load(Ordering::Relaxed);
        Ok(Outcome { sent, lost, handed_back, took, lasted })
    }
}

/// One request on a connection of its own, and whether its answer is the right one; if not, why.
pub async fn ask_once(target: &Target) -> Result<(), String> {
    let connections = Connections::new(Arc::new(target.clone()), Instant::now());
    let asked = timeout(PATIENCE, connections.ask(Way::New, 0, &mut None)).await;
    asked.unwrap_or_else(|_| Err(silence(None)))
}

fn silence(connected: Option<Duration>) -> String {
    let what = if connected.is_some() { "answer" } else { "connection" };
    format!("no {what} in {} s", PATIENCE.as_secs())
}

async fn send_all(target: Arc<Target>, rate: f64, began: Instant, common: Arc<Common>) {
    let connections = Arc::new(Connections::new(target, began));
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0_u32;
    let mut due = began;
    while !common.ends.load(Ordering::Relaxed) {
        tick.tick().await;
        while due <= Instant::now() && common.under_way.load(Ordering::Relaxed) < MOST {
            common.under_way.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(one(number, due, Arc::clone(&connections), Arc::clone(&common)));
            number += 1;
            due += Duration::from_secs_f64(1.0 / rate);
        }
        if common.under_way.load(Ordering::Relaxed) >= MOST {
            due = due.max(Instant::now());
        }
        common.sent.store(number, Ordering::Relaxed);
    }
    while common.under_way.load(Ordering::Relaxed) > 0 {
        sleep(TICK).await;
    }
    common.handed_back.store(connections.handed_back.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Of twenty requests, thirteen go on kept connections, five over HTTP/2, and two on connections of their own: each of these
/// takes a port of the client for a minute, and there are 28,000.
fn way(number: u32) -> Way {
    match number % 20 {
        3 | 11 => Way::New,
        1 | 5 | 9 | 13 | 18 => Way::H2,
        _ => Way::Kept,
    }
}

async fn one(number: u32, due: Instant, connections: Arc<Connections>, common: Arc<Common>) {
    let way = way(number);
    let (sent, mut connected) = (connections.began.elapsed(), None);
    let answer = timeout(PATIENCE, connections.ask(way, number, &mut connected)).await;
    let answer = answer.unwrap_or_else(|_| Err(silence(connected)));
    common.under_way.fetch_sub(1, Ordering::Relaxed);
    let mut seen = common.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *seen.sent.entry(way).or_default() += 1;
    match answer {
        Ok(()) => seen.took.push((due.elapsed(), sent)),
        Err(cause) => {
            let ended = connections.began.elapsed();
            seen.lost.push(Loss { way, cause, connected, sent, ended });
        }
    }
}

impl Outcome {
    /// How many were sent.
    pub fn sent(&self) -> usize {
        self.sent.values().sum()
    }

    /// What was lost, by cause.
    pub fn causes(&self) -> BTreeMap<(&str, Way), Vec<&Loss>> {
        let mut causes: BTreeMap<_, Vec<&Loss>> = BTreeMap::new();
        for loss in &self.lost {
            causes.entry((&*loss.cause, loss.way)).or_default().push(loss);
        }
        causes
    }

    /// The time within which a part of the right answers came, and when the last of them was asked for.
    fn within(&self, part: f64) -> (Duration, Duration) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = (self.took.len() as f64 * part) as usize;
        self.took.get(index.min(self.took.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let sent = |way| self.sent.get(&way).copied().unwrap_or_default();
        let (kept, new, h2) = (sent(Way::Kept), sent(Way::New), sent(Way::H2));
        write!(f, "{} requests in {:.0} s", self.sent(), self.lasted.as_secs_f64())?;
        write!(f, " ({kept} on kept connections, {new} on new ones, {h2} over HTTP/2")?;
        match self.handed_back {
            0 => write!(f, ")")?,
            some => write!(f, ", {some} of them handed back by GOAWAY)")?,
        }
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| self.within(part));
        let ms = |(took, _): (Duration, Duration)| took.as_secs_f64() * 1000.0;
        write!(
            f,
            ", p50 {:.1} ms, p99 {:.1} ms, max {:.0} ms at {:.1} s",
            ms(p50),
            ms(p99),
            ms(most),
            most.1.as_secs_f64()
        )
    }
}
