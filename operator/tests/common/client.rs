//! A plain HTTP/1.1 client over any stream: one request a connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response as it came.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Without its framing.
    pub body: String,
}

impl Response {
    /// The value of a header; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(header, _)| header == name).map_or("", |(_, value)| value)
    }

    /// What the echo backend says it saw.
    pub fn echo(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The name of the echo backend that answered; empty if none did.
    pub fn backend(&self) -> String {
        let echo = serde_json::from_str::<serde_json::Value>(&self.body).unwrap_or_default();
        echo["backend"].as_str().unwrap_or_default().to_owned()
    }
}

/// GET over TCP; `headers` are whole lines.
pub fn get(address: SocketAddr, host: &str, path: &str, headers: &[&str]) -> Response {
    try_get(address, host, path, headers)
        .unwrap_or_else(|error| panic!("GET {host}{path} at {address}: {error}"))
}

/// GET over TCP, or why there is no answer.
pub fn try_get(address: SocketAddr, host: &str, path: &str, headers: &[&str]) -> io::Result<Response> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    exchange(stream, host, path, headers)
}

/// GET over any stream.
pub fn exchange(
    mut stream: impl Read + Write,
    host: &str,
    path: &str,
    headers: &[&str],
) -> io::Result<Response> {
    let extra: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{extra}\r\n")?;
    read(&mut BufReader::new(stream))
}

fn read(stream: &mut impl BufRead) -> io::Result<Response> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let status = line(stream)?;
    let status =
        status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| invalid(&status))?;
    let mut headers = Vec::new();
    loop {
        let line = line(stream)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(&line))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let response = Response { status, headers, body: String::new() };
    let mut body = Vec::new();
    if response.header("transfer-encoding") == "chunked" {
        loop {
            let size = line(stream)?;
            let size = u64::from_str_radix(&size, 16).map_err(|_| invalid(&size))?;
            stream.by_ref().take(size).read_to_end(&mut body)?;
            line(stream)?;
            if size == 0 {
                break;
            }
        }
    } else if let Ok(length) = response.header("content-length").parse() {
        stream.take(length).read_to_end(&mut body)?;
    } else {
        stream.read_to_end(&mut body)?;
    }
    Ok(Response { body: String::from_utf8_lossy(&body).into_owned(), ..response })
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
