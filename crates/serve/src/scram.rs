//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side.
//!
//! The policy stores what Postgres stores in `pg_authid`: a verifier. Unlike the salted password that
//! other servers keep, it does not let whoever reads it log in: the client proves that it knows the
//! client key, of which the verifier holds only a hash.
//!
//! ```text
//! client ─ n,,n=,r=<nonce> ────────────────────────► first message, `bare` without its header
//!        ◄──────── r=<nonce+ours>,s=<salt>,i=<iterations> ─ server
//! client ─ c=<header>,r=<nonce+ours>,p=<proof> ────► proof = ClientKey xor HMAC(StoredKey, all of the above)
//!        ◄──────────────────────────── v=<signature> ─ server proves that it knew the verifier
//! ```

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion_postgres::pgwire::api::auth::sasl::scram::gen_salted_password;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};

/// The name of the mechanism on the wire.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// What Postgres uses; clients compute this many rounds once per connection.
const ITERATIONS: u32 = 4096;

const KEY: usize = digest::SHA256_OUTPUT_LEN;

/// What is stored of a password: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY],
    server_key: [u8; KEY],
}

/// Why an exchange ends early. None of them says whether the user exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The client does not follow the protocol.
    #[error("malformed SCRAM message")]
    Malformed,
    /// The proof is not that of the password.
    #[error("password authentication failed")]
    WrongPassword,
}

/// The operating system gives no random numbers.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct NoRandomness;

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

impl Verifier {
    /// The verifier of a password, with a salt of its own.
    pub fn new(password: &str) -> Result<Self, NoRandomness> {
        Ok(Self::with_salt(password, random::<16>()?.to_vec(), ITERATIONS))
    }

    fn with_salt(password: &str, salt: Vec<u8>, iterations: u32) -> Self {
        let salted = gen_salted_password(password, &salt, iterations as usize);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client_key.as_ref());
        Self {
            iterations,
            salt,
            stored_key: key(stored.as_ref()),
            server_key: key(sign(&salted, b"Server Key").as_ref()),
        }
    }

    /// A verifier that no password fits, the same one for the same name: an unknown user is asked for
    /// a password like any other.
    pub fn of_nobody(secret: &[u8], user: &str) -> Self {
        let salt = sign(secret, user.as_bytes());
        let keys = sign(secret, b"no password has these keys");
        let salt = salt.as_ref().iter().copied().take(16).collect();
        let keys = key(keys.as_ref());
        Self { iterations: ITERATIONS, salt, stored_key: keys, server_key: keys }
    }
}

// The keys are secret: whoever has them can pretend to be the server.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(hidden)")
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] = [&self.salt[..], &self.stored_key, &self.server_key]
            .map(|bytes| STANDARD.encode(bytes));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "it is not of the form SCRAM-SHA-256$<iterations>:<salt>$<key>:<key>";
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| WRONG);
        let decode_key = |text: &str| <[u8; KEY]>::try_from(decode(text)?).map_err(|_| WRONG);
        let rest = text.strip_prefix(MECHANISM).and_then(|rest| rest.strip_prefix('$'));
        let (parameters, keys) = rest.and_then(|rest| rest.split_once('$')).ok_or(WRONG)?;
        let (iterations, salt) = parameters.split_once(':').ok_or(WRONG)?;
        let (stored, server) = keys.split_once(':').ok_or(WRONG)?;
        Ok(Self {
            iterations: iterations.parse().ok().filter(|rounds| *rounds > 0).ok_or(WRONG)?,
            salt: decode(salt)?,
            stored_key: decode_key(stored)?,
            server_key: decode_key(server)?,
        })
    }
}

/// An exchange that waits for the client's proof.
pub struct Challenge {
    verifier: Verifier,
    header: String,
    nonce: String,
    /// `bare first message , server's first message ,` as both sides sign it.
    signed: String,
}

impl Challenge {
    /// Answers the client's first message. Also returns what to send.
    pub fn new(verifier: Verifier, first: &[u8]) -> Result<(Self, String), Refusal> {
        let ours = random::<18>().map_err(|_| Refusal::Malformed)?;
        Self::with_nonce(verifier, first, &STANDARD.encode(ours))
    }

