//! One request and its answer, for which one connection is enough.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cluster::Error;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// 200 and so on.
    pub status: u16,
    /// The head as it came.
    pub head: String,
    /// What came after it.
    pub body: String,
}

const PATIENCE: Duration = Duration::from_secs(5);

/// Asks for a path.
///
/// Fails when there is no answer in time.
pub async fn get(address: SocketAddr, host: &str, path: &str) -> Result<Answer, Error> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer has no end of its head")?;
        let status = head.split(' ').nth(1).ok_or("the answer has no status")?.parse()?;
        Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
    };
    timeout(PATIENCE, asked).await?
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}
