//! Messages of clients, looked at before the protocol's library decodes them.
//!
//! The library takes the numbers in a message for granted: a count or a length that leads beyond the end of the message
//! ends its task. Here a message is cut from the connection as a whole, walked through once, and only then decoded.

use bytes::BytesMut;
use datafusion_postgres::pgwire::api::{ClientInfo, PgWireConnectionState};
use datafusion_postgres::pgwire::error::PgWireError;
use datafusion_postgres::pgwire::messages::PgWireFrontendMessage;
use datafusion_postgres::pgwire::tokio::server::{MaybeTls, PgWireMessageServerCodec};
use tokio::io::AsyncReadExt;
use tokio_util::codec::{Decoder, Framed};

use crate::wire::{self, state};

/// Bytes of a message: a statement of the largest size with its parameters.
const MOST_BYTES: usize = 16 << 20;

/// Bytes of a message of somebody who has not logged in.
const MOST_BYTES_BEFORE_LOGIN: usize = 10_000;

/// Bytes that are read at once.
const READ: usize = 8 << 10;

/// What comes next from a client.
pub enum Next {
    /// A message.
    Message(PgWireFrontendMessage),
    /// One that cannot be understood, and whether it is part of the extended protocol.
    Invalid(PgWireError, bool),
    /// Nothing more.
    End,
}

/// Waits for the next message.
pub async fn next<S>(
    socket: &mut Framed<MaybeTls, PgWireMessageServerCodec<S>>,
) -> std::io::Result<Next> {
    loop {
        let starts = matches!(socket.state(), PgWireConnectionState::AwaitingStartup);
        let logged_in =
            !starts && !matches!(socket.state(), PgWireConnectionState::AuthenticationInProgress);
        let most = if logged_in { MOST_BYTES } else { MOST_BYTES_BEFORE_LOGIN };
        match whole_length(socket.read_buffer(), starts, most) {
            Err(error) => return Ok(Next::Invalid(error, false)),
            Ok(Some(length)) if socket.read_buffer().len() >= length => {
                let mut message = socket.read_buffer_mut().split_to(length);
                return Ok(decoded(socket.codec_mut(), &mut message, starts));
            }
            Ok(_) => {}
        }
        let mut more = BytesMut::with_capacity(READ);
        if socket.get_mut().read_buf(&mut more).await? == 0 {
            return Ok(Next::End);
        }
        socket.read_buffer_mut().extend_from_slice(&more);
    }
}

fn decoded<S>(
    codec: &mut PgWireMessageServerCodec<S>,
    message: &mut BytesMut,
    starts: bool,
) -> Next {
    let kind = if starts { 0 } else { message.first().copied().unwrap_or(0) };
    let extended = matches!(kind, b'P' | b'B' | b'C' | b'D' | b'E' | b'H' | b'S');
    if let (false, Some(body)) = (starts, message.get(5..))
        && let Err(Malformed) = check(kind, body)
    {
        let error = wire::error(state::PROTOCOL, "invalid message format");
        return Next::Invalid(error, extended);
    }
    match codec.decode(message) {
        Ok(Some(message)) => Next::Message(message),
        Ok(None) => Next::Invalid(wire::fatal(state::PROTOCOL, "incomplete message"), false),
        Err(_) => Next::Invalid(wire::fatal(state::PROTOCOL, "invalid message"), false),
    }
}

/// How long the message is that begins here, once that can be told.
fn whole_length(bytes: &[u8], starts: bool, most: usize) -> Result<Option<usize>, PgWireError> {
    // All messages but the first begin with their kind.
    let kind = usize::from(!starts);
    let Some(length) = bytes.get(kind..kind + 4).and_then(|length| length.first_chunk::<4>())
    else {
        return Ok(None);
    };
    let least = if starts { 8 } else { 4 };
    match usize::try_from(i32::from_be_bytes(*length)) {
        Ok(length) if length > most => {
            let message = format!("a message has at most {most} bytes");
            Err(wire::fatal(state::PROTOCOL, message))
        }
        Ok(length) if length >= least => Ok(Some(kind + length)),
        _ => Err(wire::fatal(state::PROTOCOL, "invalid message length")),
    }
}

/// A message whose numbers do not fit it.
#[derive(Debug, PartialEq)]
struct Malformed;

/// Walks through a message as the library will.
fn check(kind: u8, body: &[u8]) -> Result<(), Malformed> {
    let mut rest = Cursor(body);
    match kind {
        b'Q' => rest.text()?,
        b'P' => {
            rest.text()?;
            rest.text()?;
            let types = rest.count()?;
            rest.skip(types * 4)?;
        }
        b'B' => {
            rest.text()?;
            rest.text()?;
            rest.formats()?;
            for _ in 0..rest.count()? {
                match rest.length()? {
                    -1 => {}
                    length => rest.skip(usize::try_from(length).map_err(|_| Malformed)?)?,
                }
            }
            rest.formats()?;
        }
        b'E' => {
            rest.text()?;
            rest.length()?;
        }
        b'C' | b'D' => {
            match rest.0.split_first() {
                Some((b'S' | b'P', after)) => rest.0 = after,
                _ => return Err(Malformed),
            }
            rest.text()?;
        }
        b'H' | b'S' | b'X' => {}
        // A password is looked at where it is checked; copying is refused.
        _ => return Ok(()),
    }
    if rest.0.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// What was not walked through yet.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn skip(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.0 = self.0.get(bytes..).ok_or(Malformed)?;
        Ok(())
    }

    fn text(&mut self) -> Result<(), Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        self.skip(end + 1)
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        let (count, after) = self.0.split_first_chunk::<2>().ok_or(Malformed)?;
        self.0 = after;
        Ok(usize::from(u16::from_be_bytes(*count)))
    }

    fn length(&mut self) -> Result<i32, Malformed> {
        let (length, after) = self.0.split_first_chunk::<4>().ok_or(Malformed)?;
        self.0 = after;
        Ok(i32::from_be_bytes(*length))
    }

    /// Formats of parameters or columns: 0 is text, 1 is binary.
    fn formats(&mut self) -> Result<(), Malformed> {
        for _ in 0..self.count()? {
            if self.count()? > 1 {
                return Err(Malformed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_walked_through_to_their_end_and_no_further() {
        for (kind, body) in [
            (b'P', &b"\0SELECT $1\0\0\x01\0\0\0\x17"[..]),
            (b'B', b"\0\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'D', b"Sname\0"),
            (b'S', b""),
            (b'Q', b"SELECT 1\0"),
        ] {
            assert_eq!(check(kind, body), Ok(()), "{body:?}");
            for end in 0..body.len() {
                assert_eq!(check(kind, &body[..end]), Err(Malformed), "{body:?} {end}");
            }
            assert_eq!(check(kind, &[body, b"x"].concat()), Err(Malformed), "{body:?}");
        }
        // A negative length, a format that does not exist, a kind of name that does not exist.
        assert_eq!(check(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), Err(Malformed));
        assert_eq!(check(b'B', b"\0\0\0\x01\0\x07\0\0\0\0"), Err(Malformed));
        assert_eq!(check(b'C', b"Qname\0"), Err(Malformed));
    }
}
