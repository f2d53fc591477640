//! One line of JSON for each request, with OpenTelemetry's attribute names; never in the way of a request.
//!
//! A worker gathers lines in a buffer of its own and hands full buffers to one writing thread. When that thread cannot keep
//! up, buffers are dropped and their lines counted.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
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
        shown(out, "client.address", inbound.client.ip());
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
            shown(out, "endpoint", endpoint);
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
        put(&mut self.text, format_args!(".{:03}Z\"", now.subsec_millis()));
    }
}

fn name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn number(out: &mut Vec<u8>, key: &str, mut value: u64) {
    name(out, key);
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).expect("a digit is below 10");
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Seconds with six digits.
fn seconds(out: &mut Vec<u8>, key: &str, value: Duration) {
    number(out, key, value.as_secs());
    put(out, format_args!(".{:06}", value.subsec_micros()));
}

fn shown(out: &mut Vec<u8>, key: &str, value: impl fmt::Display) {
    name(out, key);
    put(out, format_args!("\"{value}\""));
}

fn put(out: &mut Vec<u8>, what: fmt::Arguments<'_>) {
    // Writing to a buffer in memory does not fail.
    let _ = out.write_fmt(what);
}

/// A JSON string. What a client sent must not end the string or the line.
fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    name(out, key);
    out.push(b'"');
    for byte in value.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0..0x20 | 0x7f => put(out, format_args!("\\u{byte:04x}")),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
