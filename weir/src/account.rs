//! `--account` of `send` and `recv`: the loss room's account of the command's own datagrams, after its report.

use anyhow::Result;
use serde::Serialize;
use weir_program::output::say;

/// The end of the traffic that the report is about.
pub(crate) enum End {
    /// The sender's.
    Sent,
    /// The receiver's, which listened on this port.
    #[cfg_attr(not(feature = "rooms"), expect(dead_code, reason = "only the loss room asks for the port"))]
    Received(u16),
}

#[cfg(feature = "rooms")]
pub(crate) use weir_loss::account::OwnTraffic;

/// Prints a report with the account of its traffic, if that was followed: as one JSON object, or with `print` and then the
/// account.
#[cfg(feature = "rooms")]
pub(crate) fn print_with_account(
    json: bool,
    report: &impl Serialize,
    (followed, end): (Option<OwnTraffic>, End),
    print: impl FnOnce(),
) -> Result<()> {
    use weir_loss::account::{ReceivedSession, SentSession, Sessions, with_account};

    let close = |followed: OwnTraffic| -> Result<_> {
        let report = serde_json::to_value(report)?;
        followed.end(&match end {
            End::Sent => Sessions { sent: Some(SentSession::from_json(report)?), received: None },
            End::Received(port) => {
                let received = ReceivedSession { port, ..ReceivedSession::from_json(report)? };
                Sessions { sent: None, received: Some(received) }
            }
        })
    };
    let account = followed.map(close).transpose()?;
    if json {
        say!("{}", with_account(report, account.as_ref())?);
        return Ok(());
    }
    print();
    if let Some(account) = account {
        say!("\n{}", weir_loss::statement::of(&account).trim_end());
    }
    Ok(())
}

/// Without the loss room nothing is followed.
#[cfg(not(feature = "rooms"))]
pub(crate) enum OwnTraffic {}

#[cfg(not(feature = "rooms"))]
impl OwnTraffic {
    pub(crate) fn follow(_port: u16) -> Result<Self> {
        Err(crate::not_in_this_build("--account"))
    }
}

#[cfg(not(feature = "rooms"))]
pub(crate) fn print_with_account(
    json: bool,
    report: &impl Serialize,
    _: (Option<OwnTraffic>, End),
    print: impl FnOnce(),
) -> Result<()> {
    if json {
        say!("{}", serde_json::to_string(report)?);
    } else {
        print();
    }
    Ok(())
}
