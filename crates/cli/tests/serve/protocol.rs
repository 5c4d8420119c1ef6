//! Clients that do not keep to the rules. They speak the protocol by hand, so no psql is needed.

use crate::client::{self, PAIRS, Raw, code};
use crate::server::Server;

/// Rows of an answer, or the success of a login.
fn shows_something(kinds: &str) -> bool {
    kinds.contains(['D', 'T', 'C'])
}

#[test]
fn whoever_skips_the_login_gets_nothing() {
    let server = Server::new();
    // Asks at once, without waiting for the service to ask for a password.
    let mut raw = Raw::connect(&server);
    let ask = client::query("SELECT * FROM patients_k10");
    raw.last_word(&[client::hello("analyst"), ask.clone(), ask].concat());
    let kinds = std::iter::from_fn(|| Some(raw.kinds()).filter(|kinds| !kinds.is_empty()));
    let kinds: String = kinds.collect();
    assert!(kinds.contains('E') && !shows_something(&kinds), "{kinds}");
}

#[test]
fn whoever_goes_on_after_a_failed_login_gets_nothing() {
    let server = Server::new();
    for nonsense in [&b"plain password\0"[..], b"SCRAM-SHA-256\0\0\0\0\x08n,,n=,r=", b"\0", b""] {
        let mut raw = Raw::connect(&server);
        let said = [
            client::hello("analyst"),
            client::message(b'p', nonsense),
            client::query("SELECT * FROM patients_k10"),
            client::message(b'P', b"\0SELECT * FROM patients_k10\0\0\0"),
            client::message(b'B', b"\0\0\0\0\0\0\0\0"),
            client::message(b'E', b"\0\0\0\0\0"),
            client::message(b'S', b""),
        ];
        raw.last_word(&said.concat());
        let kinds = std::iter::from_fn(|| Some(raw.kinds()).filter(|kinds| !kinds.is_empty()));
        let kinds: String = kinds.collect();
        assert!(kinds.contains('E') && !shows_something(&kinds), "{nonsense:?}: {kinds}");
    }
}

#[test]
fn only_who_knows_the_secret_can_cancel() {
    let server = Server::new();
    let mut raw = Raw::hello(&server, "local");
    let login = raw.answers();
    let (_, key) = login.iter().find(|(kind, _)| *kind == b'K').unwrap();
    let (number, secret) = key.split_at(4);
    let wrong: Vec<u8> = secret.iter().map(|byte| byte ^ 1).collect();
    let cancel = |secret: &[u8]| {
        let body = [&80_877_102_u32.to_be_bytes()[..], number, secret].concat();
        let mut stranger = Raw::connect(&server);
        stranger.write(&[&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat());
        // The service hangs up when it has heard the request.
        assert_eq!(stranger.drain(), b"");
    };
    raw.query(PAIRS);
    assert_eq!(raw.until("D").0, "TD");
    for _ in 0..5 {
        cancel(&wrong);
    }
    let kinds = raw.kinds();
    assert_eq!(kinds.matches('D').count(), 400 * 400 - 1);
    assert!(kinds.ends_with("CZ") && !kinds.contains('E'));
    // The right one ends the same query.
    raw.query(PAIRS);
    assert_eq!(raw.until("D").0, "TD");
    cancel(secret);
    let (kinds, body) = raw.until("EC");
    assert_eq!((kinds.ends_with('E'), code(&body).as_str()), (true, "57014"));
}

#[test]
fn noise_does_not_disturb_others() {
    let server = Server::new();
    for noise in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0; 8], b"\x16\x03\x01\x00\x05hello"]
    {
        let mut raw = Raw::connect(&server);
        raw.last_word(noise);
        raw.drain();
    }
    let mut raw = Raw::logged_in(&server);
    raw.query("SELECT 1");
    assert_eq!(raw.kinds(), "TDCZ");
}

#[test]
fn numbers_that_do_not_fit_are_an_error_of_the_message() {
    let server = Server::new();
    let mut raw = Raw::logged_in(&server);
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
        raw.bind();
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
        raw.bind();
        raw.execute(0);
        raw.message(b'S', b"");
        let kinds = raw.kinds();
        assert!(kinds.contains('E') && kinds.ends_with('Z'), "{sql}: {kinds}");
    }
    // Lengths that cannot be told apart from noise end the connection, with a word.
    for length in [[0xff_u8; 4], [0; 4], [0x7f, 0xff, 0xff, 0xff]] {
        let mut raw = Raw::logged_in(&server);
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
    let mut first = Raw::logged_in(&server);
    let mut second = Raw::logged_in(&server);
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
    let server = Server::with("max_queries = 1");
    let mut resting = Raw::logged_in(&server);
    resting.parse("SELECT a.age FROM patients_k10 a, patients_k10 b");
    resting.bind();
    resting.execute(3);
    assert_eq!(resting.until("sE").0, "12DDDs");
    resting.execute(2);
    assert_eq!(resting.until("sE").0, "DDs");
    // Its turn comes though the other query has most of an hour left, and nobody reads it on.
    let mut waiting = Raw::logged_in(&server);
    waiting.query("SELECT 1");
    assert_eq!(waiting.kinds(), "TDCZ");
    resting.execute(2);
    let (kinds, body) = resting.until("sE");
    assert_eq!((kinds.as_str(), code(&body).as_str()), ("E", "57014"));
    resting.message(b'S', b"");
    assert_eq!(resting.kinds(), "Z");
    resting.query("SELECT 1");
    assert_eq!(resting.kinds(), "TDCZ");
}
