//! The worker threads: each has a single-threaded runtime, and serves the connections that it was given to their end.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task;
use tokio::time::MissedTickBehavior;

use crate::Shared;
use crate::access_log;
use crate::backend;
use crate::drain::{Drain, Drainer};
use crate::limits::Permit;
use crate::listen::{Accepted, Acceptor, serve};

/// All workers, as the control side sees them.
pub(crate) struct Workers {
    desks: Arc<[Desk]>,
    threads: Vec<JoinHandle<()>>,
}

/// How a worker is reached, and what it does.
pub(crate) struct Desk {
    commands: mpsc::UnboundedSender<Command>,
    /// Its connections, and those that are on their way to it.
    load: AtomicUsize,
    /// Its connections, each with the drain that ends it. Touched twice in the life of a connection.
    tasks: Mutex<HashMap<u64, (Drain, task::AbortHandle), foldhash::fast::RandomState>>,
    next: AtomicU64,
}

/// What a worker is told.
enum Command {
    /// Accept from this socket for the port.
    Listen { port: u16, socket: std::net::TcpListener, drain: Drain },
    /// The port's drain has begun: say when its socket is closed.
    Close { port: u16, closed: oneshot::Sender<()> },
    /// Serve a connection that another worker accepted.
    Serve(Accepted),
    /// Endpoints have left the configuration.
    Sweep,
    /// Drop everything.
    Stop,
}

/// A worker's place among the others.
#[derive(Clone)]
pub(crate) struct Seat {
    shared: Arc<Shared>,
    desks: Arc<[Desk]>,
    own: usize,
}

/// Idle connections to endpoints are looked through this often.
const SWEEP: Duration = Duration::from_secs(5);

impl Workers {
    /// Starts `count` workers, at least one.
    pub(crate) fn start(count: usize, shared: &Arc<Shared>) -> io::Result<Self> {
        let (desks, inboxes): (Vec<_>, Vec<_>) = (0..count.max(1))
            .map(|_| {
                let (commands, inbox) = mpsc::unbounded_channel();
                (Desk::new(commands), inbox)
            })
            .unzip();
        let mut workers = Self { desks: desks.into(), threads: Vec::new() };
        for (own, inbox) in inboxes.into_iter().enumerate() {
            let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
            let seat = Seat { shared: Arc::clone(shared), desks: Arc::clone(&workers.desks), own };
            let thread = std::thread::Builder::new().name(format!("postern-worker-{own}"));
            workers.threads.push(thread.spawn(move || {
                runtime.block_on(run(seat, inbox));
            })?);
        }
        Ok(workers)
    }

    /// Lets every worker accept from `socket`.
    pub(crate) fn listen(
        &self,
        port: u16,
        socket: &std::net::TcpListener,
        drainer: &Drainer,
    ) -> io::Result<()> {
        let sockets = self.desks.iter().map(|_| socket.try_clone()).collect::<io::Result<Vec<_>>>()?;
        for (desk, socket) in self.desks.iter().zip(sockets) {
            desk.tell(Command::Listen { port, socket, drain: drainer.drain() });
        }
        Ok(())
    }

    /// Returns when no worker accepts for the port any more. Its drain must have begun.
    pub(crate) async fn close(&self, port: u16) {
        let all = self.desks.iter().map(|desk| {
            let (closed, wait) = oneshot::channel();
            desk.tell(Command::Close { port, closed });
            wait
        });
        futures::future::join_all(all.collect::<Vec<_>>()).await;
    }

    /// Has idle connections looked through now.
    pub(crate) fn sweep(&self) {
        self.desks.iter().for_each(|desk| desk.tell(Command::Sweep));
    }
}

