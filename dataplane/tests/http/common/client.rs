//! A client on a raw HTTP/1 connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// A connection to the gateway.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer as it came over the wire.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    /// The head, with the empty line that ends it.
    pub head: String,
    /// The body without its framing.
    pub body: String,
    /// Whether the body ended as announced.
    pub whole: bool,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, buffer: Vec::new() }
    }

    /// Sends bytes; the gateway may have had enough.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Reads the next answer to anything but HEAD.
    pub fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    /// Reads the next answer, 1xx ones included; a status of 0 if there is none.
    pub fn answer_to(&mut self, method: &str) -> Answer {
        let mut answer = self.head();
        if method == "HEAD" || answer.status < 200 || matches!(answer.status, 204 | 304) {
            answer.whole = answer.status != 0;
            return answer;
        }
        let mut body = Vec::new();
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().expect("a length");
            while self.buffer.len() < length && self.more() {}
            answer.whole = self.buffer.len() >= length;
            body.extend(self.buffer.drain(..length.min(self.buffer.len())));
        } else if answer.header("transfer-encoding") == Some("chunked") {
            answer.whole = self.chunks(&mut body);
        } else {
            answer.whole = self.until_end();
            body = std::mem::take(&mut self.buffer);
        }
        answer.body = String::from_utf8_lossy(&body).into_owned();
        answer
    }

    /// Reads the next head.
    pub fn head(&mut self) -> Answer {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head =
                    String::from_utf8(self.buffer.drain(..end + 4).collect()).expect("a head in ASCII");
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                return Answer { status: status.expect("a status"), head, ..Answer::default() };
            }
            if !self.more() {
                return Answer::default();
            }
        }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> bool {
        loop {
            let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") else {
                if !self.more() {
                    return false;
                }
                continue;
            };
            let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
            let size = usize::from_str_radix(&line, 16).expect("a chunk size");
            while self.buffer.len() < end + 2 + size + 2 {
                if !self.more() {
                    return false;
                }
            }
            body.extend_from_slice(&self.buffer[end + 2..end + 2 + size]);
            self.buffer.drain(..end + 2 + size + 2);
            if size == 0 {
                return true;
            }
        }
    }

    /// Reads so many bytes, or what comes until the end.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.more() {}
        self.buffer.drain(..count.min(self.buffer.len())).collect()
    }

    fn more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(read) => {
                self.buffer.extend_from_slice(&piece[..read]);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nothing came in time"),
            Err(_) => false,
        }
    }

    /// Reads to the end; false if that is a reset.
    fn until_end(&mut self) -> bool {
        let mut rest = Vec::new();
        let end = self.stream.read_to_end(&mut rest);
        self.buffer.extend_from_slice(&rest);
        match end {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the gateway does not close"),
            Err(_) => false,
        }
    }

    /// Whether the gateway closes the connection without another byte.
    pub fn is_closed(&mut self) -> bool {
        self.until_end();
        self.buffer.is_empty()
    }
}

impl Answer {
    /// The first value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).into_iter().next()
    }

    /// The values of a header.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| *found == name).map(|(_, value)| value).collect()
    }
}
