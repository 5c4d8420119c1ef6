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

/// The SQLSTATE of an error.
fn code(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0);
    let code = fields.filter_map(|field| field.strip_prefix(b"C")).next().unwrap_or_default();
    String::from_utf8_lossy(code).into_owned()
}

impl Raw {
    fn parse(&mut self, sql: &str) {
        self.message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    }

    /// Asks for rows of the unnamed portal, without the end of a transaction.
    fn execute(&mut self, rows: i32) {
        self.message(b'E', &[b"\0", &rows.to_be_bytes()[..]].concat());
        self.message(b'H', b"");
    }

    /// Kinds of the messages up to one of these.
    fn until(&mut self, last: &str) -> (String, Vec<u8>) {
        let mut kinds = String::new();
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.stream.read_exact(&mut body).unwrap();
            kinds.push(char::from(head[0]));
            if last.contains(char::from(head[0])) {
                return (kinds, body);
            }
        }
    }
}

#[test]
fn numbers_that_do_not_fit_are_an_error_of_the_message() {
    let server = Server::new();
    let mut raw = Raw::hello(&server, "local");
    assert!(raw.kinds().ends_with('Z'));
    let right = "SELECT age, zip FROM patients_k10 WHERE zip = $1";
    for (kind, body) in [
        // Parse: more types than there are.
        (b'P', &b"\0SELECT 1\0\xff\xff"[..]),
        (b'P', b"\0SELECT 1\0\0\x03\0\0\0\x17"),
        (b'P', b"no end"),
        // Bind: counts and lengths beyond the end, or below zero.
        (b'B', b"\0\0\xff\xff"),
        (b'B', b"\0\0\0\0\xff\xff"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
        (b'B', b"\0\0\0\0\0\x01\x80\0\0\0\0\0"),
        (b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\xff\xff"),
        (b'B', b""),
        // Formats that do not exist, and more or fewer than there are.
        (b'B', b"\0\0\0\x01\0\x09\0\x01\0\0\0\x01x\0\0"),
        (b'B', b"\0\0\0\x02\0\0\0\0\0\x01\0\0\0\x01x\0\0"),
        (b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\0\x03\0\0\0\0\0\0"),
        // Parameters that the statement does not have, or has.
        (b'B', b"\0\0\0\0\0\x02\0\0\0\x01x\0\0\0\x01y\0\0"),
        (b'B', b"\0\0\0\0\0\0\0\0"),
        (b'E', b"\0\0"),
        (b'D', b"Xname\0"),
        (b'C', b""),
    ] {
        raw.parse(right);
        raw.message(kind, body);
        raw.message(b'S', b"");
        let answers = raw.answers();
        let errors: Vec<String> =
            answers.iter().filter(|(kind, _)| *kind == b'E').map(|(_, body)| code(body)).collect();
        assert_eq!(errors, ["08P01"], "{kind} {body:?}");
        assert_eq!(answers.last().map(|(kind, _)| *kind), Some(b'Z'), "{kind} {body:?}");
    }
    // All that is no number of rows means all of them.
    for rows in [-1, i32::MIN, 0, i32::MAX] {
        raw.parse("SELECT age FROM patients_k10");
        raw.message(b'B', b"\0\0\0\0\0\0\0\0");
        raw.execute(rows);
        raw.message(b'S', b"");
        let kinds = raw.kinds();
        assert_eq!(kinds.matches('D').count(), 400, "{rows}: {kinds}");
        assert!(kinds.ends_with("CZ"), "{rows}: {kinds}");
    }
    // Parameters that nobody can have bound.
    for sql in ["SELECT $0", "SELECT $99999", "SELECT $2147483648", "SELECT $18446744073709551616"]
    {
        raw.parse(sql);
        raw.message(b'B', b"\0\0\0\0\0\0\0\0");
        raw.execute(0);
        raw.message(b'S', b"");
        let kinds = raw.kinds();
        assert!(kinds.contains('E') && kinds.ends_with('Z'), "{sql}: {kinds}");
    }
    // Lengths that cannot be told apart from noise end the connection, with a word.
    for length in [[0xff_u8; 4], [0; 4], [0x7f, 0xff, 0xff, 0xff]] {
        let mut raw = Raw::hello(&server, "local");
        assert!(raw.kinds().ends_with('Z'));
        raw.write(&[b"Q", &length[..]].concat());
        let answers = raw.answers();
        assert_eq!(answers.first().map(|(_, body)| code(body)).as_deref(), Some("08P01"));
    }
    raw.query("SELECT 1");
    assert_eq!(raw.kinds(), "TDCZ");
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("a connection failed"), "{log}");
}

#[test]
fn those_who_say_nothing_shut_nobody_out() {
    let server = Server::with("max_connections = 2");
    let silent: Vec<Raw> = (0..20).map(|_| Raw::connect(&server)).collect();
    let hesitant: Vec<Raw> = (0..20).map(|_| Raw::hello(&server, "analyst")).collect();
    let mut first = Raw::hello(&server, "local");
    assert!(first.kinds().ends_with('Z'));
    let mut second = Raw::hello(&server, "local");
    assert!(second.kinds().ends_with('Z'));
    // Those who have logged in are counted.
    let mut third = Raw::hello(&server, "local");
    let answers = third.answers();
    let refused = answers.iter().find(|(kind, _)| *kind == b'E');
    assert_eq!(refused.map(|(_, body)| code(body)).as_deref(), Some("53300"));
    for raw in [&mut first, &mut second] {
        raw.query("SELECT 1");
        assert_eq!(raw.kinds(), "TDCZ");
    }
    drop((silent, hesitant));
}

#[test]
fn a_query_that_rests_between_portions_gives_its_turn_to_others() {
    let server = Server::with("max_queries = 1\nquery_timeout_seconds = 300");
    let mut resting = Raw::hello(&server, "local");
    assert!(resting.kinds().ends_with('Z'));
    resting.parse("SELECT a.age FROM patients_k10 a, patients_k10 b");
    resting.message(b'B', b"\0\0\0\0\0\0\0\0");
    resting.execute(3);
    assert_eq!(resting.until("sE").0, "12DDDs");
    // Alone, it may rest and go on.
    std::thread::sleep(Duration::from_secs(7));
    resting.execute(2);
    assert_eq!(resting.until("sE").0, "DDs");
    let mut waiting = Raw::hello(&server, "local");
    assert!(waiting.kinds().ends_with('Z'));
    waiting.query("SET statement_timeout = '60s'");
    assert_eq!(waiting.kinds(), "CZ");
    waiting.query("SELECT 1");
    assert_eq!(
        waiting.kinds(),
        "TDCZ",
        "its turn comes long before the other query's time is over"
    );
    resting.execute(2);
    let (kinds, body) = resting.until("sE");
    assert_eq!((kinds.as_str(), code(&body).as_str()), ("E", "57014"));
    resting.message(b'S', b"");
    assert_eq!(resting.kinds(), "Z");
    resting.query("SELECT 1");
    assert_eq!(resting.kinds(), "TDCZ");
}
