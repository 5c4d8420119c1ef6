//! A client that speaks the protocol by hand: it says what it likes, and reads when it likes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::server::{PATIENCE, Server};

/// 160 000 rows, many more bytes than wait on a network for a client that does not read: as long as the
/// client does not, the query runs.
pub const PAIRS: &str =
    "SELECT a.zip, a.occupation, a.birth_date, b.zip, b.occupation, b.birth_date
    FROM patients_k10 a, patients_k10 b";

/// A connection byte by byte.
pub struct Raw {
    pub stream: TcpStream,
}

impl Raw {
    pub fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    /// Says who it is, as every connection begins.
    pub fn hello(server: &Server, user: &str) -> Self {
        let mut raw = Self::connect(server);
        raw.write(&hello(user));
        raw
    }

    /// A connection of somebody who needs no password, ready for queries.
    pub fn logged_in(server: &Server) -> Self {
        let mut raw = Self::hello(server, "local");
        assert!(raw.kinds().ends_with('Z'));
        raw
    }

    pub fn write(&mut self, bytes: &[u8]) {
        // The service may have hung up already.
        let _ = self.stream.write_all(bytes);
    }

    /// Says the last word; everything before it arrives with it or earlier.
    pub fn last_word(&mut self, bytes: &[u8]) {
        self.write(bytes);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub fn message(&mut self, kind: u8, body: &[u8]) {
        self.write(&message(kind, body));
    }

    pub fn query(&mut self, sql: &str) {
        self.write(&query(sql));
    }

    pub fn parse(&mut self, sql: &str) {
        self.message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    }

    /// Binds the unnamed statement to the unnamed portal, without parameters.
    pub fn bind(&mut self) {
        self.message(b'B', b"\0\0\0\0\0\0\0\0");
    }

    /// Asks for rows of the unnamed portal, without the end of a transaction.
    pub fn execute(&mut self, rows: i32) {
        self.message(b'E', &[b"\0", &rows.to_be_bytes()[..]].concat());
        self.message(b'H', b"");
    }

    /// The next message, unless the service has hung up.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).unwrap();
        Some((head[0], body))
    }

    /// Kinds and bodies of all messages until the service hangs up or is ready for the next query.
    pub fn answers(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut answers = Vec::new();
        while let Some(answer) = self.next() {
            let is_ready = answer.0 == b'Z';
            answers.push(answer);
            if is_ready {
                break;
            }
        }
        answers
    }

    pub fn kinds(&mut self) -> String {
        self.answers().iter().map(|(kind, _)| char::from(*kind)).collect()
    }

    /// Kinds of the messages up to one of these, and the body of the last.
    pub fn until(&mut self, last: &str) -> (String, Vec<u8>) {
        let mut kinds = String::new();
        loop {
            let (kind, body) = self.next().unwrap();
            kinds.push(char::from(kind));
            if last.contains(char::from(kind)) {
                return (kinds, body);
            }
        }
    }

    /// Reads until the service hangs up.
    pub fn drain(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }
}

/// The first message of a connection.
pub fn hello(user: &str) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for text in ["user", user, "database", "releases"] {
        body.extend(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat()
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), &[0]].concat())
}

/// The SQLSTATE of an error.
pub fn code(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0);
    let code = fields.filter_map(|field| field.strip_prefix(b"C")).next().unwrap_or_default();
    String::from_utf8_lossy(code).into_owned()
}