impl Drop for Workers {
    /// Stops the workers, whatever they do, and waits for their threads.
    fn drop(&mut self) {
        self.desks.iter().for_each(|desk| desk.tell(Command::Stop));
        for thread in self.threads.drain(..) {
            // A worker that panicked is gone as well.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn new(commands: mpsc::UnboundedSender<Command>) -> Self {
        Self { commands, load: AtomicUsize::new(0), tasks: Mutex::default(), next: AtomicU64::new(0) }
    }

    fn tell(&self, command: Command) {
        // The worker of a closed inbox has stopped.
        let _ = self.commands.send(command);
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<u64, (Drain, task::AbortHandle), foldhash::fast::RandomState>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends whatever connections of a drain are left.
    fn cut(&self, drain: &Drain) {
        let left = |(other, task): &(Drain, task::AbortHandle)| other.is_of(drain).then(|| task.clone());
        // Collected first: a task that ends strikes itself off the books.
        let left: Vec<_> = self.tasks().values().filter_map(left).collect();
        left.iter().for_each(task::AbortHandle::abort);
    }
}

impl Seat {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn desk(&self) -> &Desk {
        &self.desks[self.own]
    }

    /// Serves a connection here, or where fewer are served: whoever accepts first may accept a whole burst.
    pub(crate) fn serve(&self, tcp: TcpStream, client: SocketAddr, port: u16, drain: Drain, permit: Permit) {
        let idlest = self.desks.iter().min_by_key(|desk| desk.load.load(Relaxed)).unwrap_or(self.desk());
        if idlest.load.load(Relaxed) < self.desk().load.load(Relaxed) {
            if let Ok(tcp) = tcp.into_std() {
                idlest.load.fetch_add(1, Relaxed);
                idlest.tell(Command::Serve(Accepted { tcp, client, port, drain, permit }));
            }
            return;
        }
        self.desk().load.fetch_add(1, Relaxed);
        self.spawn(tcp, client, port, drain, permit);
    }

    /// Starts to serve a connection that is in the load already.
    fn spawn(&self, tcp: TcpStream, client: SocketAddr, port: u16, drain: Drain, permit: Permit) {
        let id = self.desk().next.fetch_add(1, Relaxed);
        let counted = Counted { seat: self.clone(), id, _permit: permit };
        let own = drain.clone();
        let task = task::spawn(async move {
            serve(Arc::clone(counted.seat.shared()), tcp, client, port, drain).await;
            drop(counted);
        });
        // The task runs on this thread, so it cannot have ended yet.
        self.desk().tasks().insert(id, (own, task.abort_handle()));
    }
}

/// A connection in its worker's books.
struct Counted {
    seat: Seat,
    id: u64,
    _permit: Permit,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.seat.desk().load.fetch_sub(1, Relaxed);
        self.seat.desk().tasks().remove(&self.id);
    }
}

/// A worker's whole life.
async fn run(seat: Seat, mut inbox: mpsc::UnboundedReceiver<Command>) {
    seat.shared.metrics.enter();
    let mut acceptors: HashMap<u16, (Drain, task::JoinHandle<()>)> = HashMap::new();
    let mut sweeps = tokio::time::interval(SWEEP);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut log = tokio::time::interval(access_log::TICK);
    log.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let command = tokio::select! {
            command = inbox.recv() => command,
            _ = sweeps.tick() => Some(Command::Sweep),
            _ = log.tick() => {
                seat.shared.access_log.flush();
                continue;
            }
        };
        match command {
            Some(Command::Listen { port, socket, drain }) => match TcpListener::from_std(socket) {
                Ok(listener) => {
                    let acceptor = Acceptor { port, listener, drain: drain.clone(), seat: seat.clone() };
                    acceptors.insert(port, (drain, task::spawn(acceptor.run())));
                }
                Err(error) => tracing::error!(port, %error, "A worker cannot accept connections"),
            },
            Some(Command::Close { port, closed }) => {
                if let Some((drain, acceptor)) = acceptors.remove(&port) {
                    // It ends by itself, at once: the drain of its port has begun.
                    let _ = acceptor.await;
                    let seat = seat.clone();
                    task::spawn(async move {
                        drain.ended().await;
                        seat.desk().cut(&drain);
                    });
                }
                // Nobody waits when the plane was dropped meanwhile.
                let _ = closed.send(());
            }
            Some(Command::Serve(Accepted { tcp, client, port, drain, permit })) => {
                match TcpStream::from_std(tcp) {
                    Ok(tcp) => seat.spawn(tcp, client, port, drain, permit),
                    Err(_) => _ = seat.desk().load.fetch_sub(1, Relaxed),
                }
            }
            Some(Command::Sweep) => {
                let state = seat.shared.state.load();
                backend::sweep(&seat.shared.settings.limits, |address| state.has_endpoint(address));
            }
            Some(Command::Stop) | None => break,
        }
    }
    backend::clear();
    seat.shared.access_log.flush();
}
