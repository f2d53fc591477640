//! A backend on a raw socket: a test says what it does with each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::PATIENCE;

/// A backend, and what it has seen.
pub struct Backend {
    address: SocketAddr,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    ended: AtomicUsize,
}

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The head, with the empty line that ends it.
    pub head: String,
    /// The body without its framing.
    pub body: Vec<u8>,
}

/// A connection that the gateway made.
pub struct Peer {
    pub stream: TcpStream,
    /// The first is 1.
    pub number: usize,
    log: Arc<Log>,
    buffer: Vec<u8>,
}

impl Backend {
    /// Does `talk` with each connection, in a thread of its own.
    pub fn start(talk: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let (log, talk) = (Arc::<Log>::default(), Arc::new(talk));
        let of_thread = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (log, talk) = (Arc::clone(&of_thread), Arc::clone(&talk));
                let number = log.connections.fetch_add(1, Ordering::SeqCst) + 1;
                thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                    talk(Peer { stream, number, log: Arc::clone(&log), buffer: Vec::new() });
                    log.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, log }
    }

    /// Answers every request with its own head and body.
    pub fn echo() -> Self {
        Self::start(|mut peer| {
            while let Some(seen) = peer.request() {
                let mut body = seen.head.into_bytes();
                body.extend_from_slice(&seen.body);
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nx-connection: {}\r\n\r\n",
                    body.len(),
                    peer.number
                );
                peer.send(head);
                peer.send(body);
            }
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// What it was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.log.requests.lock().expect("no panic").clone()
    }

    /// Waits until `count` of its connections have ended.
    pub fn await_ended(&self, count: usize) {
        let until = Instant::now() + PATIENCE;
        while self.log.ended.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < until, "the gateway holds on to its connection");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Seen {
    /// The values of a header, in lower case names.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value).collect()
    }

    /// The first line.
    pub fn line(&self) -> &str {
        self.head.split("\r\n").next().unwrap_or_default()
    }
}

impl Peer {
    /// Reads the head of the next request; `None` when the gateway has closed.
    pub fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect();
                return Some(String::from_utf8(head).expect("a head in ASCII"));
            }
            self.more()?;
        }
    }

    /// Reads the next request; `None` when the gateway has closed.
    pub fn request(&mut self) -> Option<Seen> {
        let head = self.head()?;
        let mut seen = Seen { head, body: Vec::new() };
        if seen.header("transfer-encoding") == ["chunked"] {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).expect("a chunk size");
                let mut chunk = self.bytes(size + 2)?;
                chunk.truncate(size);
                if size == 0 {
                    break;
                }
                seen.body.extend(chunk);
            }
        } else if let [length] = seen.header("content-length")[..] {
            seen.body = self.bytes(length.parse().expect("a length"))?;
        }
        self.log.requests.lock().expect("no panic").push(seen.clone());
        Some(seen)
    }

    /// Sends bytes; the gateway may be gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Reads so many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < count {
            self.more()?;
        }
        Some(self.buffer.drain(..count).collect())
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = self.buffer.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).ok();
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> Option<()> {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) | Err(_) => None,
            Ok(read) => {
                self.buffer.extend_from_slice(&piece[..read]);
                Some(())
            }
        }
    }

    /// Waits for the gateway to close; true if it did.
    pub fn closed(&mut self) -> bool {
        while self.more().is_some() {}
        let mut byte = [0];
        !matches!(self.stream.read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}
