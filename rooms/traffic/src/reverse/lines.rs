//! The lines of a control connection: JSON objects. Text in, text out.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::{Account, Pacing, Transport};

/// The first line of a connection to a receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum First {
    /// Of a control connection: a request for messages.
    Request(Request),
    /// Of the TCP connection that carries them; over UDP a separate datagram.
    Token {
        /// The token of the grant.
        token: String,
    },
}

/// The requested messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Their direction.
    pub(crate) want: Want,
    /// Transport protocol.
    pub(crate) transport: Transport,
    /// Number of the session, in either direction.
    pub(crate) session: u16,
    /// Bytes of a message.
    pub(crate) payload: usize,
    /// Time between messages.
    pub(crate) interval_ns: u64,
    /// For how long.
    pub(crate) duration_ns: u64,
    /// Their max number.
    pub(crate) count: Option<NonZeroU64>,
    /// Their pacing.
    pub(crate) pacing: Pacing,
}

/// Direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Want {
    /// To the client.
    Reverse,
    /// Both ways.
    Bidir,
}

/// The later lines of both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// Granted: messages start once the token arrives.
    Granted {
        /// Eight random bytes in hexadecimal.
        token: String,
    },
    /// Refused, for this reason.
    Refused(String),
    /// This end has sent all.
    Sent(Sent),
    /// This end's ledger. `None`: it was sent nothing.
    Account(Option<Box<Account>>),
}

/// The sent messages of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Their number.
    pub(crate) messages: u64,
    /// Scheduled messages that were not sent. `None`: without a schedule.
    pub(crate) shortfall: Option<u64>,
    /// Random number of its run; 0: none.
    pub(crate) incarnation: u32,
}

/// Version of these lines.
pub(crate) const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_and_a_token_are_told_apart() {
        let text = r#"{"version":1,"want":"reverse","transport":"udp","session":7,"payload":1000,"interval_ns":5,"duration_ns":9,"count":null,"pacing":"schedule"}"#;
        let request = Request {
            version: VERSION,
            want: Want::Reverse,
            transport: Transport::Udp,
            session: 7,
            payload: 1000,
            interval_ns: 5,
            duration_ns: 9,
            count: None,
            pacing: Pacing::Schedule,
        };
        let request = First::Request(request);
        assert_eq!((serde_json::to_string(&request).unwrap().as_str(), parsed(text)), (text, Ok(request)));
        let token = First::Token { token: "00ff".into() };
        assert_eq!(parsed(r#"{"token":"00ff"}"#), Ok(token));
        for foreign in ["{}", "GET / HTTP/1.1", r#"{"token":7}"#, r#"{"want":"reverse"}"#, ""] {
            assert!(parsed::<First>(foreign).is_err(), "{foreign}");
        }
    }

    #[test]
    fn answers_read_as_they_are_documented() {
        let account = Account::nothing("10.0.0.1:7".parse().unwrap(), 3, None);
        for (line, text) in [
            (Line::Granted { token: "00ff".into() }, r#"{"granted":{"token":"00ff"}}"#),
            (Line::Refused("at most 1".into()), r#"{"refused":"at most 1"}"#),
            (
                Line::Sent(Sent { messages: 9, shortfall: None, incarnation: 4 }),
                r#"{"sent":{"messages":9,"shortfall":null,"incarnation":4}}"#,
            ),
            (Line::Account(None), r#"{"account":null}"#),
        ] {
            assert_eq!((serde_json::to_string(&line).unwrap().as_str(), parsed(text)), (text, Ok(line)));
        }
        // Numbers come back exactly, so that both ends print the same.
        let line = Line::Account(Some(Box::new(Account { jitter_us: Some(0.1 + 0.2), ..account })));
        assert_eq!(parsed(&serde_json::to_string(&line).unwrap()), Ok(line));
    }
}
