//! Policies and options, right and wrong.

use std::fs;

use crate::server::{Outcome, Server, Setting, has_psql, hash, program};

fn start(setting: &Setting, arguments: &[&str]) -> Outcome {
    setting.command().args(arguments).output().unwrap().into()
}

#[test]
fn a_mistake_in_the_policy_is_named() {
    let setting = Setting::new();
    setting.write_policy("");
    let right = fs::read_to_string(setting.path("policy.toml")).unwrap();
    for (from, to, expected) in [
        ("[sources.patients]", "[source.patients]", "line 6: unknown field `source`"),
        ("k = 10", "k = \"many\"", "line "),
        (
            "views = [\"patients_k10\"]",
            "views = [\"patients\"]",
            "users.analyst: there is no [views.patients]",
        ),
        ("[views.ages]", "[views.Ages]", "views.Ages: write the name in lower-case letters"),
        ("[views.ages]", "[views.pg_ages]", "views.pg_ages: names that start with pg_"),
        ("trust = true", "", "users.local: there is no password"),
        ("trust = true", "password = 'plain'", "users.local: password is stored hashed"),
        ("trust = true", "trust = true\npassword_env = 'X'", "users.local: write one of"),
        (
            "trust = true",
            "password_env = 'NOT_SET_ANYWHERE'",
            "the variable NOT_SET_ANYWHERE of password_env is not set",
        ),
        (
            "query_timeout_seconds = 3600",
            "query_timeout_seconds = 9223372036854775807",
            "query_timeout_seconds = 9223372036854775807 is too large",
        ),
        ("listen = \"127.0.0.1:0\"", "max_queries = 5000000", "max_queries = 5000000 is too large"),
        ("listen = \"127.0.0.1:0\"", "listen = \"nowhere\"", "server: listen = \"nowhere\""),
        (
            "listen = \"127.0.0.1:0\"",
            "listen = \"127.0.0.1:0\"\ntls_key = 'x'",
            "tls_certificate and tls_key go together",
        ),
        (
            "listen = \"127.0.0.1:0\"",
            "listen = \"127.0.0.1:0\"\ntls_key = 'x'\ntls_certificate = 'y'",
            "tls_certificate: cannot read",
        ),
    ] {
        assert!(right.contains(from), "{from}");
        fs::write(setting.path("policy.toml"), right.replacen(from, to, 1)).unwrap();
        let outcome = start(&setting, &[]);
        assert_eq!(outcome.code, Some(2), "{to}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{to}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("plain"), "{}", outcome.stderr);
    }
}

#[test]
fn a_check_finds_what_a_refresh_would() {
    let setting = Setting::new();
    setting.write_policy("");
    let right = fs::read_to_string(setting.path("policy.toml")).unwrap();
    let query = "SELECT age, occupation FROM patients";
    let outcome = start(&setting, &["--check"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    for (from, to, expected) in [
        ("k = 5", "k = 0", "views.ages: "),
        ("k = 5", "k = 1", "views.ages: "),
        ("quasi_identifiers = [\"age\"]", "quasi_identifiers = [\"ages\"]", "views.ages: "),
        (query, "SELECT age, occupation FROM nowhere", "nowhere"),
        (query, "SELECT age, no_such_column FROM patients", "no_such_column"),
        (query, "SELEC age", "views.ages: "),
        (query, "SELECT age, occupation, name FROM patients", "name"),
        ("[views.ages]\n", "[views.ages]\nsources = []\n", "views.ages: sources names none"),
        (
            "[views.ages]\n",
            "[views.ages]\nsources = ['x']\n",
            "views.ages: there is no [sources.x]",
        ),
        ("path = \"patients.parquet\"", "path = \"missing.parquet\"", "missing.parquet"),
        ("RELEASE_SEED", "NO_SUCH_SEED", "NO_SUCH_SEED"),
        (
            "occupation FROM patients\"\nanonymize = { k = 5,",
            "occupation, arrow_cast([occupation], 'ListView(Utf8)') AS strange FROM patients\"\n\
             anonymize = { k = 5, keep = ['strange'],",
            "views.ages: column 'strange' has type ListView(Utf8), which clients cannot be sent",
        ),
    ] {
        assert!(right.contains(from), "{from}");
        fs::write(setting.path("policy.toml"), right.replacen(from, to, 1)).unwrap();
        let outcome = start(&setting, &["--check"]);
        assert_eq!(outcome.code, Some(2), "{to}: {} {}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{to}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("Zebediah"), "{to}: {}", outcome.stderr);
    }
    assert!(!setting.path("state").exists(), "a check touches nothing");
}

#[test]
fn the_command_line_is_checked() {
    let setting = Setting::new();
    setting.write_policy("");
    let outcome = start(&setting, &["--memory-limit", "1g"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("--memory-limit has no effect on serve: set query_memory_mb"),
        "{outcome:?}"
    );
    let outcome: Outcome = program().arg("serve").output().unwrap().into();
    assert!(outcome.stderr.contains("--policy"), "{outcome:?}");
    let outcome: Outcome = program().args(["serve", "--hash-password"]).output().unwrap().into();
    assert!(outcome.stderr.contains("no password on standard input"), "{outcome:?}");
    let outcome = start(&setting, &["--check"]);
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stdout.contains("view ages from patients\n"), "{outcome:?}");
    assert!(
        outcome.stdout.contains("user steward sees ages, patients_k10, may refresh\n"),
        "{outcome:?}"
    );
    assert_ne!(hash("twice"), hash("twice"), "every hash has a salt of its own");
}

#[test]
fn a_state_belongs_to_one_service() {
    let server = Server::new();
    let second = start(&server.setting, &[]);
    assert_eq!(second.code, Some(2));
    assert!(second.stderr.contains("another service uses"), "{second:?}");
}

#[test]
fn other_machines_are_not_served_in_the_clear() {
    let setting = Setting::new();
    setting.write_policy("");
    for address in ["0.0.0.0:0", "[::]:0"] {
        let outcome = start(&setting, &["--listen", address]);
        assert_eq!(outcome.code, Some(2), "{address}");
        assert!(outcome.stderr.contains("can be reached from other machines"), "{outcome:?}");
        assert!(outcome.stderr.contains("--allow-insecure"), "{outcome:?}");
    }
    let mut command = setting.command();
    command.args(["--listen", "0.0.0.0:0", "--allow-insecure"]);
    let server = Server::spawn(setting, command);
    assert!(server.address.ip().is_unspecified());
}

#[test]
fn with_a_certificate_connections_are_encrypted_or_refused() {
    if !has_psql() {
        return;
    }
    let setting = Setting::new();
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .arg("-keyout")
        .arg(setting.path("key.pem"))
        .arg("-out")
        .arg(setting.path("certificate.pem"))
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("skipped: openssl is not installed");
        return;
    }
    setting.write_policy("tls_certificate = \"certificate.pem\"\ntls_key = \"key.pem\"");
    // Users without a password stay at home.
    let outcome = start(&setting, &["--listen", "0.0.0.0:0"]);
    assert!(outcome.stderr.contains("users.local logs in without a password"), "{outcome:?}");
    let server = setting.start();
    let connect = |mode: &str, host: &str| -> Outcome {
        let mut psql = server.psql_command("analyst", "open sesame");
        psql.env("PGSSLMODE", mode).env("PGSSLROOTCERT", server.setting.path("certificate.pem"));
        psql.args(["-h", host, "-c", "\\conninfo", "-c", "SELECT count(*) FROM patients_k10"]);
        psql.output().unwrap().into()
    };
    for (mode, host) in [("require", "127.0.0.1"), ("verify-full", "localhost")] {
        let outcome = connect(mode, host);
        assert!(outcome.stdout.contains("TLSv1.3"), "{mode}: {outcome:?}");
        assert!(outcome.stdout.ends_with("400\n"), "{mode}: {outcome:?}");
    }
    let clear = connect("disable", "127.0.0.1");
    assert_eq!(clear.code, Some(2));
    assert!(clear.stderr.contains("encrypted connections only"), "{clear:?}");
}
