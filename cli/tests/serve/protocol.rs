//! Clients that do not keep to the rules. They speak the protocol by hand, so no psql is needed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::Server;

/// A connection byte by byte.
struct Raw {
    stream: TcpStream,
}

impl Raw {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream }
    }

    /// Says who it is, as every connection begins.
    fn hello(server: &Server, user: &str) -> Self {
        let mut raw = Self::connect(server);
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for text in ["user", user, "database", "releases"] {
            body.extend(text.as_bytes());
            body.push(0);
        }
        body.push(0);
        raw.write(&[&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat());
        raw
    }

    fn write(&mut self, bytes: &[u8]) {
        // The service may have hung up already.
        let _ = self.stream.write_all(bytes);
    }

    fn message(&mut self, kind: u8, body: &[u8]) {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.write(&[&[kind], &length[..], body].concat());
    }

    fn query(&mut self, sql: &str) {
        self.message(b'Q', &[sql.as_bytes(), &[0]].concat());
    }

    /// Kinds and bodies of all messages until the service hangs up or is ready for the next query.
    fn answers(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut answers = Vec::new();
        let mut head = [0; 5];
        while self.stream.read_exact(&mut head).is_ok() {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.stream.read_exact(&mut body).unwrap();
            answers.push((head[0], body));
            if head[0] == b'Z' {
                break;
            }
        }
        answers
    }

    fn kinds(&mut self) -> String {
        self.answers().iter().map(|(kind, _)| char::from(*kind)).collect()
    }
}

/// Rows of an answer, or the success of a login.
fn shows_something(kinds: &str) -> bool {
    kinds.contains(['D', 'T', 'C'])
}

#[test]
fn whoever_skips_the_login_gets_nothing() {
    let server = Server::new();
    // Asks at once, without waiting for the service to ask for a password.
    let mut raw = Raw::hello(&server, "analyst");
    raw.query("SELECT * FROM patients_k10");
    raw.query("SELECT * FROM patients_k10");
    raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let kinds = std::iter::from_fn(|| Some(raw.kinds()).filter(|kinds| !kinds.is_empty()));
    let kinds: String = kinds.collect();
    assert!(kinds.contains('E') && !shows_something(&kinds), "{kinds}");
}

#[test]
fn whoever_goes_on_after_a_failed_login_gets_nothing() {
    let server = Server::new();
    for nonsense in [&b"plain password\0"[..], b"SCRAM-SHA-256\0\0\0\0\x08n,,n=,r=", b"\0", b""] {
        let mut raw = Raw::hello(&server, "analyst");
        raw.message(b'p', nonsense);
        raw.query("SELECT * FROM patients_k10");
        let prepare = b"\0SELECT * FROM patients_k10\0\0\0";
        raw.message(b'P', prepare);
        raw.message(b'B', b"\0\0\0\0\0\0\0\0");
        raw.message(b'E', b"\0\0\0\0\0");
        raw.message(b'S', b"");
        raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let kinds = std::iter::from_fn(|| Some(raw.kinds()).filter(|kinds| !kinds.is_empty()));
        let kinds: String = kinds.collect();
        assert!(kinds.contains('E') && !shows_something(&kinds), "{nonsense:?}: {kinds}");
    }
}

#[test]
fn a_stranger_cannot_cancel() {
    let server = Server::new();
    let mut raw = Raw::hello(&server, "local");
    let login = raw.answers();
    let (_, key) = login.iter().find(|(kind, _)| *kind == b'K').unwrap();
    let (number, secret) = key.split_at(4);
    let wrong: Vec<u8> = secret.iter().map(|byte| byte ^ 1).collect();
    raw.query(
        "SELECT count(*) FROM patients_k10 a, patients_k10 b, patients_k10 c
        WHERE a.hours_per_week + b.hours_per_week + c.hours_per_week < 0",
    );
    for _ in 0..5 {
        let mut stranger = Raw::connect(&server);
        let body = [&80_877_102_u32.to_be_bytes()[..], number, &wrong].concat();
        stranger.write(&[&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat());
        std::thread::sleep(Duration::from_millis(20));
    }
    let kinds = raw.kinds();
    assert!(kinds.contains('D') && !kinds.contains('E'), "{kinds}");
}

#[test]
fn noise_does_not_disturb_others() {
    let server = Server::new();
    for noise in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0; 8], b"\x16\x03\x01\x00\x05hello"]
    {
        let mut raw = Raw::connect(&server);
        raw.write(noise);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = raw.stream.read_to_end(&mut rest);
    }
    let mut raw = Raw::hello(&server, "local");
    assert!(raw.kinds().ends_with('Z'));
    raw.query("SELECT 1");
    assert_eq!(raw.kinds(), "TDCZ");
}
