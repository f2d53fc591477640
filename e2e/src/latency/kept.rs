//! A client that asks again and again on one connection until the answer is the one that is waited for.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::Error;

/// The header that names the revision of the route which made an answer.
pub const REVISION: &str = "x-rev";
/// Between an answer and the next question.
const POLL: Duration = Duration::from_millis(1);
/// Between a connection that failed and the next one: more would take time from what is being started.
const AGAIN: Duration = Duration::from_millis(10);
/// For a connection, and for an answer. A packet that is dropped must not stand for a late configuration.
const CONNECT: Duration = Duration::from_millis(200);
const ANSWER: Duration = Duration::from_secs(5);
/// For the answer that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client of one address.
pub struct Kept {
    address: SocketAddr,
    connection: Option<SendRequest<Empty<Bytes>>>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// 200 of this revision.
    Revision(&'a str),
    /// 404
    Nothing,
}

/// The host of a route of this name.
pub fn host(name: &str) -> String {
    format!("{name}.example.com")
}

impl Kept {
    /// For port 80 of an address.
    pub fn new(address: &str) -> Result<Self, Error> {
        Ok(Self { address: SocketAddr::new(address.parse()?, 80), connection: None })
    }

    /// Asks until the answer for the route of this name is as wanted; gives when it was.
    pub async fn until(&mut self, name: &str, wanted: Wanted<'_>) -> Result<Instant, Error> {
        let host = host(name);
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = timeout(ANSWER, self.ask(&host)).await;
            match answer {
                Ok(Ok((status, revision))) => {
                    let is_wanted = match wanted {
                        Wanted::Revision(wanted) => {
                            status == StatusCode::OK && revision.as_deref() == Some(wanted)
                        }
                        Wanted::Nothing => status == StatusCode::NOT_FOUND,
                    };
                    if is_wanted {
                        return Ok(Instant::now());
                    }
                }
                _ => {
                    self.connection = None;
                    sleep(AGAIN).await;
                }
            }
            if Instant::now() > end {
                return Err(format!("{host} at {} never answers {wanted:?}", self.address).into());
            }
            sleep(POLL).await;
        }
    }

    /// Asks once: the status and the revision.
    async fn ask(&mut self, host: &str) -> Result<(StatusCode, Option<String>), Error> {
        let connection = match &mut self.connection {
            Some(connection) if !connection.is_closed() => connection,
            other => {
                let stream = timeout(CONNECT, TcpStream::connect(self.address)).await??;
                stream.set_nodelay(true)?;
                let (sender, driver) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(driver);
                other.insert(sender)
            }
        };
        let request = Request::get("/").header("host", host).body(Empty::new())?;
        let response = connection.send_request(request).await?;
        let revision = response.headers().get(REVISION).and_then(|value| value.to_str().ok());
        let answer = (response.status(), revision.map(Into::into));
        response.into_body().collect().await?;
        Ok(answer)
    }
}