    fn with_nonce(verifier: Verifier, first: &[u8], ours: &str) -> Result<(Self, String), Refusal> {
        let first = std::str::from_utf8(first).map_err(|_| Refusal::Malformed)?;
        // 'y' says that the client could bind to the channel and believes that we cannot: it is right.
        let header = ["n,,", "y,,"].into_iter().find(|header| first.starts_with(header));
        let header = header.ok_or(Refusal::Malformed)?;
        let bare = &first[header.len()..];
        let theirs = attribute(bare, "r=").filter(|nonce| !nonce.is_empty());
        let nonce = format!("{}{ours}", theirs.ok_or(Refusal::Malformed)?);
        let salt = STANDARD.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let signed = format!("{bare},{answer},");
        Ok((Self { verifier, header: header.to_owned(), nonce, signed }, answer))
    }

    /// Checks the client's proof and returns ours.
    pub fn verify(&self, last: &[u8]) -> Result<String, Refusal> {
        let last = std::str::from_utf8(last).map_err(|_| Refusal::Malformed)?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(Refusal::Malformed)?;
        let proof = STANDARD.decode(proof).map_err(|_| Refusal::Malformed)?;
        let proof = <[u8; KEY]>::try_from(proof).map_err(|_| Refusal::Malformed)?;
        let header = attribute(without_proof, "c=").ok_or(Refusal::Malformed)?;
        let nonce = attribute(without_proof, "r=").ok_or(Refusal::Malformed)?;
        if header != STANDARD.encode(&self.header) || nonce != self.nonce {
            return Err(Refusal::Malformed);
        }
        let signed = format!("{}{without_proof}", self.signed);
        let signature = sign(&self.verifier.stored_key, signed.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature.as_ref()).for_each(|(byte, with)| *byte ^= with);
        let stored = digest::digest(&digest::SHA256, &client_key);
        if !same(stored.as_ref(), &self.verifier.stored_key) {
            return Err(Refusal::WrongPassword);
        }
        let signature = sign(&self.verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

/// The value of an attribute of a message.
fn attribute<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|attribute| attribute.strip_prefix(name))
}

fn sign(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

/// Compares without telling by its duration where two hashes differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

fn key(bytes: &[u8]) -> [u8; KEY] {
    let mut key = [0; KEY];
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    key
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The exchange printed in RFC 7677, section 3.
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const ANSWER: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn pencil() -> Verifier {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        Verifier::with_salt("pencil", salt, 4096)
    }

    #[test]
    fn the_exchange_of_the_standard_succeeds() {
        let (challenge, answer) = Challenge::with_nonce(pencil(), FIRST, OURS).unwrap();
        assert_eq!(answer, ANSWER);
        let signature = challenge.verify(LAST.as_bytes()).unwrap();
        assert_eq!(signature, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn another_password_or_another_proof_fails() {
        let (challenge, _) = Challenge::with_nonce(pencil(), FIRST, OURS).unwrap();
        let forged = LAST.replace("p=dHzb", "p=dHzc");
        assert_eq!(challenge.verify(forged.as_bytes()), Err(Refusal::WrongPassword));
        let other = Verifier::with_salt("pencils", pencil().salt, 4096);
        let (challenge, _) = Challenge::with_nonce(other, FIRST, OURS).unwrap();
        assert_eq!(challenge.verify(LAST.as_bytes()), Err(Refusal::WrongPassword));
    }

    #[test]
    fn messages_that_break_the_protocol_are_refused() {
        for first in ["", "n,,", "n,,n=user", "p=tls-server-end-point,,n=,r=x", "n,a=root,n=,r=x"] {
            assert!(Challenge::with_nonce(pencil(), first.as_bytes(), OURS).is_err(), "{first}");
        }
        let (challenge, _) = Challenge::with_nonce(pencil(), FIRST, OURS).unwrap();
        let replayed = LAST.replace("%hvY", "%hvX");
        let unbound = LAST.replace("c=biws", "c=eSws");
        for last in ["", "p=", &replayed, &unbound, "c=biws,r=x,p=AAAA"] {
            assert_eq!(challenge.verify(last.as_bytes()), Err(Refusal::Malformed), "{last}");
        }
    }

    #[test]
    fn a_verifier_survives_its_text_and_hides_in_debug() {
        let verifier = Verifier::new("correct horse").unwrap();
        let text = verifier.to_string();
        assert_eq!(text.parse::<Verifier>().unwrap(), verifier);
        assert_eq!(format!("{verifier:?}"), "Verifier(hidden)");
        for text in ["", "secret", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:x$y:z"] {
            assert!(text.parse::<Verifier>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_user_gets_the_same_salt_every_time() {
        let one = Verifier::of_nobody(b"secret", "alice");
        assert_eq!(one, Verifier::of_nobody(b"secret", "alice"));
        assert_ne!(one.salt, Verifier::of_nobody(b"secret", "bob").salt);
    }
}
