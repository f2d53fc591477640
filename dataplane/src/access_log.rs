//! One line of JSON for each request, with OpenTelemetry's attribute names; never in the way of a request.
//!
//! A worker gathers lines in a buffer of its own and hands full buffers to one writing thread. When that thread cannot keep
//! up, buffers are dropped and their lines counted.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::metrics::{Metrics, version};
use crate::report::Report;

/// Where the access log goes.
#[derive(Default)]
pub enum AccessLogTo {
    /// Nowhere.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// Anything else. Writing may be slow; it has a thread of its own.
    Writer(Box<dyn Write + Send + Sync>),
}

/// The access log of a plane.
pub(crate) struct AccessLog {
    to: Option<SyncSender<Vec<u8>>>,
    /// Closes when the writing thread has ended.
    written: Option<Mutex<Receiver<()>>>,
    metrics: Metrics,
}

/// Lines of this thread that are not yet handed over, and their number.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    count: u64,
    second: u64,
    second_text: String,
}

/// A buffer is handed over when it has this size; or with the next tick.
const FULL: usize = 32 * 1024;
/// Buffers that wait for the writing thread.
const WAITING: usize = 64;
/// No line waits longer than this for others.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// The end of the process waits this long for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(2);

thread_local! {
    static LINES: RefCell<Lines> = RefCell::default();
}

impl fmt::Debug for AccessLogTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Stdout => "Stdout",
            Self::Writer(_) => "Writer",
        })
    }
}

impl AccessLog {
    /// Starts the writing thread, if there is something to write to.
    pub(crate) fn start(to: AccessLogTo, metrics: Metrics) -> io::Result<Self> {
        let writer: Box<dyn Write + Send> = match to {
            AccessLogTo::Off => return Ok(Self { to: None, written: None, metrics }),
            AccessLogTo::Stdout => Box::new(io::stdout()),
            AccessLogTo::Writer(writer) => writer,
        };
        let (to, from) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("postern-access-log".into());
        let (done, written) = sync_channel(0);
        thread.spawn(move || {
            write_all(writer, &from);
            drop(done);
        })?;
        Ok(Self { to: Some(to), written: Some(Mutex::new(written)), metrics })
    }

    /// Adds a line.
    pub(crate) fn write(&self, report: &Report<'_>) {
        if self.to.is_none() {
            return;
        }
        let full = LINES.with_borrow_mut(|lines| {
            lines.add(report);
            lines.text.len() >= FULL
        });
        if full {
            self.flush();
        }
    }

    /// Hands over what this thread has gathered.
    pub(crate) fn flush(&self) {
        let Some(to) = &self.to else { return };
        let (text, count) = LINES.with_borrow_mut(|lines| {
            let room = Vec::with_capacity(lines.text.len());
            (std::mem::replace(&mut lines.text, room), std::mem::take(&mut lines.count))
        });
        if count == 0 {
            return;
        }
        match to.try_send(text) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.metrics.log_lines_lost(count),
        }
    }
}

