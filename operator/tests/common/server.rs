//! `postern serve` as a child process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::run::postern;

/// A running `postern serve`, ended with the test.
pub struct Server {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
    /// Everything said on standard error so far.
    pub said: String,
}

/// Long enough for a loaded machine, short enough to notice.
const PATIENCE: Duration = Duration::from_secs(20);

impl Server {
    /// Starts it in this folder with these arguments after `serve`.
    pub fn start_in<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = postern();
        command.current_dir(folder).arg("serve").args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let out = lines(child.stdout.take().expect("piped"));
        let err = lines(child.stderr.take().expect("piped"));
        Self { child, out, err, said: String::new() }
    }

    /// The next line on standard output.
    pub fn line(&mut self) -> String {
        match self.out.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => {
                self.said.extend(self.err.try_iter().map(|line| line + "\n"));
                panic!("no line ({error}); standard error:\n{}", self.said)
            }
        }
    }

    /// The address of the next listener that is announced, which is expected to be this one: `shop/web http`.
    pub fn listener(&mut self, name: &str) -> SocketAddr {
        let line = self.line();
        assert!(line.contains(name), "expected {name} in `{line}`");
        let url = line.split_whitespace().next().expect("a line has words");
        let (_, address) = url.split_once("://").expect("a URL");
        address.parse().expect("an address")
    }

    /// Waits until standard error has `text`.
    pub fn says(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.said.contains(text) {
            let left = end.saturating_duration_since(Instant::now());
            match self.err.recv_timeout(left) {
                Ok(line) => self.said += &(line + "\n"),
                Err(error) => panic!("`{text}` was not said ({error}); standard error:\n{}", self.said),
            }
        }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill is there");
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => return status,
                None if Instant::now() > end => panic!("it does not end; standard error:\n{}", self.said),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Asks until the answer is as wanted; changes take some milliseconds to arrive.
pub fn eventually<T: std::fmt::Debug>(
    what: &str,
    mut ask: impl FnMut() -> T,
    wanted: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: {answer:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
