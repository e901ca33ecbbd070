//! What stands at the other end of a connection, when it is no CloudStack.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Answers every request in one way, and keeps what it was sent.
pub(crate) struct Peer {
    port: u16,
    received: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// `answer` gets the whole request; with `None` the connection stays open without an answer.
    pub(crate) fn start(answer: impl Fn(&str) -> Option<String> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&stream);
                let answer = answer(&request);
                kept.lock().unwrap().push(request);
                match answer {
                    // A client that has left does not listen.
                    Some(answer) => _ = stream.write_all(answer.as_bytes()),
                    None => open.push(stream),
                }
            }
        });
        Self { port, received }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

/// An answer with a status and a body; further header lines end with a line break.
pub(crate) fn http(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Head and body, or whatever comes before something that is no HTTP.
fn read(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut text = Vec::new();
    let mut length = 0;
    loop {
        let start = text.len();
        if reader.read_until(b'\n', &mut text).unwrap_or(0) == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&text[start..]).to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" || !line.is_ascii() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    text.extend(body);
    String::from_utf8_lossy(&text).into_owned()
}