impl Drop for AccessLog {
    /// Waits for what was handed over to be written, but not for a sink that takes nothing.
    fn drop(&mut self) {
        self.to = None;
        if let Some(written) = self.written.take() {
            let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
            // Nothing is ever sent: the answer is that the other side is gone, or that the time is over.
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

fn write_all(mut writer: Box<dyn Write + Send>, from: &Receiver<Vec<u8>>) {
    for text in from {
        // A sink that is gone must not take the traffic with it.
        if let Err(error) = writer.write_all(&text).and_then(|()| writer.flush()) {
            tracing::warn!(%error, "Cannot write the access log");
        }
    }
}

impl Lines {
    fn add(&mut self, report: &Report<'_>) {
        self.count += 1;
        self.time();
        let inbound = report.inbound;
        let out = &mut self.text;
        text(out, "http.request.method", report.method.as_str());
        text(out, "url.scheme", inbound.scheme().as_str());
        text(out, "server.address", report.host);
        number(out, "server.port", inbound.port.into());
        text(out, "url.path", report.path);
        text(out, "network.protocol.version", version(report.version));
        number(out, "http.response.status_code", report.status.into());
        if let Some(reason) = report.reason {
            text(out, "reason", reason);
        }
        address(out, "client.address", inbound.client.ip(), None);
        number(out, "client.port", inbound.client.port().into());
        if let Some(tls) = &inbound.tls {
            text(out, "tls.protocol.version", tls.version);
            if let Some(name) = &tls.server_name {
                text(out, "tls.server_name", name);
            }
        }
        if let Some(listener) = report.listener {
            text(out, "listener", listener);
        }
        if let Some(rule) = report.rule {
            text(out, "route", &rule.route_text);
            number(out, "rule", rule.index as u64);
        }
        if let Some(backend) = report.backend {
            text(out, "backend", backend);
        }
        if let Some(endpoint) = report.endpoint {
            address(out, "endpoint", endpoint.ip(), Some(endpoint.port()));
            number(out, "tries", report.tries.into());
        }
        number(out, "http.request.body.size", report.request_bytes);
        number(out, "http.response.body.size", report.response_bytes);
        let durations = [
            ("duration.connect", report.times.connect),
            ("duration.first_byte", report.times.first_byte),
            ("duration", Some(report.times.total)),
        ];
        for (name, duration) in durations {
            if let Some(duration) = duration {
                seconds(out, name, duration);
            }
        }
        out.extend_from_slice(b"}\n");
    }

    /// Begins a line with the time in RFC 3339; all but the milliseconds is worked out once a second.
    fn time(&mut self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.second != now.as_secs() || self.second_text.is_empty() {
            self.second = now.as_secs();
            let time = jiff::Timestamp::from_second(now.as_secs().cast_signed()).unwrap_or_default();
            self.second_text = time.strftime("{\"time\":\"%Y-%m-%dT%H:%M:%S").to_string();
        }
        self.text.extend_from_slice(self.second_text.as_bytes());
        self.text.push(b'.');
        digits(&mut self.text, now.subsec_millis().into(), 3);
        self.text.extend_from_slice(b"Z\"");
    }
}

fn name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn number(out: &mut Vec<u8>, key: &str, value: u64) {
    name(out, key);
    digits(out, value, 1);
}

/// The decimal digits of a number, with zeros before it up to `width`. The general formatter takes several times as long,
/// and this is done for every request.
fn digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).expect("a digit is below 10");
        value /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

/// Seconds with six digits.
fn seconds(out: &mut Vec<u8>, key: &str, value: Duration) {
    number(out, key, value.as_secs());
    out.push(b'.');
    digits(out, value.subsec_micros().into(), 6);
}

/// An address, with its port if there is one.
fn address(out: &mut Vec<u8>, key: &str, ip: IpAddr, port: Option<u16>) {
    name(out, key);
    out.push(b'"');
    match (ip, port) {
        (IpAddr::V4(ip), _) => {
            for (at, octet) in ip.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                digits(out, octet.into(), 1);
            }
        }
        (IpAddr::V6(ip), None) => put(out, format_args!("{ip}")),
        (IpAddr::V6(ip), Some(_)) => put(out, format_args!("[{ip}]")),
    }
    if let Some(port) = port {
        out.push(b':');
        digits(out, port.into(), 1);
    }
    out.push(b'"');
}

fn put(out: &mut Vec<u8>, what: fmt::Arguments<'_>) {
    // Writing to a buffer in memory does not fail.
    let _ = out.write_fmt(what);
}

/// A JSON string. What a client sent must not end the string or the line.
fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    name(out, key);
    out.push(b'"');
    if value.bytes().all(is_plain) {
        out.extend_from_slice(value.as_bytes());
    } else {
        value.bytes().for_each(|byte| escape(out, byte));
    }
    out.push(b'"');
}

fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\' | 0..0x20 | 0x7f)
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        0..0x20 | 0x7f => put(out, format_args!("\\u{byte:04x}")),
        _ => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_is_written_by_hand_is_what_the_formatter_writes() {
        for value in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(written(|out| digits(out, value, 1)), value.to_string());
            assert_eq!(written(|out| digits(out, value, 6)), format!("{value:06}"));
        }
        for text in ["127.0.0.1:80", "10.200.3.0:65535", "[::1]:443", "[::ffff:1.2.3.4]:1"] {
            let socket: SocketAddr = text.parse().expect(text);
            let (ip, port) = (socket.ip(), socket.port());
            assert_eq!(written(|out| address(out, "a", ip, Some(port))), format!(",\"a\":\"{socket}\""));
            assert_eq!(written(|out| address(out, "a", ip, None)), format!(",\"a\":\"{ip}\""));
        }
        let duration = Duration::new(12, 3_000_999);
        assert_eq!(written(|out| seconds(out, "s", duration)), ",\"s\":12.003000");
    }

    #[test]
    fn what_a_client_sent_ends_neither_string_nor_line() {
        let line = written(|out| text(out, "p", "a\"b\\c\nd\u{7f}é"));
        assert_eq!(line, ",\"p\":\"a\\\"b\\\\c\\u000ad\\u007fé\"");
    }
}
